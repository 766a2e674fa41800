//! What is launched for a plan.

use super::*;
use crate::engine::cuda::ABILITIES;
use crate::filter::Layout;
use crate::filter::spec::{Alpha, FilterSpec, Kernel as Preset, Method};

fn launches(format: gst_video::VideoFormat, spec: &FilterSpec) -> Launches {
    launches_of(format, (33, 17), spec)
}

fn launches_of(
    format: gst_video::VideoFormat,
    (width, height): (u32, u32),
    spec: &FilterSpec,
) -> Launches {
    gst::init().unwrap();
    let info = gst_video::VideoInfo::builder(format, width, height)
        .build()
        .unwrap();
    let layout = Arc::new(Layout::new(&info).unwrap());
    let plan = Plan::new(spec, &layout, &ABILITIES).unwrap();
    Launches::new(&Arc::new(plan), (9, 0)).unwrap()
}

fn spec(kernel: Preset) -> FilterSpec {
    FilterSpec {
        kernel,
        ..FilterSpec::default()
    }
}

/// The jobs of the first step for input at 1000 and output at 5000, planes 100 bytes apart
/// with strides of 64 and 96.
fn jobs(launches: &Launches, interlaced: bool) -> Vec<abi::Job> {
    let planes = |stride| {
        (0..4).map(move |n| DevicePlane {
            offset: n * 100,
            stride,
        })
    };
    let (input, output): (Vec<_>, Vec<_>) = (planes(64).collect(), planes(96).collect());
    let placed = |start, planes| Placed { start, planes };
    let (input, output) = (placed(1000, &input[..]), placed(5000, &output[..]));
    launches.jobs(&launches.steps[0], input, output, interlaced)
}

#[test]
fn planes_of_one_operation_share_a_launch_and_copies_join_it() {
    let launches = launches(gst_video::VideoFormat::A420, &spec(Preset::Gauss3));
    assert_eq!(launches.steps.len(), 1);
    let jobs = jobs(&launches, false);
    let actions: Vec<u32> = jobs.iter().map(|job| job.channels[0].action).collect();
    let (filter, copy) = (abi::action::FILTER, abi::action::COPY);
    assert_eq!(actions, [filter, filter, filter, copy]);
    let places: Vec<u64> = jobs.iter().map(|job| job.channels[0].input).collect();
    assert_eq!(places, [1000, 1100, 1200, 1300]);
    assert_eq!((jobs[1].width, jobs[1].height), (17, 9));
    // Whatever their zero levels.
    for format in [
        gst_video::VideoFormat::Nv12,
        gst_video::VideoFormat::P01010le,
        gst_video::VideoFormat::I42010le,
    ] {
        for kernel in [
            Preset::Gauss3,
            Preset::Gauss7,
            Preset::Emboss,
            Preset::Sobel,
        ] {
            let count = self::launches(format, &spec(kernel)).steps.len();
            assert_eq!(count, 1, "{format} {kernel:?}");
        }
    }
}

#[test]
fn planes_of_any_level_share_a_launch_on_the_matrix_units() {
    let whole: Vec<f32> = (0..25).map(|i| (i * i % 7 + 1) as f32).collect();
    let roots: Vec<f32> = whole.iter().map(|weight| weight.sqrt()).collect();
    for (weights, kernel, centred) in [
        (&whole, Kernel::ConvolveMatrixU16, [false, true]),
        (&roots, Kernel::ConvolveMatrixNearU16, [true, true]),
    ] {
        let text: Vec<String> = weights.iter().map(f32::to_string).collect();
        let custom = FilterSpec {
            matrix: text.join(" ").parse().ok(),
            ..spec(Preset::Custom)
        };
        let launches = launches(gst_video::VideoFormat::P01010le, &custom);
        let plan = &launches.plan;
        let samples = [0, 1].map(|job| choose::samples(&plan.layout, &plan.jobs[job]));
        assert_eq!(samples.map(|samples| samples.centred), centred);
        let kernels: Vec<Kernel> = launches.kernels().collect();
        assert_eq!(kernels, [kernel]);
        assert_eq!(jobs(&launches, false).len(), 2);
    }
}

