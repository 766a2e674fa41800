//! The order of events among frames, and which way each goes.

use gst::prelude::*;

use crate::common::frames::{assert_raised, gray, gray_of, level, numbered, numbered_as, pts};
use crate::common::pads::{Item, Pads, number_event, time_segment};
use crate::common::raising;
use crate::common::watchdog::watched;

fn tag_event(title: &str) -> gst::Event {
    let mut tags = gst::TagList::new();
    tags.get_mut()
        .expect("one owner")
        .add::<gst::tags::Title>(&title, gst::TagMergeMode::Append);
    gst::event::Tag::new(tags)
}

/// Pushes frames with an event of each kind between them; the words expected downstream.
fn push_mixture(src: &gst::Pad) -> Vec<String> {
    let mut words = Vec::new();
    for number in 0..24u64 {
        let event = match number % 4 {
            0 => number_event(number),
            1 => tag_event(&format!("title {number}")),
            2 => gst::event::Gap::builder(pts(number)).build(),
            _ => time_segment(),
        };
        words.push(match number % 4 {
            0 => format!("number {number}"),
            1 => "tag".to_string(),
            2 => "gap".to_string(),
            _ => "segment".to_string(),
        });
        assert!(src.push_event(event), "event {number}");
        assert_eq!(src.push(numbered(number)), Ok(gst::FlowSuccess::Ok));
        words.push(format!("frame {number}"));
    }
    assert!(src.push_event(gst::event::Eos::new()));
    words.push("eos".into());
    words
}

fn words_without_queries(pads: &Pads) -> Vec<String> {
    pads.items()
        .iter()
        .filter(|item| !matches!(item, Item::Allocation(_) | Item::Drain))
        .map(Item::word)
        .collect()
}

/// Reported: serialized events pass the frames in flight, so tags, gaps and segments belong to
/// other frames than upstream meant.
#[test]
fn serialized_events_keep_their_place_among_frames() {
    watched(|| {
        for depth in [1u32, 2, 8] {
            let element = raising();
            element.set_property("depth", depth);
            let pads = Pads::around(element);
            pads.begin(&gray());
            let mut wanted: Vec<String> =
                ["stream-start", "caps", "segment"].map(String::from).into();
            wanted.extend(push_mixture(&pads.src));
            pads.wait_event(gst::EventType::Eos);
            assert_eq!(words_without_queries(&pads), wanted, "depth {depth}");
        }
    });
}

/// Reported: the same, only while downstream is slow and everything waits in the element.
#[test]
fn events_queued_behind_a_blocked_frame_keep_their_place() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        let src = pads.src.clone();
        let pushing = std::thread::spawn(move || push_mixture(&src));
        pads.wait_blocked();
        pads.open_gate();
        let mut wanted: Vec<String> = ["stream-start", "caps", "segment"].map(String::from).into();
        wanted.extend(pushing.join().expect("everything is taken"));
        pads.wait_event(gst::EventType::Eos);
        assert_eq!(words_without_queries(&pads), wanted);
    });
}

/// Reported: an element that drains at every serialized event loses all overlap, or hangs, as
/// soon as a tracer sends one per buffer.
#[test]
fn events_between_frames_wait_for_no_frame() {
    watched(|| {
        let element = raising();
        element.set_property("depth", 3u32);
        let pads = Pads::around(element);
        pads.begin(&gray());
        pads.close_gate();
        pads.push_all([0]);
        pads.wait_blocked();
        // Frame 0 is blocked downstream: nothing here returns if it waits for that frame.
        for number in 1..3 {
            assert!(pads.push_number(number));
            pads.push_all([number]);
        }
        for number in 3..200 {
            assert!(pads.push_number(number));
        }
        pads.open_gate();
        pads.wait_number(199);
        assert_raised(&pads.buffers(), 0..3);
    });
}

/// Reported: a frame that waits in a slow sink keeps a slot, so one fewer is in work.
#[test]
fn a_frame_being_pushed_holds_no_slot() {
    watched(|| {
        let element = raising();
        element.set_property("depth", 1u32);
        let pads = Pads::around(element);
        pads.begin(&gray());
        pads.close_gate();
        pads.push_all([0]);
        pads.wait_blocked();
        pads.push_all([1]);
        pads.open_gate();
        pads.wait_buffers(2);
        assert_raised(&pads.buffers(), 0..2);
    });
}

/// Reported: events that are not serialized wait behind the frames.
#[test]
fn an_out_of_band_event_overtakes_blocked_frames() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all([0]);
        pads.wait_blocked();
        let event = gst::event::CustomDownstreamOob::new(
            gst::Structure::builder("test-number")
                .field("number", 77u64)
                .build(),
        );
        assert!(pads.src.push_event(event));
        pads.wait_number(77);
        assert_eq!(pads.buffers().len(), 0);
        pads.open_gate();
        pads.wait_buffers(1);
    });
}

