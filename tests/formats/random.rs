//! Random cases: any format, size, layout of memory and filter gives what the definition gives. What
//! fails is shrunk, and told as a line for [`cases_that_were_wrong_once`].
//!
//! `PROPTEST_CASES=5000` tries more.

use std::cell::RefCell;
use std::sync::Arc;

use gstcudaconv::filter::kernels::Filter;
use gstcudaconv::filter::spec::{Alpha, Distance, Kernel, Matrix, Method, Planes, Window};
use gstcudaconv::filter::{FilterSpec, Plan, reference};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::case::Case;
use super::support::*;

/// Runs `check` on `cases` values, or on as many as the environment says; the same each time.
///
/// # Panics
/// With the simplest value that fails.
pub fn for_all<S: Strategy>(cases: u32, strategy: S, check: impl Fn(S::Value)) {
    let cases = match std::env::var("PROPTEST_CASES") {
        Ok(_) => Config::default().cases,
        Err(_) => cases,
    };
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&strategy, |value| {
        check(value);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

pub fn any_format() -> impl Strategy<Value = gst_video::VideoFormat> {
    prop::sample::select(formats())
}

pub fn any_side() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 1u32..40, 1 => 1u32..200, 1 => Just(64)]
}

pub fn any_place() -> impl Strategy<Value = Placement> {
    let gap = prop_oneof![Just(0usize), 0usize..9, 0usize..130];
    (prop_oneof![Just(0usize), 0usize..70], gap, any::<bool>())
        .prop_map(|(lead, gap, apart)| Placement::Chosen { lead, gap, apart })
}

/// Whole numbers, fractions and zeros, of any rank.
pub fn any_matrix() -> impl Strategy<Value = Matrix> {
    let side = || prop_oneof![6 => 0usize..4, 1 => 0usize..16].prop_map(|half| 2 * half + 1);
    (side(), side()).prop_flat_map(|(width, height)| {
        let whole = (-9i32..10).prop_map(|k| k as f32);
        let number = prop_oneof![whole.boxed(), (-2.0f32..2.0).boxed(), Just(0.0).boxed()];
        let rank_one = (
            prop::collection::vec(number.clone(), width),
            prop::collection::vec(number.clone(), height),
        )
            .prop_map(|(row, column)| -> Vec<f32> {
                (column.iter())
                    .flat_map(|c| row.iter().map(move |r| r * c))
                    .collect()
            });
        let any_rank = prop::collection::vec(number, width * height);
        prop_oneof![any_rank.boxed(), rank_one.boxed()].prop_map(move |coefficients| Matrix {
            width,
            height,
            coefficients,
        })
    })
}