#[test]
fn weights_that_are_not_separable_are_there_as_weights_and_behind_them_as_matrices() {
    let custom = FilterSpec {
        matrix: "1 -2 3; 4 5 6; 7 8 10".parse().ok(),
        ..spec(Preset::Custom)
    };
    let launches = launches(gst_video::VideoFormat::A420, &custom);
    let kernels: Vec<Kernel> = launches.kernels().collect();
    assert_eq!(kernels, [Kernel::ConvolveMatrixU8]);
    let lines = [
        1.0, -2.0, 3.0, 0.0, 4.0, 5.0, 6.0, 0.0, 7.0, 8.0, 10.0, 0.0f32,
    ];
    let weights = [1.0, -2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0];
    let bands =
        abi::band::Bands::whole(&weights, 42.0, abi::band::Samples::BYTES).expect("whole numbers");
    let table = bands.table(3);
    let expected: Vec<u32> = (lines.map(f32::to_bits).into_iter()).chain(table).collect();
    assert_eq!(launches.weights(), expected);
    assert_eq!(jobs(&launches, false).len(), 4);
}

#[test]
fn weights_that_are_taken_apart_travel_as_they_are_and_as_matrices() {
    let gauss = FilterSpec {
        radius: 7,
        ..spec(Preset::Gauss)
    };
    let launches = launches_of(gst_video::VideoFormat::Rgba, (1920, 1080), &gauss);
    let kernels: Vec<Kernel> = launches.kernels().collect();
    assert_eq!(kernels, [Kernel::SeparableSplitPixelsU8]);
    assert_eq!(launches.precision(), Precision::Fp32);
    let Operation::Correlate(correlation) = &launches.plan.jobs[0].operation else {
        panic!("a correlation");
    };
    let (across, down) = correlation.taps.lines().expect("a Gaussian is separable");
    let split = abi::split::Split::new(across, down, correlation.divisor);
    let reach = kernels[0].reach().expect("it has matrices");
    let mut lines = Vec::new();
    abi::push_line(&mut lines, across);
    abi::push_line(&mut lines, down);
    let table = split.expect("few doubts").table(reach).into_iter();
    let expected: Vec<u32> = table.chain(lines.into_iter().map(f32::to_bits)).collect();
    assert_eq!(launches.weights(), expected);
}

/// Of a Gaussian that is half as wide on chroma's grid.
#[test]
fn luma_and_chroma_with_weights_of_their_own_share_a_launch() {
    use gst_video::VideoFormat as Format;
    let gauss = |radius| FilterSpec {
        radius,
        ..spec(Preset::Gauss)
    };
    for (format, radius, kernel) in [
        (Format::Nv12, 4, Kernel::SeparableU8R7),
        (Format::I420, 7, Kernel::SeparableU8R7),
        (Format::Y42b, 8, Kernel::SeparableU8R8),
        (Format::P01010le, 8, Kernel::SeparableU16R8),
    ] {
        let launches = launches(format, &gauss(radius));
        let kernels: Vec<Kernel> = launches.kernels().collect();
        assert_eq!(kernels, [kernel], "{format}");
        let Form::Scaled(side) = kernel.form() else {
            panic!("{kernel:?} takes so many weights");
        };
        assert_eq!(launches.steps[0].radius, (side / 2, side / 2));
        let jobs = jobs(&launches, true);
        let which: Vec<u32> = jobs.iter().map(|job| job.joint_or_filter).collect();
        let expected = match format {
            Format::Nv12 | Format::P01010le => vec![0, 0, 1, 1],
            _ => vec![0, 0, 1, 1, 1, 1],
        };
        assert_eq!(which, expected, "{format}");
        let Parameter::Convolve(parameter) = &launches.steps[0].parameter else {
            panic!("a linear kernel");
        };
        assert_eq!(parameter.kernel_count, 1);
        let line = abi::line_length(side);
        let firsts = parameter.kernels.map(|taps| taps.first as usize);
        assert_eq!(firsts, [0, 2 * line]);
        for (taps, first) in parameter.kernels.iter().zip(firsts) {
            assert_eq!((taps.width, taps.height), (side as u32, side as u32));
            // They are as they would be alone.
            let down = first + line;
            let sum: f32 = parameter.inline_weights[down..down + side].iter().sum();
            assert!((sum / 2f32.powi(24) - 1.0).abs() < 1e-5, "{sum}");
        }
    }
    // Kernels that take one filter for all.
    let steps = |format, spec: &FilterSpec| launches(format, spec).steps.len();
    assert_eq!(steps(Format::Nv12, &gauss(16)), 2);
    assert_eq!(steps(Format::I420, &spec(Preset::Bilateral)), 2);
    assert_eq!(steps(Format::Y444, &gauss(7)), 1);
}

#[test]
fn subsampled_planes_have_a_bilateral_of_their_own() {
    let launches = launches(gst_video::VideoFormat::I420, &spec(Preset::Bilateral));
    let jobs: Vec<usize> = launches.steps.iter().map(|step| step.jobs.len()).collect();
    assert_eq!(jobs, [1, 2]);
    let radii: Vec<_> = launches.steps.iter().map(|step| step.radius).collect();
    assert_eq!(radii, [(8, 8), (4, 4)]);
}