/// Reported: events from downstream get lost or wait for the frames.
#[test]
fn upstream_events_go_up_while_frames_are_blocked() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all([0]);
        pads.wait_blocked();
        let events = [
            gst::event::Qos::builder(gst::QOSType::Underflow, 1.5, 3).build(),
            gst::event::Navigation::new(gst::Structure::new_empty("application/x-gst-navigation")),
            gst::event::CustomUpstream::new(gst::Structure::new_empty("test-upstream")),
            gst::event::Latency::new(gst::ClockTime::from_mseconds(5)),
        ];
        for event in &events {
            assert!(pads.sink.push_event(event.clone()), "{event:?}");
        }
        let types: Vec<_> = pads.upstream_events().iter().map(|e| e.type_()).collect();
        for event in &events {
            assert!(types.contains(&event.type_()), "{event:?} in {types:?}");
        }
        pads.open_gate();
    });
}

/// Reported: after a flush that hits queued CAPS and TAG events, the next frame has none.
#[test]
fn sticky_events_survive_a_flush_that_finds_them_queued() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all([0]);
        pads.wait_blocked();
        let sticky = gst::event::CustomDownstreamSticky::new(
            gst::Structure::builder("test-sticky")
                .field("word", "kept")
                .build(),
        );
        assert!(pads.src.push_event(tag_event("kept")));
        assert!(pads.src.push_event(sticky));
        pads.flush();
        pads.forget();
        pads.open_gate();
        pads.push_all([5]);
        pads.wait_buffers(1);
        assert_raised(&pads.buffers(), [5]);
        let tags = pads
            .sink
            .sticky_event::<gst::event::Tag>(0)
            .expect("the tags arrived");
        let title = tags
            .tag()
            .get::<gst::tags::Title>()
            .map(|t| t.get().to_string());
        assert_eq!(title.as_deref(), Some("kept"));
        let sticky = pads
            .sink
            .sticky_event::<gst::event::CustomDownstreamSticky>(0)
            .expect("the custom event arrived");
        let word = sticky
            .structure()
            .and_then(|s| s.get::<String>("word").ok());
        assert_eq!(word.as_deref(), Some("kept"));
    });
}

/// Reported: the same for new caps, whose frames then come out with the old size.
#[test]
fn caps_that_a_flush_interrupts_still_reach_downstream_before_their_frames() {
    watched(|| {
        let larger = gray_of(64, 48);
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all([0]);
        pads.wait_blocked();
        let src = pads.src.clone();
        let event = gst::event::Caps::new(&larger);
        // The frames before are to go out first, which they cannot: this waits for the flush.
        let pushing = std::thread::spawn(move || src.push_event(event));
        assert!(pads.src.push_event(gst::event::FlushStart::new()));
        let _ = pushing.join().expect("the caps event comes back");
        assert!(pads.src.push_event(gst::event::FlushStop::new(true)));
        assert!(pads.src.push_event(time_segment()));
        pads.open_gate();
        pads.forget();
        // Not taken during the flush, caps come again with the next frame, from the core.
        let caps = pads
            .src
            .sticky_event::<gst::event::Caps>(0)
            .map(|caps| caps.caps_owned());
        assert_eq!(caps.as_ref(), Some(&larger));
        assert_eq!(
            pads.src.push(numbered_as(&larger, 9)),
            Ok(gst::FlowSuccess::Ok)
        );
        pads.wait_buffers(1);
        let out = pads.buffers().remove(0);
        assert_eq!(
            crate::common::frames::flat_value(&larger, &out),
            level(9) + 1
        );
        assert_eq!(pads.sink.current_caps(), Some(larger));
        assert!(pads.sink.sticky_event::<gst::event::Segment>(0).is_some());
    });
}

/// Reported: SEGMENT and EOS of before a flush come out after it.
#[test]
fn segment_and_eos_do_not_survive_a_flush() {
    watched(|| {
        let pads = Pads::raising();
        pads.close_gate();
        pads.push_all([0]);
        pads.wait_blocked();
        let mut segment = gst::FormattedSegment::<gst::ClockTime>::new();
        segment.set_start(pts(1000));
        assert!(pads.src.push_event(gst::event::Segment::new(&segment)));
        assert!(pads.end());
        pads.flush();
        pads.open_gate();
        pads.push_all(1..4);
        pads.wait_buffers(3);
        assert_raised(&pads.buffers(), 1..4);
        assert!(pads.events(gst::EventType::Eos).is_empty());
        for event in pads.events(gst::EventType::Segment) {
            if let gst::EventView::Segment(event) = event.view() {
                let start = event.segment().start();
                assert_eq!(
                    start,
                    gst::GenericFormattedValue::from(gst::ClockTime::ZERO)
                );
            }
        }
    });
}

/// Reported: the sequence numbers of a seek are lost, so applications cannot tell whose EOS it is.
#[test]
fn sequence_numbers_of_events_are_kept() {
    watched(|| {
        let pads = Pads::raising();
        let seqnum = gst::Seqnum::next();
        let segment = gst::FormattedSegment::<gst::ClockTime>::new();
        let event = gst::event::Segment::builder(&segment)
            .seqnum(seqnum)
            .build();
        assert!(pads.src.push_event(event));
        pads.push_all([0]);
        assert!(
            pads.src
                .push_event(gst::event::Eos::builder().seqnum(seqnum).build())
        );
        pads.wait_event(gst::EventType::Eos);
        let last = pads.events(gst::EventType::Segment).pop();
        assert_eq!(last.map(|e| e.seqnum()), Some(seqnum));
        assert_eq!(pads.events(gst::EventType::Eos)[0].seqnum(), seqnum);
    });
}
