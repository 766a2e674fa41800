//! The downstream end of a storm: takes, delays, keeps or refuses frames, and checks each as it
//! comes, so that a storm of any length needs no memory.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::common::Random;
use crate::common::downstream::answer_caps;
use crate::common::frames::{flat_value, level, pts};
use crate::common::pools::{PaddedPool, padded_buffer};

/// What a checker knows and found.
pub struct Checks {
    random: Random,
    /// Frames are dropped or bypassed on purpose.
    lossy: bool,
    /// Which number comes next; `None` before a stream.
    next: Option<u64>,
    /// The first frame behind the FLUSH_STOP or STREAM_START of each sequence number.
    barriers: Vec<(gst::Seqnum, u64)>,
    /// From which number on which caps hold.
    planned: Vec<(u64, gst::Caps)>,
    caps: Option<gst::Caps>,
    /// A frame was refused since the last flush or start: what follows it is lost.
    broken: bool,
    refusing: Option<gst::FlowError>,
    pub flushing: bool,
    /// Frames that downstream holds on to, at most `keep`.
    kept: VecDeque<gst::Buffer>,
    keep: usize,
    pub taken: u64,
    pub refusals: u64,
    /// EOS events that came.
    pub ends: u64,
    pub faults: Vec<String>,
}

pub struct Checker {
    checks: Mutex<Checks>,
    pub changed: Condvar,
}

impl Checker {
    pub fn new(seed: u64, lossy: bool) -> Arc<Self> {
        Arc::new(Checker {
            checks: Mutex::new(Checks {
                random: Random::new(seed),
                lossy,
                next: None,
                barriers: Vec::new(),
                planned: Vec::new(),
                caps: None,
                broken: false,
                refusing: None,
                flushing: false,
                kept: VecDeque::new(),
                keep: 0,
                taken: 0,
                refusals: 0,
                ends: 0,
                faults: Vec::new(),
            }),
            changed: Condvar::new(),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Frames from `number` on have these caps.
    pub fn plan_caps(&self, number: u64, caps: &gst::Caps) {
        let mut checks = self.lock();
        checks.planned.retain(|(first, _)| *first != number);
        checks.planned.push((number, caps.clone()));
        let surplus = checks.planned.len().saturating_sub(400);
        checks.planned.drain(..surplus);
    }

    /// `number` is the first frame behind `event`.
    pub fn plan_barrier(&self, event: &gst::Event, number: u64) {
        self.lock().barriers.push((event.seqnum(), number));
    }

    /// From now on until a flush or a start every frame is answered so.
    pub fn refuse(&self, flow: gst::FlowError) {
        self.lock().refusing = Some(flow);
    }

    /// A stop begins: lets go of everything.
    pub fn stop(&self) {
        let kept = {
            let mut checks = self.lock();
            checks.flushing = true;
            std::mem::take(&mut checks.kept)
        };
        drop(kept);
        self.changed.notify_all();
    }

    /// Lets go of the frames that are kept, which may be upstream's own where they passed unfiltered.
    pub fn let_go(&self) {
        let kept = std::mem::take(&mut self.lock().kept);
        drop(kept);
    }

    /// A start begins: what was refused is forgotten.
    pub fn start(&self) {
        let mut checks = self.lock();
        checks.flushing = false;
        checks.broken = false;
        checks.refusing = None;
    }

    /// Waits until `ready` holds; false if it does not within a minute.
    pub fn wait(&self, mut ready: impl FnMut(&Checks) -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut checks = self.lock();
        while !ready(&checks) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            checks = self
                .changed
                .wait_timeout(checks, left)
                .unwrap_or_else(|p| p.into_inner())
                .0;
        }
        true
    }

    fn chain(&self, buffer: gst::Buffer) -> Result<gst::FlowSuccess, gst::FlowError> {
        let mut checks = self.lock();
        // Now and then the frame is not taken for a while.
        if checks.random.below(12) == 0 {
            let until = Instant::now() + Duration::from_micros(checks.random.below(15_000));
            while !checks.flushing && Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                checks = self
                    .changed
                    .wait_timeout(checks, left)
                    .unwrap_or_else(|p| p.into_inner())
                    .0;
            }
        }
        if checks.flushing {
            return Err(gst::FlowError::Flushing);
        }
        if let Some(flow) = checks.refusing {
            checks.refusals += 1;
            checks.broken = true;
            return Err(flow);
        }
        checks.judge(&buffer);
        checks.taken += 1;
        checks.kept.push_back(buffer);
        let surplus = checks.kept.len().saturating_sub(checks.keep);
        let released: Vec<_> = checks.kept.drain(..surplus).collect();
        drop(checks);
        drop(released);
        self.changed.notify_all();
        Ok(gst::FlowSuccess::Ok)
    }

    fn event(&self, event: gst::Event) {
        let mut checks = self.lock();
        let mut released = VecDeque::new();
        match event.view() {
            gst::EventView::FlushStart(_) => {
                checks.flushing = true;
                released = std::mem::take(&mut checks.kept);
            }
            gst::EventView::FlushStop(_) => {
                checks.flushing = false;
                checks.broken = false;
                checks.refusing = None;
                checks.begin(&event);
            }
            gst::EventView::StreamStart(_) => checks.begin(&event),
            gst::EventView::Caps(caps) => checks.caps = Some(caps.caps_owned()),
            gst::EventView::Eos(_) => checks.ends += 1,
            _ => checks.judge_event(&event),
        }
        drop(checks);
        drop(released);
        self.changed.notify_all();
    }

    fn query(&self, query: &mut gst::QueryRef) -> Option<bool> {
        match query.view_mut() {
            gst::QueryViewMut::Allocation(query) => Some(self.lock().offer(query)),
            gst::QueryViewMut::Drain(_) => Some(true),
            gst::QueryViewMut::Caps(query) => {
                answer_caps(query, &gst::Caps::new_any());
                Some(true)
            }
            gst::QueryViewMut::AcceptCaps(query) => {
                query.set_result(true);
                Some(true)
            }
            _ => None,
        }
    }

    /// The pad that the element pushes into.
    pub fn pad(self: &Arc<Self>) -> gst::Pad {
        let (chain, event, query) = (self.clone(), self.clone(), self.clone());
        gst::Pad::builder(gst::PadDirection::Sink)
            .name("downstream")
            .chain_function(move |_, _, buffer| chain.chain(buffer))
            .event_function(move |_, _, e| {
                event.event(e);
                true
            })
            .query_function(move |pad, parent, q| {
                query
                    .query(q)
                    .unwrap_or_else(|| gst::Pad::query_default(pad, parent, q))
            })
            .build()
    }
}

impl Checks {
    fn fault(&mut self, text: String) {
        if self.faults.len() < 20 {
            self.faults.push(text);
        }
    }