#[test]
fn exponents_of_a_joint_bilateral_travel_by_columns() {
    let spec = spec(Preset::Bilateral);
    let launches = launches(gst_video::VideoFormat::Rgba, &spec);
    assert_eq!(
        launches.kernels().collect::<Vec<_>>(),
        [Kernel::BilateralJointU8]
    );
    assert!(launches.weights().is_empty());
    let Parameter::Bilateral(launch) = &launches.steps[0].parameter else {
        panic!("a bilateral");
    };
    // A circle of radius 8: the same across as down.
    assert_eq!(launch.columns, launch.spans);
    assert_eq!(launch.columns[..9], [8, 7, 7, 7, 6, 6, 5, 3, 0]);
    let rows = abi::columns::to_rows(&launch.inline_weights, (8, 8)).unwrap();
    // -(dx² + dy²) / (2 · 5²), as exponents of 2.
    let exponent = |squared: f32| -squared / 50.0 * std::f32::consts::LOG2_E;
    for (at, squared) in [
        (0, 0.0),
        (1, 1.0),
        (9, 1.0),
        (2 * 9 + 3, 13.0),
        (8 * 9, 64.0),
    ] {
        assert!((rows[at] - exponent(squared)).abs() < 1e-5, "{at}");
    }
    assert_eq!(rows[8 * 9 + 1], f32::NEG_INFINITY);
    assert!((launch.color_root.powi(2) / -launch.color - 1.0).abs() < 1e-6);
}

#[test]
fn fields_are_jobs_of_every_second_row() {
    let jobs = jobs(
        &launches(gst_video::VideoFormat::Gray8, &spec(Preset::Gauss3)),
        true,
    );
    let rows: Vec<_> = (jobs.iter())
        .map(|job| (job.channels[0].input, job.channels[0].output, job.height))
        .collect();
    assert_eq!(rows, [(1000, 5000, 9), (1064, 5096, 8)]);
    let strides = (
        jobs[0].channels[0].input_stride,
        jobs[0].channels[0].output_stride,
    );
    assert_eq!(strides, (128, 192));
}

#[test]
fn packed_channels_stand_in_the_order_of_their_addresses() {
    let premultiplied = FilterSpec {
        alpha: Alpha::Premultiply,
        ..spec(Preset::Bilateral)
    };
    let job = jobs(
        &launches(gst_video::VideoFormat::Abgr, &premultiplied),
        false,
    )[0];
    let places: Vec<u64> = job.channels.iter().map(|channel| channel.input).collect();
    assert_eq!(places, [1000, 1001, 1002, 1003]);
    assert_eq!((job.packed, job.alpha, job.joint_or_filter), (1, 0, 0b1110));
    // Luma of packed 4:2:2 has other samples between its own.
    let luma = jobs(
        &launches(gst_video::VideoFormat::Yuy2, &spec(Preset::Bilateral)),
        false,
    )[0];
    assert_eq!(
        (luma.packed, luma.channel_count, luma.channels[0].step),
        (0, 1, 2)
    );
}

#[test]
fn packed_422_filtered_alike_is_one_job() {
    for (format, packed, steps) in [
        (
            gst_video::VideoFormat::Yuy2,
            abi::packed::LUMA_FIRST,
            [2, 4, 2, 4],
        ),
        (
            gst_video::VideoFormat::Uyvy,
            abi::packed::LUMA_SECOND,
            [4, 2, 4, 2],
        ),
    ] {
        // Chroma is filled by the kernel that filters luma, and there is padding to be copied.
        for kernel in [Preset::Gauss3, Preset::Gauss7, Preset::Sobel] {
            let launches = launches(format, &spec(kernel));
            assert_eq!(launches.steps.len(), 1);
            let [job] = jobs(&launches, false)[..] else {
                panic!("one job");
            };
            assert_eq!((job.packed, job.channel_count), (packed, 4));
            assert_eq!((job.width, job.height), (33, 17));
            let places: Vec<u64> = job.channels.iter().map(|channel| channel.input).collect();
            assert_eq!(places, [1000, 1001, 1002, 1003]);
            assert_eq!(job.channels.map(|channel| channel.step), steps);
            let heights: Vec<u32> = jobs(&launches, true).iter().map(|job| job.height).collect();
            assert_eq!(heights, [9, 8]);
        }
    }
}

