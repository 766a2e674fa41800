//! Properties: defaults, ranges, flags, read-back, refused values.

use gst::glib;
use gst::prelude::*;

use crate::common::frames::{assert_raised, gray};
use crate::common::pads::{Pads, texts};
use crate::common::watchdog::watched;
use crate::common::{cudaconv, nick, raising, set_as_c_does};

/// Names, nicks and defaults of the enums.
const ENUMS: [(&str, &str, &str); 10] = [
    (
        "kernel",
        "identity box3 box5 box7 box gauss3 gauss5 gauss7 gauss9 gauss sharpen unsharp emboss \
         laplacian sobel-x sobel-y sobel scharr-x scharr-y scharr prewitt-x prewitt-y prewitt \
         custom bilateral",
        "gauss3",
    ),
    ("window", "circle square", "circle"),
    ("distance", "l1 l2", "l1"),
    (
        "border",
        "replicate reflect reflect101 wrap constant",
        "replicate",
    ),
    ("planes", "auto all luma", "auto"),
    ("alpha", "copy filter premultiply", "copy"),
    ("method", "auto naive tile separable fft fast", "auto"),
    ("precision", "fp32 fp16", "fp32"),
    ("backend", "auto cuda cpu", "auto"),
    ("over-budget", "report bypass drop", "report"),
];

/// Lowest and highest value.
type Range = (f64, f64);

/// Names, ranges and defaults of the doubles; `None` for any finite number.
const DOUBLES: [(&str, Option<Range>, f64); 7] = [
    ("divisor", None, 0.0),
    ("bias", None, 0.0),
    ("sigma", Some((0.0, 100.0)), 0.0),
    ("amount", Some((0.0, 10.0)), 1.0),
    ("sigma-space", Some((0.0, 100.0)), 5.0),
    ("sigma-color", Some((0.0, 255.0)), 25.0),
    ("border-value", Some((0.0, 255.0)), 0.0),
];

fn fresh() -> gst::Element {
    crate::common::init();
    gst::ElementFactory::make("cudaconv")
        .build()
        .expect("the factory makes an element")
}

/// Reported: names, values and defaults change between versions, so pipelines break.
#[test]
fn enum_properties_have_their_values_and_defaults() {
    watched(|| {
        let element = fresh();
        for (name, nicks, default) in ENUMS {
            assert_eq!(nick(&element, name), default, "{name}");
            let pspec = element.find_property(name).expect("a property");
            let class = glib::EnumClass::with_type(pspec.value_type()).expect("an enum");
            for value in nicks.split_whitespace() {
                assert!(class.value_by_nick(value).is_some(), "{name}={value}");
                element.set_property_from_str(name, value);
                assert_eq!(nick(&element, name), value);
            }
            assert_eq!(
                class.values().len(),
                nicks.split_whitespace().count(),
                "{name}"
            );
            for value in class.values() {
                assert!(
                    value.name().len() > value.nick().len(),
                    "{name} explains {value:?}"
                );
            }
        }
    });
}

/// Reported: the same for numbers, texts and switches.
#[test]
fn other_properties_have_their_ranges_and_defaults() {
    watched(|| {
        let element = fresh();
        for (name, range, default) in DOUBLES {
            assert_eq!(element.property::<f64>(name), default, "{name}");
            let pspec = element.find_property(name).expect("a property");
            let pspec = pspec.downcast::<glib::ParamSpecDouble>().expect("a double");
            if let Some((low, high)) = range {
                assert_eq!((pspec.minimum(), pspec.maximum()), (low, high), "{name}");
            } else {
                assert!(pspec.minimum() < -1e30 && pspec.maximum() > 1e30, "{name}");
            }
        }
        let int = |name: &str| {
            let pspec = element.find_property(name).expect("a property");
            let pspec = pspec.downcast::<glib::ParamSpecInt>().expect("an int");
            (
                pspec.minimum(),
                pspec.maximum(),
                element.property::<i32>(name),
            )
        };
        assert_eq!(int("radius"), (0, 32, 0));
        assert_eq!(int("cuda-device-id"), (-1, i32::MAX, -1));
        let depth = element.find_property("depth").expect("a property");
        let depth = depth.downcast::<glib::ParamSpecUInt>().expect("a uint");
        assert_eq!((depth.minimum(), depth.maximum()), (1, 8));
        assert_eq!(element.property::<u32>("depth"), 2);
        assert_eq!(element.property::<u64>("budget"), 33_000_000);
        for (name, default) in [("qos", true), ("post-messages", false), ("silent", true)] {
            assert_eq!(element.property::<bool>(name), default, "{name}");
        }
        let text = element.property::<Option<String>>("matrix");
        assert_eq!(text.unwrap_or_default(), "");
    });
}

