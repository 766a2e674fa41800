//! Every step of the ladder against float64, within what its arithmetic allows.

use gstcudaconv::engine::cuda::abi::ladder::{Kernel, RADIUS, Task};
use gstcudaconv::engine::cuda::ladder::Gpu;
use gstcudaconv::engine::ladder::steps::{self, Way};
use gstcudaconv::engine::ladder::{Errors, Job, climb};

use crate::support;

/// Smallest pictures, edges of blocks, of words and of the matrix units' tiles, and a large one.
const SIZES: [(usize, usize); 14] = [
    (1, 1),
    (2, 1),
    (1, 3),
    (3, 2),
    (5, 7),
    (8, 9),
    (15, 16),
    (17, 33),
    (31, 15),
    (63, 17),
    (65, 64),
    (130, 66),
    (257, 129),
    (641, 483),
];

/// The most that a step may be off, of the whole range, and the least share of equal pixels.
struct Bound {
    largest: f64,
    equal: f64,
}

const CODE: f64 = 1.0 / 255.0;
/// Code values divided by 255 are equal or differ by more.
const ROUNDING: f64 = 1e-9;

fn bound(kernel: Kernel) -> Bound {
    use Kernel::*;
    let within = |largest| Bound {
        largest,
        equal: 0.0,
    };
    let exact = Bound {
        largest: CODE + ROUNDING,
        equal: 0.999,
    };
    match kernel {
        // Nine products of float32, of sums up to 1.
        ConvolveNaive | ConvolveTile | ConvolveConstant | ConvolveFused | ConvolveTexture
        | ConvolveAcross | ConvolveDown => within(1e-6),
        // Picture, weights and each of nine sums are rounded to 11 bits.
        ConvolveHalf2 => within(11.0 / 4096.0),
        // Picture, weights and the result are.
        ConvolveMatrix => within(3.0 / 4096.0),
        // Picture and result are rounded to codes; weights are off by 1.8 of 256 at the centre, by half as
        // much in all others together, and their sum is right: half of the range is multiplied by that.
        ConvolveInt8 => within(CODE + 3.6 / 512.0),
        BilateralNaive | BilateralTile | BilateralConstant | BilateralTexture => exact,
        BilateralAcross | BilateralDown => exact,
        // Exponents have 11 bits, so weights are off by up to 0.4 %, and sums of 15 by as much.
        BilateralHalf2 => within(2.0 * CODE + ROUNDING),
        // Weights have 8 bits: small ones are lost, all are off by up to 1 of 255.
        BilateralInt8 => within(3.0 * CODE + ROUNDING),
    }
}

/// What the two passes of the approximation compute, in float64.
fn two_passes(job: &Job) -> Vec<f64> {
    let codes: Vec<f64> = job.codes().into_iter().map(f64::from).collect();
    let pass = |values: &[f64], across: bool| -> Vec<f64> {
        let at = |x: isize, y: isize| {
            let x = x.clamp(0, job.width as isize - 1) as usize;
            values[y.clamp(0, job.height as isize - 1) as usize * job.width + x]
        };
        let places =
            (0..job.height as isize).flat_map(|y| (0..job.width as isize).map(move |x| (x, y)));
        let mean = |(x, y)| {
            let centre = at(x, y);
            let (mut sum, mut weights) = (0.0, 0.0);
            for i in -(RADIUS as isize)..=RADIUS as isize {
                let value = if across { at(x + i, y) } else { at(x, y + i) };
                let (distance, difference) = (i as f64 / 5.0, (value - centre) / 25.0);
                let weight = (-(distance * distance + difference * difference) / 2.0).exp();
                sum += weight * value;
                weights += weight;
            }
            sum / weights
        };
        places.map(mean).collect()
    };
    let results = pass(&pass(&codes, true), false);
    let rounded = results.into_iter().map(|v| v.round_ties_even() / 255.0);
    rounded.collect()
}

