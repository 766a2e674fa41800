//! Caps: what is taken, what comes out, and changes in mid-stream.

use gst::prelude::*;

use crate::common::Random;
use crate::common::frames::{gray, gray_of, level, numbered_as, raw};
use crate::common::pads::{Item, Pads};
use crate::common::picture::{formats, noise, read, write};
use crate::common::pipelines::{self, RAISING};
use crate::common::watchdog::watched;
use crate::common::{backend, cudaconv, raising};

/// Reported: frame rate 0/1, or caps without frame rate, pixel aspect ratio or colorimetry divide
/// by zero, panic or do not negotiate.
#[test]
fn caps_without_a_known_frame_rate_pass_unchanged() {
    watched(|| {
        for wanted in [
            "video/x-raw,format=I420,width=320,height=240,framerate=0/1",
            "video/x-raw,format=I420,width=320,height=240,framerate=0/1,max-framerate=30/1",
            "video/x-raw,format=I420,width=320,height=240",
            "video/x-raw,format=I420,width=320,height=240,interlace-mode=progressive",
        ] {
            let outcome = pipelines::run(&format!(
                "videotestsrc num-buffers=5 ! \
                 video/x-raw,format=I420,width=320,height=240,framerate=30/1 ! \
                 capssetter replace=true caps=\"{wanted}\" ! {RAISING} ! fakesink name=out"
            ));
            outcome.assert_frames(5);
            let wanted: gst::Caps = wanted.parse().expect("caps");
            assert_eq!(outcome.caps(), wanted, "no field is invented or lost");
        }
    });
}

/// Reported: colorimetry, chroma site, aspect ratio, multiview or field order are lost on the way.
#[test]
fn source_caps_equal_sink_caps_field_by_field_also_unknown_ones() {
    watched(|| {
        let rich = [
            "video/x-raw,format=I420,width=320,height=240,framerate=30000/1001,colorimetry=bt2020,\
             chroma-site=jpeg,pixel-aspect-ratio=16/11,interlace-mode=interleaved,\
             field-order=top-field-first,multiview-mode=mono,views=1,made-up-field=(string)kept,\
             mastering-display-info=(string)\"34000:16000:13250:34500:7500:3000:15635:16450:10000000:1\",\
             content-light-level=(string)1000:400",
            "video/x-raw,format=GRAY8,width=64,height=48,pixel-aspect-ratio=40000001/40000000",
            "video/x-raw,format=RGB,width=64,height=48,framerate=1/1,max-framerate=120/1",
        ];
        for text in rich {
            let caps: gst::Caps = text.parse().expect("caps");
            let pads = Pads::around(raising());
            pads.begin(&caps);
            assert_eq!(
                pads.src.push(numbered_as(&caps, 1)),
                Ok(gst::FlowSuccess::Ok)
            );
            pads.wait_buffers(1);
            assert_eq!(pads.sink.current_caps(), Some(caps));
        }
    });
}

/// Reported: a filter that cannot scale or convert pretends to, or crashes, when downstream wants
/// another size or format.
#[test]
fn another_size_or_format_downstream_is_not_negotiated() {
    watched(|| {
        raising();
        for wanted in ["width=100", "format=RGB", "height=100,format=NV12"] {
            let linked = gst::parse::launch(&format!(
                "videotestsrc ! video/x-raw,format=I420,width=320,height=240 ! \
                 {RAISING} ! video/x-raw,{wanted} ! fakesink name=out"
            ));
            assert!(linked.is_err(), "the link is refused for {wanted}");
        }
        // The same where downstream shows it only once data flows.
        for other in [gray_of(64, 48), raw("I420", 32, 24)] {
            let pads = Pads::around(raising());
            pads.restrict(&other);
            pads.play();
            pads.begin_stream("other", &gray());
            assert_eq!(pads.push(0), Err(gst::FlowError::NotNegotiated));
            assert_eq!(pads.buffers().len(), 0);
        }
    });
}