/// Reported: inspection tells neither what a property does nor its unit, nor when it may change.
#[test]
fn every_property_is_readable_explained_and_says_when_it_may_change() {
    watched(|| {
        let element = fresh();
        let class = element.class();
        let own: Vec<_> = class
            .list_properties()
            .iter()
            .filter(|p| p.owner_type() == element.type_())
            .cloned()
            .collect();
        assert_eq!(own.len(), 27, "the properties of the contract: {own:?}");
        for property in own {
            let name = property.name();
            let flags = property.flags();
            assert!(flags.contains(glib::ParamFlags::READABLE), "{name}");
            let blurb = property.blurb().unwrap_or_default();
            assert!(blurb.len() > 15, "{name}: {blurb:?}");
            let read_only = ["last-message", "stats"].contains(&name);
            assert_eq!(
                flags.contains(glib::ParamFlags::WRITABLE),
                !read_only,
                "{name}"
            );
            let ready = ["backend", "cuda-device-id", "depth"].contains(&name);
            if ready {
                assert!(flags.contains(gst::PARAM_FLAG_MUTABLE_READY), "{name}");
            }
            if !read_only {
                let playing = flags.contains(gst::PARAM_FLAG_MUTABLE_PLAYING);
                assert_eq!(playing, !ready, "{name}");
            }
        }
        for (name, unit) in [
            ("radius", "pixel"),
            ("sigma-space", "pixel"),
            ("budget", "nanosecond"),
            ("bias", "code value"),
            ("border-value", "code value"),
            ("sigma-color", "code value"),
        ] {
            let pspec = element.find_property(name).expect("a property");
            let blurb = pspec.blurb().unwrap_or_default().to_lowercase();
            assert!(blurb.contains(unit), "{name} names its unit: {blurb:?}");
        }
    });
}

/// Reported: a value set is not the value read.
#[test]
fn every_number_reads_back_as_it_was_set() {
    watched(|| {
        let element = fresh();
        for (name, range, _) in DOUBLES {
            let (low, high) = range.unwrap_or((-1e9, 1e9));
            for value in [low, high, (low + high) / 3.0, 0.123_456_789] {
                element.set_property(name, value);
                assert_eq!(element.property::<f64>(name), value, "{name}");
            }
        }
        for radius in [0i32, 1, 17, 32] {
            element.set_property("radius", radius);
            assert_eq!(element.property::<i32>("radius"), radius);
        }
        for depth in 1..=8u32 {
            element.set_property("depth", depth);
            assert_eq!(element.property::<u32>("depth"), depth);
        }
        for budget in [0u64, 1, 33_000_000, u64::MAX] {
            element.set_property("budget", budget);
            assert_eq!(element.property::<u64>("budget"), budget);
        }
        for name in ["qos", "post-messages", "silent"] {
            for value in [true, false, true] {
                element.set_property(name, value);
                assert_eq!(element.property::<bool>(name), value, "{name}");
            }
        }
        element.set_property("cuda-device-id", 3i32);
        assert_eq!(element.property::<i32>("cuda-device-id"), 3);
    });
}

const GOOD_MATRICES: [&str; 12] = [
    "1",
    "1 2 1;",
    "1; 2; 1",
    "0 1 0; 1 4 1; 0 1 0",
    "0 1 0; 1 4 1; 0 1 0;",
    "0,1,0,1,4,1,0,1,0",
    " 0\t1 0\n1 4 1\n0 1 0 ",
    "0, 1, 0; 1, 4, 1; 0, 1, 0",
    "1 2 3 4 5; 5 4 3 2 1; 1 2 3 4 5",
    "-1e-3 +2.5E2 .5 0.25 1. 6 7 8 -9",
    "1,2,1;",
    "0 0 0 0 1 0 0 0 0,",
];

const BAD_MATRICES: [(&str, &str); 19] = [
    ("1 2", "2"),
    ("1 2 3 4", "4"),
    ("1 2 3 4 5 6", "6"),
    ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "16"),
    ("0,5", "2"),
    ("1 2 3", "3"),
    ("1 2; 3 4", "2"),
    ("1 2 3; 4 5; 6 7 8", "2"),
    ("1 2 x; 4 5 6; 7 8 9", "x"),
    ("1,,2", ",,"),
    ("1 2 1;;1 2 1;1 2 1", ";"),
    (";", ";"),
    (",", ","),
    ("nan", "nan"),
    ("inf", "inf"),
    ("1e39", "1e39"),
    ("0x10", "0x10"),
    ("1 2 1; 1 2 1", "2"),
    ("1.5.2", "1.5.2"),
];