    /// A new stream or what follows a flush.
    fn begin(&mut self, event: &gst::Event) {
        let sent = self.barriers.iter().position(|(s, _)| *s == event.seqnum());
        match sent {
            Some(index) => {
                self.next = Some(self.barriers[index].1);
                // Those before it were flushed away.
                self.barriers.drain(..=index);
            }
            // A STREAM_START that a flush found on its way is kept, and comes behind it.
            None if event.type_() == gst::EventType::StreamStart => {}
            None => self.fault(format!("{event:?} was never sent")),
        }
    }

    fn judge(&mut self, buffer: &gst::Buffer) {
        let number = buffer.offset();
        match self.next {
            _ if buffer.pts() != Some(pts(number)) => {
                self.fault(format!("frame {number} has the time {:?}", buffer.pts()));
            }
            None => self.fault(format!("frame {number} before any stream")),
            Some(next) if number < next => {
                self.fault(format!(
                    "frame {number} is stale or doubled; next is {next}"
                ));
            }
            Some(next) if number > next && !self.lossy => {
                self.fault(format!("frames {next} to {} are lost", number - 1));
            }
            Some(_) => {}
        }
        self.next = Some(number + 1);
        let planned = self.planned.iter().rev().find(|(n, _)| *n <= number);
        let planned = planned.map(|(_, caps)| caps.clone());
        if planned.is_none() || self.caps != planned {
            let text = format!("frame {number} has {:?}, not {planned:?}", self.caps);
            return self.fault(text);
        }
        let caps = planned.expect("checked above");
        let value = std::panic::catch_unwind(|| flat_value(&caps, buffer));
        match value {
            // Raised by the bias before or the one after a change, or passed on purpose.
            Ok(value) => {
                let raised = value.wrapping_sub(level(number));
                if !(raised == 1 || raised == 2 || raised == 0 && self.lossy) {
                    self.fault(format!(
                        "frame {number} is {value}: {raised} above its level"
                    ));
                }
            }
            Err(_) => self.fault(format!("frame {number} of {caps} is torn")),
        }
    }

    /// An event that carries the number of the frame it precedes.
    fn judge_event(&mut self, event: &gst::Event) {
        let number = event.structure().and_then(|s| s.get::<u64>("number").ok());
        let Some(number) = number else { return };
        if !self.broken && !self.lossy && self.next != Some(number) {
            self.fault(format!(
                "event {number} comes where {:?} is next",
                self.next
            ));
        }
    }

    /// Whether everything before `number` came, where nothing may be missing.
    pub fn is_complete(&self, number: u64) -> bool {
        self.broken || self.lossy || self.next == Some(number)
    }

    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Answers an ALLOCATION query: not at all, with a pool of few buffers, or with padded ones.
    fn offer(&mut self, query: &mut gst::query::Allocation) -> bool {
        self.keep = 0;
        let (Some(caps), _) = query.get_owned() else {
            return false;
        };
        let Ok(info) = gst_video::VideoInfo::from_caps(&caps) else {
            return false;
        };
        let size = info.size() as u32;
        match self.random.below(4) {
            0 => return false,
            1 => {
                let max = 1 + self.random.below(3) as u32;
                self.keep = self.random.below(u64::from(max)) as usize;
                query.add_allocation_pool(Some(&gst::BufferPool::new()), size, 0, max);
            }
            2 => {
                // A pool cuts its buffers to the size that it was given.
                let padded = padded_buffer(&info).map_or(0, |buffer| buffer.size() as u32);
                query.add_allocation_pool(Some(&PaddedPool::make()), padded, 0, 0);
            }
            _ => self.keep = self.random.below(5) as usize,
        }
        query.add_allocation_meta::<gst_video::VideoMeta>(None);
        true
    }
}