/// Fails unless the frame is frame `number` filtered: luma or grey raised by one, chroma as it was.
fn assert_own_frame(caps: &gst::Caps, out: &gst::Buffer, number: u64) {
    let format = gst_video::VideoInfo::from_caps(caps).expect("caps of raw video");
    for (index, component) in read(caps, out).iter().enumerate() {
        let raised = u32::from(!format.is_yuv() || index == 0);
        let wanted = u32::from(level(number)) + raised;
        assert!(
            component.samples.iter().all(|s| *s == wanted),
            "frame {number} of {caps}, component {index}: {} instead of {wanted}",
            component.samples[0]
        );
    }
}

/// What downstream got, each frame checked against the caps before it; the numbers.
fn frames_under_their_caps(pads: &Pads) -> Vec<u64> {
    let mut caps = None;
    let mut numbers = Vec::new();
    for item in pads.items() {
        match item {
            Item::Event(event) => {
                if let gst::EventView::Caps(event) = event.view() {
                    caps = Some(event.caps_owned());
                }
            }
            Item::Buffer(buffer) => {
                let number = buffer.offset();
                assert_own_frame(caps.as_ref().expect("caps come first"), &buffer, number);
                numbers.push(number);
            }
            _ => {}
        }
    }
    numbers
}

/// Reported: new caps overtake the frames in flight, which are then read with the wrong size.
#[test]
fn new_sizes_and_formats_in_mid_stream_meet_their_own_frames() {
    watched(|| {
        let kinds = [
            gray(),
            gray_of(64, 48),
            raw("I420", 33, 17),
            raw("NV12", 32, 24),
            raw("RGB", 33, 17),
            gray_of(1, 1),
        ];
        for depth in [1u32, 2, 8] {
            let element = raising();
            element.set_property("depth", depth);
            let pads = Pads::around(element);
            pads.begin(&gray());
            let mut random = Random::new(0x5eed_0006);
            let mut number = 0;
            for _ in 0..40 {
                let caps = &kinds[random.below(kinds.len() as u64) as usize];
                assert!(pads.src.push_event(gst::event::Caps::new(caps)));
                for _ in 0..random.below(5) {
                    let frame = numbered_as(caps, number);
                    assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok));
                    number += 1;
                }
            }
            assert!(pads.end());
            pads.wait_event(gst::EventType::Eos);
            let numbers = frames_under_their_caps(&pads);
            assert_eq!(numbers, (0..number).collect::<Vec<_>>());
        }
    });
}

/// Reported: the same with every slot full and downstream blocked.
#[test]
fn new_caps_wait_for_the_frames_in_flight() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all(0..3);
        pads.wait_blocked();
        let src = pads.src.clone();
        let caps = gray_of(64, 48);
        let pushing = std::thread::spawn(move || {
            assert!(src.push_event(gst::event::Caps::new(&caps)));
            src.push(numbered_as(&caps, 3))
        });
        assert_eq!(pads.events(gst::EventType::Caps).len(), 1);
        pads.open_gate();
        assert_eq!(
            pushing.join().expect("frames are taken"),
            Ok(gst::FlowSuccess::Ok)
        );
        pads.wait_buffers(4);
        assert_eq!(frames_under_their_caps(&pads), [0, 1, 2, 3]);
    });
}

/// Reported: the same caps again throw away the pool or the statistics, or stall.
#[test]
fn the_same_caps_again_disturb_nothing() {
    watched(|| {
        let pads = Pads::raising();
        for number in 0..6 {
            assert!(pads.src.push_event(gst::event::Caps::new(&gray())));
            pads.push_all([number]);
        }
        pads.wait_buffers(6);
        assert_eq!(frames_under_their_caps(&pads), [0, 1, 2, 3, 4, 5]);
    });
}