#[test]
fn chroma_of_packed_422_has_weights_of_its_own_across() {
    let parameter = |spec: &FilterSpec| {
        let launches = launches(gst_video::VideoFormat::Yuy2, spec);
        assert_eq!(launches.steps.len(), 1);
        let Parameter::Convolve(launch) = launches.steps[0].parameter.clone() else {
            panic!("a linear kernel");
        };
        launch
    };
    let launch = parameter(&FilterSpec {
        radius: 7,
        ..spec(Preset::Gauss)
    });
    let taps = |width, first| abi::Taps {
        width,
        height: 17,
        separable: 1,
        first,
    };
    assert_eq!(launch.kernels, [taps(17, 0), taps(9, 80)]);
    assert_eq!(launch.kernel_count, 1);
    let weights = |first: usize, count: usize| &launch.inline_weights[first..][..count];
    // Luma's lines are of 20 floats each, of chroma that across is of 12.
    assert_eq!(weights(20, 17), weights(80 + 12, 17));
    let (luma, chroma) = (weights(0, 17), weights(80, 9));
    assert!(chroma[4] > 1.9 * luma[8] && chroma[4] < 2.1 * luma[8]);
    let sums = [luma, chroma].map(|line| line.iter().sum::<f32>());
    assert!((sums[0] / sums[1] - 1.0).abs() < 1e-5, "{sums:?}");
    // Presets are the same for both.
    let alike = parameter(&spec(Preset::Gauss7));
    assert_eq!(alike.kernels[1].width, 0);
}

#[test]
fn weights_are_filled_up_to_what_a_kernel_takes() {
    let launch = |format, kernel| {
        let launches = launches(format, &spec(kernel));
        let Parameter::Convolve(launch) = launches.steps[0].parameter.clone() else {
            panic!("a linear kernel");
        };
        (launches.steps[0].radius, launch)
    };
    let (radius, launch_of_five) = launch(gst_video::VideoFormat::Gray16Le, Preset::Gauss5);
    assert_eq!(radius, (4, 4));
    let taps = launch_of_five.kernels[0];
    assert_eq!((taps.width, taps.height, taps.separable), (9, 9, 1));
    // In other units, and those down divided by 256.
    let line = [0.0, 0.0, 1.0, 4.0, 6.0, 4.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let (across, down) = (2f32.powi(117), 2f32.powi(24 - 8));
    let lines = [line.map(|w| w * across), line.map(|w| w * down)];
    assert_eq!(launch_of_five.inline_weights[..24], lines.concat());
    // Separable whole numbers as their products.
    let (radius, launch_of_three) = launch(gst_video::VideoFormat::Gray16Le, Preset::SobelX);
    assert_eq!(radius, (1, 1));
    let taps = launch_of_three.kernels[0];
    assert_eq!((taps.width, taps.height, taps.separable), (3, 3, 0));
    let lines = [
        [-1.0, 0.0, 1.0, 0.0],
        [-2.0, 0.0, 2.0, 0.0],
        [-1.0, 0.0, 1.0, 0.0],
    ];
    assert_eq!(launch_of_three.inline_weights[..12], lines.concat());
}

#[test]
fn outer_products_stand_one_behind_the_other() {
    let spec = FilterSpec {
        method: Method::Separable,
        ..spec(Preset::Laplacian)
    };
    let launches = launches(gst_video::VideoFormat::Gray8, &spec);
    let Parameter::Convolve(launch) = launches.steps[0].parameter.clone() else {
        panic!("a linear kernel");
    };
    let taps = launch.kernels[0];
    assert_eq!((taps.width, taps.height, taps.separable), (3, 3, 2));
    let mut sum = [[0.0; 3]; 3];
    for term in launch.inline_weights[..16].chunks_exact(8) {
        assert_eq!((term[3], term[7]), (0.0, 0.0));
        for (row, v) in sum.iter_mut().zip(&term[4..7]) {
            for (sum, h) in row.iter_mut().zip(&term[..3]) {
                *sum += v * h;
            }
        }
    }
    assert_eq!(sum, [[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]);
    assert_eq!((launch.sum, launches.weights.len()), (0.0, 0));
}

#[test]
fn a_window_with_a_hole_is_refused() {
    let layout = {
        gst::init().unwrap();
        let info = gst_video::VideoInfo::builder(gst_video::VideoFormat::Gray8, 8, 8);
        Arc::new(Layout::new(&info.build().unwrap()).unwrap())
    };
    let mut plan = Plan::new(&spec(Preset::Bilateral), &layout, &ABILITIES).unwrap();
    let Operation::Bilateral(bilateral) = &mut plan.jobs[0].operation else {
        panic!("a bilateral");
    };
    bilateral.taps.remove(0);
    let refused = Launches::new(&Arc::new(plan), (9, 0)).err().unwrap();
    assert!(refused.contains("not symmetric"), "{refused}");
}