/// Reported: a matrix in any but one of many usual spellings is refused or misread.
#[test]
fn a_matrix_reads_back_as_it_was_set() {
    watched(|| {
        for state in [gst::State::Null, gst::State::Ready, gst::State::Playing] {
            let pads = Pads::raising();
            pads.element.set_state(state).expect("the state changes");
            for matrix in GOOD_MATRICES {
                pads.element.set_property("matrix", matrix);
                assert_eq!(pads.element.property::<String>("matrix"), matrix);
            }
            let warnings = texts(&pads.messages(), gst::MessageType::Warning);
            assert!(warnings.is_empty(), "{warnings:?}");
        }
    });
}

/// Reported: a matrix that does not parse crashes, silently leaves another filter, or empties it.
#[test]
fn a_bad_matrix_keeps_the_old_one_and_posts_a_warning_that_quotes_the_fault() {
    watched(|| {
        for state in [gst::State::Ready, gst::State::Playing] {
            let pads = Pads::raising();
            pads.element.set_state(state).expect("the state changes");
            pads.element.set_property("matrix", "1 2 1;");
            for (matrix, quoted) in BAD_MATRICES {
                pads.messages();
                pads.element.set_property("matrix", matrix);
                let kept = pads.element.property::<String>("matrix");
                assert_eq!(kept, "1 2 1;", "after {matrix:?}");
                let warnings = texts(&pads.messages(), gst::MessageType::Warning);
                assert_eq!(warnings.len(), 1, "{matrix:?}: {warnings:?}");
                assert!(
                    warnings[0].contains(quoted),
                    "{quoted:?} in {}",
                    warnings[0]
                );
                assert!(warnings[0].contains("matrix"), "{}", warnings[0]);
            }
        }
    });
}

/// Reported: a matrix of more than 31 rows or columns goes past a table.
#[test]
fn a_matrix_of_more_than_31_rows_or_columns_is_refused() {
    watched(|| {
        let pads = Pads::raising();
        let square = |side: usize| vec![vec!["1"; side].join(" "); side].join(";");
        pads.element.set_property("matrix", square(31));
        assert_eq!(pads.element.property::<String>("matrix"), square(31));
        let long = format!("{};", vec!["1"; 33].join(" "));
        let tall = vec!["1"; 33].join(";");
        for matrix in [square(33), long, tall] {
            pads.messages();
            pads.element.set_property("matrix", &matrix);
            assert_eq!(pads.element.property::<String>("matrix"), square(31));
            let warnings = texts(&pads.messages(), gst::MessageType::Warning);
            assert!(warnings[0].contains("31"), "{warnings:?}");
        }
    });
}

/// Reported: what `gst-launch-1.0` sets before there is a bus is refused in silence.
#[test]
fn a_bad_matrix_set_before_the_start_is_told_at_the_start() {
    watched(|| {
        let element = cudaconv(&[]);
        element.set_property("matrix", "1 2 oops");
        let pads = Pads::around(element);
        assert!(texts(&pads.messages(), gst::MessageType::Warning).is_empty());
        pads.element.set_state(gst::State::Ready).expect("is ready");
        let warnings = texts(&pads.messages(), gst::MessageType::Warning);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("oops"), "{warnings:?}");
        pads.element.set_state(gst::State::Null).expect("stops");
        pads.element.set_state(gst::State::Ready).expect("is ready");
        let again = texts(&pads.messages(), gst::MessageType::Warning);
        assert!(again.is_empty(), "told once: {again:?}");
    });
}

/// Reported: the matrix cannot be emptied again.
#[test]
fn an_empty_matrix_is_the_default_and_no_fault() {
    watched(|| {
        let pads = Pads::raising();
        pads.element.set_property("matrix", "1 2 1;");
        pads.element.set_property("matrix", "");
        assert_eq!(
            pads.element
                .property::<Option<String>>("matrix")
                .unwrap_or_default(),
            ""
        );
        let warnings = texts(&pads.messages(), gst::MessageType::Warning);
        assert!(warnings.is_empty(), "{warnings:?}");
    });
}