/// Reported: caps that are refused in mid-stream leave the element dead, or let frames pass
/// unfiltered.
#[test]
fn refused_caps_let_no_frame_pass_and_good_ones_resume() {
    watched(|| {
        let pads = Pads::raising();
        pads.push_all(0..2);
        for bad in [
            "video/x-raw,format=v308,width=32,height=24,framerate=25/1",
            "audio/x-raw,format=S16LE,rate=8000,channels=1,layout=interleaved",
            "video/x-raw(memory:DMABuf),format=GRAY8,width=32,height=24,framerate=25/1",
            "video/x-bayer,format=bggr,width=32,height=24,framerate=25/1",
            "video/x-raw,format=GRAY8,width=32,height=24,framerate=25/1,interlace-mode=fields",
        ] {
            let bad: gst::Caps = bad.parse().expect("caps");
            pads.src.push_event(gst::event::Caps::new(&bad));
            assert_eq!(pads.push(9), Err(gst::FlowError::NotNegotiated), "{bad}");
        }
        assert!(pads.src.push_event(gst::event::Caps::new(&gray_of(64, 48))));
        let caps = gray_of(64, 48);
        for number in 2..5 {
            let pushed = pads.src.push(numbered_as(&caps, number));
            assert_eq!(pushed, Ok(gst::FlowSuccess::Ok));
        }
        pads.wait_buffers(5);
        assert_eq!(frames_under_their_caps(&pads), [0, 1, 2, 3, 4]);
    });
}

/// Reported: a change that downstream asks for while playing is not passed on to the source.
#[test]
fn a_size_that_downstream_changes_while_playing_reaches_the_source() {
    watched(|| {
        let pipeline = pipelines::parse(&format!(
            "videotestsrc pattern=white ! {RAISING} ! capsfilter name=wanted caps-change-mode=delayed \
             caps=\"video/x-raw,format=GRAY8,width=32,height=24\" ! fakesink name=out"
        ));
        let passed = pipelines::record(&pipeline);
        let wanted = pipeline.by_name("wanted").expect("a capsfilter");
        pipeline.set_state(gst::State::Playing).expect("plays");
        for (width, height) in [(64, 48), (33, 17), (32, 24)] {
            let caps = gst::Caps::builder("video/x-raw")
                .field("format", "GRAY8")
                .field("width", width)
                .field("height", height)
                .build();
            wanted.set_property("caps", &caps);
            let arrived = || {
                passed.lock().expect("not poisoned").events.iter().any(|e| {
                    matches!(e.view(), gst::EventView::Caps(c) if c.caps().can_intersect(&caps))
                })
            };
            while !arrived() {
                let error = pipeline
                    .bus()
                    .and_then(|bus| bus.pop_filtered(&[gst::MessageType::Error]));
                assert!(error.is_none(), "{error:?}");
                std::thread::yield_now();
            }
        }
        pipeline.set_state(gst::State::Null).expect("stops");
    });
}

/// Reported: pad templates with any memory feature take GPU or camera memory and fail at mapping.
#[test]
fn unknown_memory_features_are_refused() {
    watched(|| {
        for feature in ["DMABuf", "NVMM", "GLMemory", "VAMemory", "CUDAMemory"] {
            let pads = Pads::around(raising());
            pads.play();
            let caps: gst::Caps = format!(
                "video/x-raw(memory:{feature}),format=GRAY8,width=32,height=24,framerate=25/1"
            )
            .parse()
            .expect("caps");
            pads.begin_stream("feature", &caps);
            let pushed = pads.push(0);
            assert_eq!(pushed, Err(gst::FlowError::NotNegotiated), "{feature}");
            assert_eq!(pads.buffers().len(), 0, "{feature}");
        }
    });
}

/// Reported: GPU memory is offered where there is no GPU, so the pipeline fails instead of
/// negotiating plain memory.
#[test]
fn gpu_memory_is_not_offered_by_the_cpu() {
    watched(|| {
        let pads = Pads::around(raising());
        pads.play();
        for pad in [&pads.src, &pads.sink] {
            let caps = pad.peer_query_caps(None);
            for (_, features) in caps.iter_with_features() {
                assert!(!features.contains("memory:CUDAMemory"), "{caps}");
            }
        }
        let gpu: gst::Caps =
            "video/x-raw(memory:CUDAMemory),format=I420,width=32,height=24,framerate=25/1"
                .parse()
                .expect("caps");
        assert!(!pads.src.peer_query_accept_caps(&gpu));
    });
}

