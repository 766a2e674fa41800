//! Which settings make no difference to what is computed.

use std::fmt;

use super::layout::{Layout, Role};
use super::spec::{Border, FilterSpec, Kernel, Planes};

/// A property that is set to something else than its default, and has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unused {
    pub property: &'static str,
    /// What it would take for an effect, in words that follow "for".
    pub purpose: &'static str,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (for {})", self.property, self.purpose)
    }
}

/// The properties of `spec` that have no effect on frames of `layout`. A property that is set to its default cannot be
/// told from one that is not set.
pub fn unused(spec: &FilterSpec, layout: &Layout) -> Vec<Unused> {
    use Kernel::{Bilateral, Box, Custom, Gauss, Identity, Sharpen, Unsharp};
    let default = FilterSpec::default();
    let kernel = spec.kernel;
    let has = |role| {
        let mut channels = layout.groups.iter().flat_map(|group| &group.channels);
        channels.any(|channel| channel.role == role)
    };
    let is_bilateral = kernel == Bilateral;
    // Whether it is set, whether it is used, and by what.
    let all = [
        (
            "matrix",
            spec.matrix.is_some(),
            kernel == Custom,
            "kernel=custom",
        ),
        (
            "divisor",
            spec.divisor != default.divisor,
            !is_bilateral,
            "convolutions",
        ),
        (
            "radius",
            spec.radius != default.radius,
            matches!(kernel, Box | Gauss | Unsharp | Bilateral),
            "kernel=box, gauss, unsharp and bilateral",
        ),
        (
            "sigma",
            spec.sigma != default.sigma,
            matches!(kernel, Gauss | Unsharp),
            "kernel=gauss and unsharp",
        ),
        (
            "amount",
            spec.amount != default.amount,
            matches!(kernel, Sharpen | Unsharp),
            "kernel=sharpen and unsharp",
        ),
        (
            "sigma-space",
            spec.sigma_space != default.sigma_space,
            is_bilateral,
            "kernel=bilateral",
        ),
        (
            "sigma-color",
            spec.sigma_color != default.sigma_color,
            is_bilateral,
            "kernel=bilateral",
        ),
        (
            "window",
            spec.window != default.window,
            is_bilateral,
            "kernel=bilateral",
        ),
        (
            "distance",
            spec.distance != default.distance,
            is_bilateral && has(Role::Colour),
            "kernel=bilateral of RGB",
        ),
        (
            "border",
            spec.border != default.border,
            kernel != Identity,
            "kernels with a window",
        ),
        (
            "border-value",
            spec.border_value != default.border_value,
            spec.border == Border::Constant && kernel != Identity,
            "border=constant",
        ),
        (
            "planes",
            spec.planes != Planes::Auto,
            has(Role::Chroma),
            "formats with chroma",
        ),
        (
            "alpha",
            spec.alpha != default.alpha,
            has(Role::Alpha),
            "formats with alpha",
        ),
    ];
    all.into_iter()
        .filter(|&(_, is_set, is_used, _)| is_set && !is_used)
        .map(|(property, _, _, purpose)| Unused { property, purpose })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::cpu::ABILITIES;
    use crate::filter::Plan;
    use crate::filter::plan::{Action, Job, Operation};
    use crate::filter::spec::{Alpha, Distance, Method, Window};

    /// Sets a property to something else than its default.
    type Change = fn(&mut FilterSpec);

    /// Every property but `kernel`, with a value that is possible with all kernels and formats below.
    const CHANGES: [(&str, Change); 13] = [
        ("matrix", |s| s.matrix = "1 2 3;".parse().ok()),
        ("divisor", |s| s.divisor = 5.0),
        ("radius", |s| s.radius = 3),
        ("sigma", |s| s.sigma = 3.0),
        ("amount", |s| s.amount = 2.5),
        ("sigma-space", |s| s.sigma_space = 2.0),
        ("sigma-color", |s| s.sigma_color = 40.0),
        ("window", |s| s.window = Window::Square),
        ("distance", |s| s.distance = Distance::L2),
        ("border", |s| s.border = Border::Wrap),
        ("border-value", |s| s.border_value = 9.0),
        ("planes", |s| s.planes = Planes::Luma),
        ("alpha", |s| s.alpha = Alpha::Filter),
    ];

    fn layout(format: gst_video::VideoFormat) -> Arc<Layout> {
        gst::init().unwrap();
        let info = gst_video::VideoInfo::builder(format, 32, 16).build();
        Arc::new(Layout::new(&info.unwrap()).unwrap())
    }

    /// The jobs of a plan without the values in them that nobody reads.
    fn computed(spec: &FilterSpec, layout: &Arc<Layout>) -> Vec<Job> {
        let mut jobs = Plan::new(spec, layout, &ABILITIES).unwrap().jobs;
        for job in &mut jobs {
            if job.operation == Operation::None {
                job.border = Border::default();
            }
            let roles = job.group.channels.iter().map(|channel| channel.role);
            let has_colours = roles.into_iter().any(|role| role == Role::Colour);
            if let (Operation::Bilateral(bilateral), false) = (&mut job.operation, has_colours) {
                bilateral.distance = Distance::default();
            }
            for action in &mut job.actions {
                if let (Action::Filter { beyond, .. }, true) =
                    (action, job.border != Border::Constant)
                {
                    *beyond = 0.0;
                }
            }
        }
        jobs
    }

    #[test]
    fn what_is_told_to_have_no_effect_changes_no_plan_and_all_else_does() {
        use gst_video::VideoFormat as F;
        let kernels = [
            Kernel::Identity,
            Kernel::Box5,
            Kernel::Box,
            Kernel::Gauss3,
            Kernel::Gauss,
            Kernel::Sharpen,
            Kernel::Unsharp,
            Kernel::Sobel,
            Kernel::Custom,
            Kernel::Bilateral,
        ];
        for format in [F::Gray8, F::I420, F::Rgb, F::Rgba, F::Ayuv] {
            let layout = layout(format);
            for kernel in kernels {
                let before = FilterSpec {
                    kernel,
                    matrix: (kernel == Kernel::Custom).then(|| "2 1 0;".parse().unwrap()),
                    ..FilterSpec::default()
                };
                assert_eq!(unused(&before, &layout), []);
                for (property, change) in CHANGES {
                    let mut after = before.clone();
                    change(&mut after);
                    let told = unused(&after, &layout);
                    assert!(told.iter().all(|unused| unused.property == property));
                    let differs = computed(&before, &layout) != computed(&after, &layout);
                    // What identity copies it copies whichever planes are asked for.
                    if kernel == Kernel::Identity && told.is_empty() {
                        continue;
                    }
                    assert_eq!(
                        told.is_empty(),
                        differs,
                        "{property} of {kernel:?}, {format:?}: {told:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_colour_distance_is_used_where_three_colours_share_a_weight() {
        use gst_video::VideoFormat as F;
        for (format, kernel, expected) in [
            (F::Rgb, Kernel::Bilateral, ""),
            (F::Gbr, Kernel::Bilateral, ""),
            (
                F::Nv12,
                Kernel::Bilateral,
                "distance (for kernel=bilateral of RGB)",
            ),
            (
                F::Rgb,
                Kernel::Gauss3,
                "distance (for kernel=bilateral of RGB)",
            ),
        ] {
            let spec = FilterSpec {
                kernel,
                distance: Distance::L2,
                method: Method::Naive,
                ..FilterSpec::default()
            };
            let told: Vec<String> = unused(&spec, &layout(format))
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(told.concat(), expected, "{format:?}");
        }
    }

    #[test]
    fn the_border_value_is_used_by_a_constant_border() {
        let mut spec = FilterSpec {
            border_value: 9.0,
            border: Border::Constant,
            ..FilterSpec::default()
        };
        let layout = layout(gst_video::VideoFormat::Gray8);
        assert_eq!(unused(&spec, &layout), []);
        spec.border = Border::Reflect;
        assert_eq!(unused(&spec, &layout).len(), 1);
    }
}