/// Reported: even, negative, huge or infinite values crash inside the filter.
#[test]
fn numbers_out_of_range_keep_the_old_value() {
    watched(|| {
        let pads = Pads::raising();
        let element = &pads.element;
        element.set_property("radius", 5i32);
        for radius in [-1i32, 33, 1000, i32::MAX, i32::MIN] {
            set_as_c_does(element, "radius", radius);
            assert_eq!(element.property::<i32>("radius"), 5, "radius={radius}");
        }
        for depth in [0u32, 9, u32::MAX] {
            set_as_c_does(element, "depth", depth);
            assert_eq!(element.property::<u32>("depth"), 2, "depth={depth}");
        }
        for (name, range, _) in DOUBLES {
            let old = range.map_or(1.0, |(low, high)| (low + high) / 2.0);
            element.set_property(name, old);
            let mut bad = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            if let Some((low, high)) = range {
                bad.extend([low - 0.5, high + 0.5, -1.0]);
            }
            for value in bad {
                set_as_c_does(element, name, value);
                assert_eq!(element.property::<f64>(name), old, "{name}={value}");
            }
        }
        element.set_property("divisor", 0f64);
        element.set_property("bias", 1f64);
        pads.push_all(0..4);
        pads.wait_buffers(4);
        assert_raised(&pads.buffers(), 0..4);
    });
}

/// Reported: values beyond float32 become infinite on the way to the device.
#[test]
fn numbers_beyond_float32_pass_no_rubbish() {
    watched(|| {
        for (name, value) in [("bias", 1e300), ("divisor", 1e300), ("divisor", 1e-300)] {
            let pads = Pads::around(cudaconv(&[]));
            set_as_c_does(&pads.element, name, value);
            let read = pads.element.property::<f64>(name);
            assert!(read == value || read == 0.0, "{name}={value} reads {read}");
            pads.begin(&gray());
            let _ = pads.push(100);
            assert!(pads.end());
            pads.wait_event(gst::EventType::Eos);
            for out in pads.buffers() {
                // Whatever the rule, the frame is one flat level, not what a NaN leaves behind.
                crate::common::frames::flat_value(&gray(), &out);
            }
        }
    });
}

/// Reported: what a property text says depends on the order of the properties.
#[test]
fn the_order_of_properties_does_not_matter() {
    watched(|| {
        let caps = gray();
        let input = crate::common::picture::noise(&caps, 61);
        let filter = |properties: &[(&str, &str)]| {
            crate::common::picture::filtered(properties, &caps, &input)
        };
        let (kernel, matrix) = (("kernel", "custom"), ("matrix", "1 2 3; 4 5 6; 7 8 9"));
        assert_eq!(filter(&[kernel, matrix]), filter(&[matrix, kernel]));
        let (radius, sigma) = (("radius", "4"), ("sigma", "1.5"));
        let gauss = ("kernel", "gauss");
        assert_eq!(
            filter(&[gauss, radius, sigma]),
            filter(&[sigma, radius, gauss])
        );
    });
}

/// Reported: properties that need READY break the stream when set while playing.
#[test]
fn properties_that_need_ready_do_no_harm_while_playing() {
    watched(|| {
        let pads = Pads::around(raising());
        pads.begin(&gray());
        pads.push_all(0..3);
        pads.element.set_property("depth", 8u32);
        pads.element.set_property("cuda-device-id", 0i32);
        pads.element.set_property_from_str("backend", "auto");
        pads.push_all(3..9);
        pads.element.set_property("depth", 1u32);
        pads.push_all(9..12);
        pads.wait_buffers(12);
        assert_raised(&pads.buffers(), 0..12);
    });
}

/// Reported: `gst-launch-1.0` passes values beyond the range into the filter.
#[test]
fn a_pipeline_description_cannot_set_what_the_range_refuses() {
    watched(|| {
        for (text, property) in [
            ("radius=1000", "radius"),
            ("radius=-1", "radius"),
            ("radius=2147483647", "radius"),
        ] {
            let pipeline = crate::common::pipelines::parse(&format!(
                "videotestsrc num-buffers=2 ! video/x-raw,format=GRAY8,width=32,height=24 ! \
                 cudaconv name=filter backend=cpu kernel=box {text} ! fakesink name=out"
            ));
            let filter = crate::common::pipelines::filter(&pipeline);
            assert_eq!(filter.property::<i32>(property), 0, "{text}");
            crate::common::pipelines::play(&pipeline).assert_frames(2);
        }
    });
}