/// Reported: raw camera mosaics are filtered as if they were grey, mixing colours.
#[test]
fn bayer_is_refused() {
    watched(|| {
        pipelines::parse("fakesrc ! fakesink"); // GStreamer itself works
        let linked = gst::parse::launch(
            "videotestsrc num-buffers=2 ! video/x-bayer,format=bggr,width=64,height=48 ! \
             cudaconv backend=cpu ! fakesink",
        );
        assert!(linked.is_err(), "the link is refused");
    });
}

/// Reported: fields in separate buffers, half as high, are taken for whole frames.
#[test]
fn alternating_fields_are_refused_or_right() {
    watched(|| {
        let description = format!(
            "videotestsrc num-buffers=4 ! video/x-raw,format=I420,width=64,height=48 ! \
             interlace field-pattern=1:1 ! video/x-raw(format:Interlaced),interlace-mode=alternate \
             ! {RAISING} ! fakesink name=out"
        );
        if let Ok(pipeline) = gst::parse::launch(&description) {
            let pipeline = pipeline.downcast::<gst::Pipeline>().expect("a pipeline");
            let outcome = pipelines::play(&pipeline);
            assert!(outcome.error.is_some() || outcome.passed.buffers.len() == 8);
        }
    });
}

/// Reported: sizes beyond what can be computed are advertised, then fail in mid-stream.
#[test]
fn sizes_beyond_the_limit_are_refused_and_those_at_it_work() {
    watched(|| {
        for (width, height) in [(8, 70_000), (16_385, 1), (1, 16_385), (i32::MAX as u32, 1)] {
            let pads = Pads::around(raising());
            pads.play();
            assert!(pads.src.push_event(gst::event::StreamStart::new("large")));
            let caps = gray_of(width, height);
            pads.src.push_event(gst::event::Caps::new(&caps));
            pads.src.push_event(crate::common::pads::time_segment());
            let pushed = pads.src.push(gst::Buffer::with_size(16).expect("memory"));
            assert_eq!(pushed, Err(gst::FlowError::NotNegotiated), "{caps}");
        }
        for (width, height) in [(16_384, 1), (1, 16_384), (16_384, 3)] {
            let caps = gray_of(width, height);
            let pads = Pads::around(raising());
            pads.begin(&caps);
            assert_eq!(
                pads.src.push(numbered_as(&caps, 7)),
                Ok(gst::FlowSuccess::Ok)
            );
            pads.wait_buffers(1);
            assert_own_frame(&caps, &pads.buffers()[0], 7);
        }
    });
}

/// Reported: the element lists formats that it then cannot do.
#[test]
fn every_format_of_the_template_negotiates() {
    watched(|| {
        for format in [
            "GRAY8",
            "GRAY16_LE",
            "I420",
            "YV12",
            "NV12",
            "Y42B",
            "Y444",
            "YUY2",
            "UYVY",
            "RGB",
            "BGR",
            "RGBx",
            "BGRx",
            "RGBA",
            "BGRA",
            "I420_10LE",
            "P010_10LE",
        ] {
            assert!(formats().iter().any(|f| f == format), "{format} is offered");
        }
        for format in formats() {
            let caps = raw(&format, 34, 18);
            let pads = Pads::around(cudaconv(&[]));
            pads.begin(&caps);
            let frame = write(&caps, &noise(&caps, 41));
            assert_eq!(pads.src.push(frame), Ok(gst::FlowSuccess::Ok), "{format}");
            pads.wait_buffers(1);
        }
    });
}