fn gpu() -> Option<Gpu> {
    support::gpu(1)?;
    Some(Gpu::open(-1).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn every_step_computes_what_it_is_to() {
    let Some(gpu) = gpu() else { return };
    for task in [Task::Convolve, Task::Bilateral] {
        // Under the sanitizer few and small ones stand for all.
        let (count, step) = if support::quick() {
            (12, 2)
        } else {
            (SIZES.len(), 1)
        };
        let sizes = SIZES[..count].iter().step_by(step);
        let jobs: Vec<Job> = sizes
            .map(|&(width, height)| Job::new(task, width, height))
            .collect();
        for step in steps::of(task) {
            let Way::Kernels { kernels, block } = step.way else {
                continue;
            };
            let bound = bound(kernels[0]);
            let (mut largest, mut equal, mut pixels) = (0.0f64, 0.0, 0);
            for job in &jobs {
                let expected = match kernels[0] {
                    Kernel::BilateralAcross => two_passes(job),
                    _ => job.exact(),
                };
                let results = gpu.filter(job, kernels, block);
                let results = results.unwrap_or_else(|error| panic!("{}: {error}", step.name));
                let errors: Errors = job.errors(&results, &expected);
                let (width, height) = (job.width, job.height);
                assert!(
                    errors.largest <= bound.largest,
                    "{task:?} {} of {width}x{height}: off by {}, the most is {}",
                    step.name,
                    errors.largest,
                    bound.largest
                );
                largest = largest.max(errors.largest);
                equal += errors.equal * job.values.len() as f64;
                pixels += job.values.len();
            }
            let equal = equal / pixels as f64;
            support::say(&format!(
                "ladder {task:?} {:<22} off by at most {largest:.2e} (bound {:.2e}), {:.3} % equal",
                step.name,
                bound.largest,
                100.0 * equal
            ));
            assert!(equal >= bound.equal, "{task:?} {}: {equal}", step.name);
        }
    }
}

#[test]
fn a_ladder_has_every_step_measured() {
    let Some(gpu) = gpu() else { return };
    let (width, height) = if support::quick() {
        (65, 33)
    } else {
        (640, 480)
    };
    let gpu = Ok(gpu);
    for task in [Task::Convolve, Task::Bilateral] {
        let job = Job::new(task, width, height);
        let ladder = climb(&job, &gpu, &mut |_| ());
        for row in &ladder.rows {
            match (&row.step.way, &row.outcome) {
                (Way::Impossible(_) | Way::CpuMethod(_) | Way::GpuMethod(_), Err(reason)) => {
                    assert!(reason.starts_with("not "), "{}: {reason}", row.step.name);
                }
                (_, Err(reason)) => panic!("{}: {reason}", row.step.name),
                (_, Ok(measured)) => {
                    assert!(!measured.time.is_zero() && !measured.floor.is_zero());
                    assert!(measured.errors.psnr > 30.0, "{}", row.step.name);
                    let on_gpu = matches!(row.step.way, Way::Kernels { .. } | Way::GpuMethod(_));
                    assert_eq!(measured.transfer.is_some(), on_gpu);
                    let occupancy = measured.occupancy.unwrap_or(1.0);
                    assert!((0.0..=1.0).contains(&occupancy), "{occupancy}");
                }
            }
        }
    }
}

/// Constant memory is a module's, and modules are a ladder's: one may go while another goes on.
#[test]
fn a_ladder_that_goes_leaves_the_others_their_tables() {
    let (Some(first), Some(second)) = (gpu(), gpu()) else {
        return;
    };
    let block = gstcudaconv::engine::cuda::abi::Extent { x: 16, y: 16 };
    let job = Job::new(Task::Convolve, 70, 50);
    let of = |gpu: &Gpu| {
        gpu.filter(&job, &[Kernel::ConvolveConstant], block)
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let before = of(&first);
    assert_eq!(of(&second), before);
    drop(second);
    assert_eq!(of(&first), before);
    assert!(job.errors(&before, &job.exact()).largest < 1e-6);
}
