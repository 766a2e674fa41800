//! Which frames are too small to be worth the trip to a GPU and back.
//!
//! The trip has a price that does not depend on the frame: copies and launches that are asked for, and a
//! thread that is woken. Below some amount of work the CPU is done before.

use std::sync::Arc;

use super::cpu;
use crate::filter::layout::Sample;
use crate::filter::plan::{Action, Job, Operation, Plan, Taps};
use crate::filter::spec::Method;
use crate::filter::{FilterSpec, Layout};

/// How the CPU computes a sample, which decides what a coefficient costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Products of a row and a column of coefficients.
    Separable,
    /// Every coefficient by itself.
    Full,
    Bilateral,
}

/// The work of a frame, in samples times coefficients, up to which the CPU gives it back no later than
/// the GPU, at samples of one byte and of two.
struct Crossover {
    family: Family,
    bytes: f64,
    words: f64,
}

/// Measured by `scripts/bench.sh crossovers` on an NVIDIA H200 in a machine with [`THREADS`], one frame at
/// a time through the element, with `method=auto`.
const CROSSOVERS: [Crossover; 3] = [
    Crossover {
        family: Family::Separable,
        bytes: 1.6e5,
        words: 1.6e5,
    },
    Crossover {
        family: Family::Full,
        bytes: 5.9e5,
        words: 3.5e5,
    },
    Crossover {
        family: Family::Bilateral,
        bytes: 5.4e4,
        words: 6.5e4,
    },
];

/// Of the machine on which that was measured. With fewer the CPU does less in the time of the trip.
const THREADS: usize = 16;

/// How a sample of `job` is computed and from how many coefficients; a copy counts as one.
fn cost_of_sample(job: &Job) -> (Family, usize) {
    let of_taps = |taps: &Taps| match taps {
        Taps::Separable {
            horizontal,
            vertical,
        } => (Family::Separable, horizontal.len() + vertical.len()),
        Taps::Full { weights, .. } => (Family::Full, weights.len()),
        Taps::Sum(terms) => {
            let term = &terms[0];
            let of_term = term.horizontal.len() + term.vertical.len();
            (Family::Separable, terms.len() * of_term)
        }
    };
    match &job.operation {
        Operation::None => (Family::Separable, 1),
        Operation::Correlate(kernel) => of_taps(&kernel.taps),
        Operation::Magnitude { x, y } => {
            let ((family, of_x), (_, of_y)) = (of_taps(&x.taps), of_taps(&y.taps));
            (family, of_x + of_y)
        }
        Operation::Bilateral(bilateral) => (Family::Bilateral, bilateral.taps.len() + 1),
    }
}

/// Samples of a frame of `plan` times the coefficients that each is computed from: what the benchmark
/// of crossovers tells.
pub fn work(plan: &Plan) -> f64 {
    plan.jobs.iter().map(work_of).sum()
}

fn work_of(job: &Job) -> f64 {
    let (_, coefficients) = cost_of_sample(job);
    let filtered = (job.actions.iter())
        .filter(|action| matches!(action, Action::Filter { .. }))
        .count();
    let others = job.actions.len() - filtered;
    let samples = job.group.width * job.group.height;
    (samples * (filtered * coefficients + others)) as f64
}

/// The work of a frame of `plan` as a multiple of what a CPU with `threads` does in the time of the trip.
fn share_of_trip(plan: &Plan, threads: usize) -> f64 {
    let of_job = |job: &Job| {
        let (family, _) = cost_of_sample(job);
        let row = CROSSOVERS.iter().find(|row| row.family == family);
        let row = row.expect("a row a family");
        let limit = match plan.layout.sample {
            Sample::U8 => row.bytes,
            Sample::U16Le { .. } | Sample::U16Be => row.words,
        };
        work_of(job) / limit
    };
    let share: f64 = plan.jobs.iter().map(of_job).sum();
    share * THREADS as f64 / threads.min(THREADS) as f64
}

/// Whether the CPU gives frames of `layout` back no later than a GPU would. False where it cannot
/// compute them, and where a method is asked for.
pub fn is_for_cpu(spec: &FilterSpec, layout: &Arc<Layout>) -> bool {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    spec.method == Method::Auto
        && Plan::new(spec, layout, &cpu::ABILITIES)
            .is_ok_and(|plan| share_of_trip(&plan, threads) < 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::spec::Kernel;
    use gst_video::VideoFormat;

    fn layout(format: VideoFormat, width: u32, height: u32) -> Arc<Layout> {
        gst::init().unwrap();
        let info = gst_video::VideoInfo::builder(format, width, height);
        Arc::new(Layout::new(&info.build().unwrap()).unwrap())
    }

    fn with_kernel(kernel: Kernel) -> FilterSpec {
        FilterSpec {
            kernel,
            ..FilterSpec::default()
        }
    }

    #[test]
    fn work_is_samples_times_coefficients() {
        let grey = layout(VideoFormat::Gray8, 100, 50);
        let times = |spec: &FilterSpec, layout: &Arc<Layout>| {
            work(&Plan::new(spec, layout, &cpu::ABILITIES).unwrap())
        };
        assert_eq!(times(&with_kernel(Kernel::Gauss5), &grey), 50_000.0);
        assert_eq!(times(&with_kernel(Kernel::Emboss), &grey), 45_000.0);
        assert_eq!(times(&with_kernel(Kernel::Sobel), &grey), 60_000.0);
        let bilateral = FilterSpec {
            radius: 1,
            ..with_kernel(Kernel::Bilateral)
        };
        assert_eq!(times(&bilateral, &grey), 25_000.0);
        // Three colours are filtered, alpha is copied.
        let colour = layout(VideoFormat::Rgba, 100, 50);
        assert_eq!(times(&with_kernel(Kernel::Gauss5), &colour), 155_000.0);
    }

    #[test]
    fn small_frames_are_for_the_cpu_unless_a_method_is_asked_for() {
        let (small, large) = (
            layout(VideoFormat::Gray8, 32, 24),
            layout(VideoFormat::Nv12, 1920, 1080),
        );
        assert!(is_for_cpu(&with_kernel(Kernel::Gauss3), &small));
        assert!(!is_for_cpu(&with_kernel(Kernel::Gauss3), &large));
        assert!(!is_for_cpu(
            &with_kernel(Kernel::Identity),
            &layout(VideoFormat::Rgba, 3840, 2160)
        ));
        for method in [Method::Tile, Method::Naive] {
            let asked_for = FilterSpec {
                method,
                ..with_kernel(Kernel::Gauss3)
            };
            assert!(!is_for_cpu(&asked_for, &small), "{method:?}");
        }
    }

    #[test]
    fn with_fewer_threads_fewer_frames_are_for_the_cpu() {
        let grey = layout(VideoFormat::Gray8, 100, 100);
        let plan = Plan::new(&with_kernel(Kernel::Gauss3), &grey, &cpu::ABILITIES).unwrap();
        let share = share_of_trip(&plan, THREADS);
        assert_eq!(share_of_trip(&plan, 2), 8.0 * share);
        assert_eq!(share_of_trip(&plan, 64), share);
    }
}
