//! How exact the filters are: one row for each format, family of kernels and border, against the
//! float64 definition, and on the GPU against the CPU's bytes. Fails where a row is out of the contract.
//!
//! `exactness [--backend cpu|cuda]`; `scripts/bench.sh exactness` runs it for both.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gst_video::VideoFormat;
use gstcudaconv::filter::spec::{Alpha, Border, Kernel, Method, Planes};
use gstcudaconv::filter::{FilterSpec, Plan, reference};

#[path = "../formats/support.rs"]
mod support;

use support::*;

/// Odd in both directions, and several vectors and tiles wide.
const SIZES: [(u32, u32); 2] = [(33, 17), (70, 40)];

const FAMILIES: [(&str, &[Kernel]); 11] = [
    ("identity", &[Kernel::Identity]),
    (
        "box",
        &[Kernel::Box3, Kernel::Box5, Kernel::Box7, Kernel::Box],
    ),
    (
        "gauss",
        &[
            Kernel::Gauss3,
            Kernel::Gauss5,
            Kernel::Gauss7,
            Kernel::Gauss9,
            Kernel::Gauss,
        ],
    ),
    ("sharpen", &[Kernel::Sharpen, Kernel::Unsharp]),
    ("emboss", &[Kernel::Emboss]),
    (
        "edges",
        &[
            Kernel::Laplacian,
            Kernel::SobelX,
            Kernel::SobelY,
            Kernel::ScharrX,
            Kernel::ScharrY,
            Kernel::PrewittX,
            Kernel::PrewittY,
        ],
    ),
    (
        "magnitude",
        &[Kernel::Sobel, Kernel::Scharr, Kernel::Prewitt],
    ),
    ("custom", &[Kernel::Custom]),
    ("bilateral", &[Kernel::Bilateral]),
    // `method=fft`.
    ("fft", &[]),
    // `method=separable` of kernels of low rank.
    ("separable", &[]),
];

/// The filters of one kernel, with sizes and strengths that are no presets.
fn specs(kernel: Kernel, border: Border) -> Vec<FilterSpec> {
    let spec = FilterSpec {
        kernel,
        border,
        border_value: 77.0,
        planes: Planes::All,
        alpha: Alpha::Filter,
        ..FilterSpec::default()
    };
    match kernel {
        Kernel::Box => vec![FilterSpec { radius: 4, ..spec }],
        Kernel::Gauss => vec![FilterSpec {
            radius: 4,
            sigma: 1.3,
            ..spec
        }],
        Kernel::Sharpen => vec![FilterSpec {
            amount: 0.7,
            ..spec
        }],
        Kernel::Unsharp => vec![FilterSpec {
            sigma: 0.9,
            amount: 0.8,
            ..spec
        }],
        Kernel::Bilateral => [(2, 1.5, 40.0), (4, 3.0, 12.0)]
            .map(|(radius, sigma_space, sigma_color)| FilterSpec {
                radius,
                sigma_space,
                sigma_color,
                ..spec.clone()
            })
            .into(),
        Kernel::Custom => [
            "3 -1 4; 1 -5 9; 2 6 -7",
            "1 2 4 8 16;",
            "0.3; -0.2; 0.7",
            "0.25 -0.5 0.125 1 0.3; 0 0.7 0 0 -0.1; 1 1 0.9 1 1",
        ]
        .map(|matrix| FilterSpec {
            matrix: Some(matrix.parse().expect("a matrix")),
            ..spec.clone()
        })
        .into(),
        _ => vec![spec],
    }
}

/// Filters by the Fourier transform: large ones, and one of whole sums whose halves are ties.
fn transforms(border: Border) -> Vec<FilterSpec> {
    let spec = |kernel, radius| FilterSpec {
        kernel,
        radius,
        border,
        border_value: 77.0,
        method: Method::Fft,
        planes: Planes::All,
        alpha: Alpha::Filter,
        ..FilterSpec::default()
    };
    let weights = (0..15 * 11).map(|i| format!("{} ", f64::from(i * 29 % 53) / 7.0));
    let rows: Vec<String> = weights.collect();
    let rows: Vec<String> = rows.chunks(15).map(|row| row.concat()).collect();
    vec![
        spec(Kernel::Box, 9),
        spec(Kernel::Gauss, 6),
        FilterSpec {
            divisor: 2.0,
            ..spec(Kernel::Emboss, 0)
        },
        FilterSpec {
            matrix: Some(rows.join(";").parse().expect("a matrix")),
            ..spec(Kernel::Custom, 0)
        },
    ]
}

/// Kernels that are the sum of few products of a column and a row.
fn sums_of_products(border: Border) -> Vec<FilterSpec> {
    let kernels = [Kernel::Laplacian, Kernel::Sharpen, Kernel::Unsharp];
    let specs = kernels.into_iter().flat_map(|kernel| specs(kernel, border));
    let by_products = |spec| FilterSpec {
        method: Method::Separable,
        ..spec
    };
    specs.map(by_products).collect()
}

/// What was found of one format, family and border.
#[derive(Debug, Clone, Default)]
struct Row {
    samples: u64,
    /// Samples that are not the definition's, and the largest distance from it.
    different: u64,
    largest: u32,
    /// The same against the CPU, where that is another engine.
    from_cpu: u64,
    largest_from_cpu: u32,
}