/// Reported: pads of a filter that changes neither format nor size differ in what they take.
#[test]
fn both_pad_templates_list_the_same_caps_and_nothing_unbounded() {
    watched(|| {
        let element = raising();
        let template = |name: &str| {
            element
                .pad_template(name)
                .expect("a template")
                .caps()
                .clone()
        };
        assert_eq!(template("sink"), template("src"));
        for (structure, features) in template("sink").iter_with_features() {
            assert!(!features.is_any(), "{structure:?}");
            assert_eq!(structure.name(), "video/x-raw");
        }
    });
}

/// Reported: custom without coefficients, or a method that cannot do the kernel, passes frames
/// unfiltered.
#[test]
fn settings_that_cannot_be_done_are_an_error_of_settings_and_pass_nothing() {
    watched(|| {
        for (properties, words) in [
            (&[("kernel", "custom")][..], &["matrix"][..]),
            (&[("method", "tile")], &["tile", "naive"]),
            (
                &[("kernel", "emboss"), ("method", "separable")],
                &["separable", "naive"],
            ),
            (
                &[("kernel", "gauss3"), ("method", "fast")],
                &["fast", "naive"],
            ),
            (
                &[("kernel", "bilateral"), ("method", "fast")],
                &["fast", "window=circle", "auto, "],
            ),
            (
                &[("kernel", "sobel"), ("precision", "fp16")],
                &["precision=fp16", "kernel=sobel", "fp32"],
            ),
            (
                &[("method", "naive"), ("precision", "fp16")],
                &["precision=fp16", "method=naive", "separable"],
            ),
        ] {
            if backend() == "cuda" && properties == [("method", "tile")] {
                continue; // which the GPU has
            }
            let pads = Pads::around(cudaconv(properties));
            let error = error_of_start(&pads, &gray());
            assert!(error.matches(gst::LibraryError::Settings), "{error:?}");
            let text = error.to_string();
            for word in words {
                assert!(text.contains(word), "{text:?} says {word:?}");
            }
            assert!(text.len() > 20, "a sentence: {text:?}");
            assert_eq!(pads.buffers().len(), 0);
        }
    });
}

/// Starts the element, wherever it fails, and offers a frame; the error on the bus.
fn error_of_start(pads: &Pads, caps: &gst::Caps) -> gst::glib::Error {
    pads.sink.set_active(true).expect("the sink pad activates");
    pads.src.set_active(true).expect("the src pad activates");
    if pads.element.set_state(gst::State::Playing).is_ok() {
        pads.src
            .push_event(gst::event::StreamStart::new("settings"));
        pads.src.push_event(gst::event::Caps::new(caps));
        pads.src.push_event(crate::common::pads::time_segment());
        let pushed = pads.src.push(numbered_as(caps, 0));
        assert_eq!(pushed, Err(gst::FlowError::NotNegotiated));
    }
    pads.wait_error()
}

/// Reported: after a change of the range alone black stays at the level of before.
#[test]
fn a_change_of_colorimetry_alone_moves_black() {
    watched(|| {
        let with = |colorimetry: &str| {
            let mut caps = raw("I420", 32, 24);
            let target = caps.get_mut().expect("one owner");
            target.set("colorimetry", colorimetry);
            caps
        };
        let pads = Pads::around(cudaconv(&[("kernel", "sobel")]));
        pads.begin(&with("bt709"));
        for (round, (colorimetry, black)) in [("bt709", 16), ("1:3:5:1", 0), ("bt601", 16)]
            .into_iter()
            .enumerate()
        {
            let caps = with(colorimetry);
            assert!(pads.src.push_event(gst::event::Caps::new(&caps)));
            assert_eq!(
                pads.src.push(numbered_as(&caps, 90)),
                Ok(gst::FlowSuccess::Ok)
            );
            pads.wait_buffers(round + 1);
            let out = read(&caps, &pads.buffers()[round]);
            assert!(out[0].samples.iter().all(|s| *s == black), "{colorimetry}");
            assert!(out[1].samples.iter().all(|s| *s == 128), "{colorimetry}");
        }
    });
}
