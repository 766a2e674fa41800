//! Any values of the properties that change pixels, set as GObject sets them, on a tiny frame of any
//! format: refused with a sentence, or filtered by the fast way to the bytes of the scalar one.

#![no_main]

use std::sync::Arc;

use arbitrary::{Arbitrary, Unstructured};
use cudaconv_fuzz::{ENGINE, format, info, output, run};
use gst::glib;
use gst::prelude::*;
use gstcudaconv::element::settings::{PROPERTIES, Settings};
use gstcudaconv::engine::{Engine, Frame};
use gstcudaconv::filter::spec::{FilterSpec, Kernel, Method};
use gstcudaconv::filter::{Layout, Plan};
use libfuzzer_sys::fuzz_target;

/// What an application does: sets properties, of which some are refused, and sends a frame.
#[derive(Debug)]
struct Input {
    settings: Settings,
    layout: Arc<Layout>,
    interlaced: bool,
    seed: u8,
}

/// A value of the type of `pspec`, within its range as GObject makes it.
fn value(pspec: &glib::ParamSpec, u: &mut Unstructured) -> arbitrary::Result<glib::Value> {
    let mut value = if let Some(double) = pspec.downcast_ref::<glib::ParamSpecDouble>() {
        let number = match u.int_in_range(0..=3)? {
            0 => f64::arbitrary(u)?,
            1 => f64::from(u.int_in_range(-9i8..=9)?),
            2 => f64::from(u.int_in_range(0u16..=5000)?) / 50.0,
            _ => double.maximum(),
        };
        number.to_value()
    } else if pspec.is::<glib::ParamSpecInt>() {
        u.int_in_range(-2i32..=40)?.to_value()
    } else if let Some(choice) = pspec.downcast_ref::<glib::ParamSpecEnum>() {
        let class = choice.enum_class();
        let index = u.choose_index(class.values().len())?;
        class.values()[index].to_value(&class)
    } else {
        let text: String = match u.int_in_range(0..=2)? {
            0 => <&str>::arbitrary(u)?.replace('\0', " "),
            1 => (0..[1, 9, 25][u.choose_index(3)?])
                .map(|_| Ok(format!("{} ", u.int_in_range(-20i8..=20)?)))
                .collect::<arbitrary::Result<_>>()?,
            _ => ["1 2 1;", "1;2;1", "0.3 -0.2 0.7;", "1 0 0; 0 0 0; 0 0 -1"][u.choose_index(4)?]
                .into(),
        };
        text.to_value()
    };
    // SAFETY: the value has the type of the specification.
    unsafe {
        glib::gobject_ffi::g_param_value_validate(
            glib::translate::ToGlibPtr::to_glib_none(pspec).0,
            glib::translate::ToGlibPtrMut::to_glib_none_mut(&mut value).0,
        );
    }
    Ok(value)
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let format = format(u.arbitrary()?);
        let (width, height) = (u.int_in_range(1..=40)?, u.int_in_range(1..=12)?);
        let layout = Layout::new(&info(format, width, height)).expect("a supported format");
        let (interlaced, seed) = (u.arbitrary()?, u.arbitrary()?);
        let mut settings = Settings::default();
        let names = [
            "kernel",
            "matrix",
            "divisor",
            "bias",
            "radius",
            "sigma",
            "amount",
            "sigma-space",
            "sigma-color",
            "window",
            "distance",
            "border",
            "border-value",
            "planes",
            "alpha",
            "method",
            "precision",
        ];
        for _ in 0..u.int_in_range(1..=12)? {
            let name = names[u.choose_index(names.len())?];
            let pspec = PROPERTIES
                .iter()
                .find(|p| p.name() == name)
                .expect("a property");
            if let Err(sentence) = settings.set(name, &value(pspec, u)?) {
                assert!((10..1200).contains(&sentence.len()), "{sentence}");
            }
        }
        // A window of 65x65 exponentials a pixel would leave no time for other cases.
        let filter = &mut settings.filter;
        if filter.kernel == Kernel::Bilateral && (filter.radius > 6 || filter.radius == 0) {
            filter.radius = 1 + filter.radius % 6;
        }
        Ok(Input {
            settings,
            layout: Arc::new(layout),
            interlaced,
            seed,
        })
    }
}

/// A frame of noise, with flat parts.
fn frame(input: &Input) -> Frame {
    let mut frame = Frame::blank(&input.layout, input.interlaced);
    let blank = std::mem::replace(&mut frame, Frame::blank(&input.layout, input.interlaced));
    let mut spans = Vec::new();
    let mut bytes = Vec::new();
    for (plane, size) in input.layout.planes.iter().enumerate() {
        let (_, stride) = blank.output.plane(plane);
        spans.push(gstcudaconv::engine::PlaneSpan {
            memory: 0,
            offset: bytes.len(),
            stride,
        });
        for at in 0..stride * size.rows {
            let mixed = (at as u32)
                .wrapping_mul(2_654_435_761)
                .rotate_left(u32::from(input.seed) % 32);
            bytes.push(match at / 7 % 3 {
                0 => input.seed,
                1 => 255,
                _ => (mixed >> 11) as u8,
            });
        }
    }
    clip(&input.layout, &spans, &mut bytes);
    let memory = vec![Box::new(bytes) as _];
    frame.input =
        gstcudaconv::engine::InputFrame::new(&input.layout, memory, spans).expect("it fits");
    frame
}

/// Cuts samples to the depth, so that the frame is valid video.
fn clip(layout: &Layout, spans: &[gstcudaconv::engine::PlaneSpan], bytes: &mut [u8]) {
    for group in &layout.groups {
        for channel in &group.channels {
            let span = spans[channel.plane];
            for y in 0..group.height {
                for x in 0..group.width {
                    let at = span.offset + y * span.stride + channel.offset + x * channel.step;
                    let code = layout.sample.read(&bytes[at..]) & layout.max_code();
                    layout.sample.write(&mut bytes[at..], code);
                }
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let abilities = ENGINE.abilities();
    let spec = &input.settings.filter;
    let plan = match Plan::new(spec, &input.layout, abilities) {
        Ok(plan) => Arc::new(plan),
        Err(error) => return assert!(error.to_string().len() > 20, "{error}"),
    };
    let got = output(&input.layout, &run(&plan, frame(&input)));
    let naive = FilterSpec {
        method: Method::Naive,
        ..spec.clone()
    };
    let naive = Arc::new(Plan::new(&naive, &input.layout, abilities).expect("naive does all"));
    let scalar = output(&input.layout, &run(&naive, frame(&input)));
    if spec.kernel != Kernel::Bilateral {
        assert!(got == scalar, "{spec:?} on {}", input.layout.format);
    }
});