impl Row {
    fn measure(format: VideoFormat, family: usize, border: Border) -> Row {
        let mut row = Row::default();
        for (width, height) in SIZES {
            let layout = layout(format, width, height);
            let input = Picture::new(&layout, Placement::Odd, scene(layout.depth));
            let (name, kernels) = FAMILIES[family];
            let specs: Vec<FilterSpec> = match name {
                "fft" => transforms(border),
                "separable" => sums_of_products(border),
                _ => kernels
                    .iter()
                    .flat_map(|&kernel| specs(kernel, border))
                    .collect(),
            };
            for spec in specs {
                row.add(&spec, &input);
            }
        }
        row
    }

    fn add(&mut self, spec: &FilterSpec, input: &Picture) {
        let layout = &input.layout;
        let result = run(&plan(spec, layout), input, Placement::Aligned, false);
        let scalar = (engine().backend() != "cpu").then(|| {
            let spec = FilterSpec {
                method: Method::Naive,
                ..spec.clone()
            };
            let cpu = cpu_engine();
            let plan = Plan::new(&spec, layout, cpu.abilities()).expect("the CPU does all");
            run_on(cpu, &Arc::new(plan), input, Placement::Tight, false)
        });
        let expected = reference::filter(spec, layout, &input.planes(), false);
        for component in expected.expect("every format takes it") {
            let (group, channel) = (component.group, component.channel);
            let found = result.codes(group, channel);
            self.samples += found.len() as u64;
            for (a, b) in found.iter().zip(&component.codes) {
                self.different += u64::from(a != b);
                self.largest = self.largest.max(a.abs_diff(*b));
            }
            let scalar = scalar.as_ref().map(|s| s.codes(group, channel));
            for (a, b) in found.iter().zip(scalar.iter().flatten()) {
                self.from_cpu += u64::from(a != b);
                self.largest_from_cpu = self.largest_from_cpu.max(a.abs_diff(*b));
            }
        }
    }

    /// Within one code value of the definition, and equal to it on 99.9 % of the samples at 8 to 12
    /// bits and on 99 % at 16; the CPU's bytes, or for the bilateral one code value from them on
    /// fewer than 1 in 1,000, and for transforms and sums of products on as many as from the definition.
    fn is_within(&self, depth: u32, family: &str) -> bool {
        let per_thousand = if depth > 12 { 10 } else { 1 };
        let near = self.largest <= 1 && self.different * 1000 <= self.samples * per_thousand;
        let same = match family {
            "bilateral" => self.largest_from_cpu <= 1 && self.from_cpu * 1000 < self.samples,
            "fft" | "separable" => {
                self.largest_from_cpu <= 1 && self.from_cpu * 1000 <= self.samples * per_thousand
            }
            _ => self.from_cpu == 0,
        };
        self.samples > 0 && near && same
    }
}

/// The rows of all formats, families and borders, in that order, by as many threads as there are
/// processors.
fn measure_all(formats: &[VideoFormat]) -> Vec<Row> {
    let count = formats.len() * FAMILIES.len() * BORDERS.len();
    let rows = Mutex::new(vec![None; count]);
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let (rest, border) = (index / BORDERS.len(), BORDERS[index % BORDERS.len()]);
                    let (format, family) = (rest / FAMILIES.len(), rest % FAMILIES.len());
                    let row = Row::measure(formats[format], family, border);
                    rows.lock().expect("no thread panicked")[index] = Some(row);
                }
            });
        }
    });
    let rows = rows.into_inner().expect("no thread panicked");
    rows.into_iter().map(|row| row.expect("measured")).collect()
}

fn print(formats: &[VideoFormat], rows: &[Row]) -> usize {
    let backend = engine().backend();
    println!("exactness on {}, {backend}", engine().device());
    println!(
        "format      family     border      backend  largest error  equal %   unequal to the CPU"
    );
    let mut outside = 0;
    for (index, row) in rows.iter().enumerate() {
        let (rest, border) = (index / BORDERS.len(), BORDERS[index % BORDERS.len()]);
        let (format, family) = (
            formats[rest / FAMILIES.len()],
            FAMILIES[rest % FAMILIES.len()].0,
        );
        let within = row.is_within(layout(format, 2, 2).depth, family);
        outside += usize::from(!within);
        println!(
            "{:<11} {family:<10} {:<11} {backend:<8} {:>13}  {:>8.4}  {:>8}{}",
            format.to_str().as_str(),
            format!("{border:?}").to_lowercase(),
            row.largest,
            100.0 - 100.0 * row.different as f64 / row.samples as f64,
            row.from_cpu,
            if within { "" } else { "  OUT OF THE CONTRACT" }
        );
    }
    let samples: u64 = rows.iter().map(|row| row.samples).sum();
    let different: u64 = rows.iter().map(|row| row.different).sum();
    let largest = rows.iter().map(|row| row.largest).max().unwrap_or(0);
    println!(
        "{} rows on {backend}, {outside} out of the contract: {samples} samples, {different} not \
         the definition's, the largest error {largest}, {} not the CPU's",
        rows.len(),
        rows.iter().map(|row| row.from_cpu).sum::<u64>()
    );
    outside
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {}
        ["--backend", backend @ ("cpu" | "cuda")] => {
            // SAFETY: no other thread runs yet.
            unsafe { std::env::set_var("CUDACONV_TEST_BACKEND", backend) };
        }
        _ => {
            eprintln!("usage: exactness [--backend cpu|cuda]");
            return ExitCode::from(2);
        }
    }
    gst::init().expect("GStreamer starts");
    let mut all: Vec<Kernel> = FAMILIES
        .iter()
        .flat_map(|(_, kernels)| *kernels)
        .copied()
        .collect();
    all.sort_by_key(|kernel| *kernel as i32);
    assert_eq!(all, kernels(), "every kernel is of one family");
    let formats = formats();
    let rows = measure_all(&formats);
    match print(&formats, &rows) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