fn any_spec() -> impl Strategy<Value = FilterSpec> {
    let numbers = (
        prop_oneof![4 => Just(0.0), 1 => -300.0..300.0, 1 => Just(0.5)],
        prop_oneof![4 => 0u32..4, 1 => 0u32..33],
        prop_oneof![Just(0.0), 0.1..4.0],
        0.0..4.0,
        0.3..4.0,
        1.0..255.0,
        prop_oneof![Just(0.0), 0.0..255.0, Just(255.0)],
        prop_oneof![4 => Just(0.0), 1 => -40.0..40.0, 1 => Just(16.0)],
    );
    let choices = (
        prop::sample::select(BORDERS.to_vec()),
        prop::sample::select(vec![Planes::Auto, Planes::All, Planes::Luma]),
        prop::sample::select(vec![Alpha::Copy, Alpha::Filter, Alpha::Premultiply]),
        prop::sample::select(vec![Window::Circle, Window::Square]),
        prop::sample::select(vec![Distance::L1, Distance::L2]),
        prop::sample::select(vec![
            Method::Auto,
            Method::Naive,
            Method::Tile,
            Method::Separable,
            Method::Fft,
        ]),
    );
    let kernel = prop::sample::select(kernels());
    (kernel, any_matrix(), numbers, choices).prop_map(|(kernel, matrix, numbers, choices)| {
        let (bias, radius, sigma, amount, sigma_space, sigma_color, border_value, divisor) =
            numbers;
        let (border, planes, alpha, window, distance, method) = choices;
        let bilateral = kernel == Kernel::Bilateral;
        FilterSpec {
            kernel,
            matrix: (kernel == Kernel::Custom).then_some(matrix),
            // A window of radius 32 takes the definition seconds.
            radius: if bilateral { radius % 7 } else { radius },
            bias,
            sigma,
            amount,
            sigma_space,
            sigma_color,
            border_value,
            divisor,
            border,
            planes,
            alpha,
            window,
            distance,
            method,
            ..FilterSpec::default()
        }
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let shape = (any_format(), any_side(), any_side(), any::<bool>());
    let places = (any_place(), any_place(), 0u64..1000);
    (shape, places, any_spec()).prop_map(|(shape, places, spec)| {
        let (format, width, height, interlaced) = shape;
        let (input, output, seed) = places;
        let mut case = Case {
            format,
            width,
            height,
            interlaced,
            seed,
            input,
            output,
            spec,
        };
        within_the_contract(&mut case);
        case
    })
}

/// What the sum of magnitudes is divided by; float32 cannot hold a result of small differences of
/// large numbers to one code value.
fn gain(spec: &FilterSpec) -> f64 {
    match Filter::new(spec, (1, 1)) {
        Some(Filter::Linear {
            coefficients,
            divisor,
        }) => coefficients.sum_of_magnitudes() / divisor.abs(),
        Some(Filter::Magnitude { x, divisor, .. }) => x.sum_of_magnitudes() / divisor.abs(),
        _ => 0.0,
    }
}

/// Brings a case to where one code value is promised.
fn within_the_contract(case: &mut Case) {
    let depth = case.layout().depth;
    let most = if depth > 8 { 4.0 } else { 64.0 };
    while gain(&case.spec) > most {
        let divisor = case.spec.divisor;
        case.spec.divisor = if divisor == 0.0 { 2.0 } else { divisor * 4.0 };
    }
    // A quotient by a small or negative filtered alpha is beyond float32 at 16 bits.
    let negative = !matches!(
        case.spec.kernel,
        Kernel::Identity
            | Kernel::Box3
            | Kernel::Box5
            | Kernel::Box7
            | Kernel::Box
            | Kernel::Gauss3
            | Kernel::Gauss5
            | Kernel::Gauss7
            | Kernel::Gauss9
            | Kernel::Gauss
            | Kernel::Bilateral
    );
    if case.spec.alpha == Alpha::Premultiply && (negative || case.spec.divisor < 0.0) {
        case.spec.alpha = Alpha::Filter;
    }
    // A method that cannot do it is refused, which is tested elsewhere.
    let abilities = engine().abilities();
    for alpha in [case.spec.alpha, Alpha::Filter] {
        for method in [case.spec.method, Method::Auto] {
            let spec = FilterSpec {
                method,
                alpha,
                ..case.spec.clone()
            };
            if Plan::new(&spec, &case.layout(), abilities).is_ok() {
                case.spec = spec;
                return;
            }
        }
    }
}

/// Compares a case with the definition and, where the bytes are promised, with the CPU's.
fn compare(case: &Case, agreement: &mut Agreement) {
    let input = case.picture();
    let layout = &input.layout;
    let plan = plan(&case.spec, layout);
    let result = run(&plan, &input, case.output, case.interlaced);
    let expected = reference::filter(&case.spec, layout, &input.planes(), case.interlaced);
    for component in expected.expect("a plan was made") {
        let found = result.codes(component.group, component.channel);
        let what = format!("group {} channel {}", component.group, component.channel);
        agreement.check(&found, &component.codes, layout.depth, false, &what);
    }
    let canonical = case.spec.method == Method::Auto && case.spec.kernel != Kernel::Bilateral;
    if canonical && engine().backend() != "cpu" {
        let cpu = cpu_engine();
        let spec = FilterSpec {
            method: Method::Naive,
            ..case.spec.clone()
        };
        let plan = Plan::new(&spec, layout, cpu.abilities()).expect("the CPU does all");
        let scalar = run_on(cpu, &Arc::new(plan), &input, case.output, case.interlaced);
        assert!(
            scalar.active_bytes() == result.active_bytes(),
            "not the CPU's bytes"
        );
    }
}

/// For lines that a random test printed.
fn is_right(line: &str) {
    let case: Case = line.parse().expect("a case");
    assert_eq!(case.to_string(), line, "every word is read");
    let mut agreement = Agreement::default();
    compare(&case, &mut agreement);
}

#[test]
fn any_case_gives_what_the_definition_gives() {
    let agreement = RefCell::new(Agreement::default());
    let cases = if engine().backend() == "cpu" {
        400
    } else {
        150
    };
    for_all(cases, any_case(), |case| {
        compare(&case, &mut agreement.borrow_mut());
    });
    println!("{}", agreement.borrow());
    agreement.borrow().finish();
}

#[test]
fn cases_that_were_wrong_once() {
    gst::init().unwrap();
    is_right("NV12 33x17 fields seed=7 in=3,5,each out=0,1,one kernel=gauss5 border=wrap");
    is_right(
        "GRAY16_BE 5x3 seed=1 in=0,0,one out=1,0,one kernel=custom border=constant bias=-3.5 matrix=0.1 -0.7 1;",
    );
}
