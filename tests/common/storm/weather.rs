//! Threads that disturb a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use gst::prelude::*;

use crate::common::Random;

/// Threads that go on until they are told to end.
pub struct Weather {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Weather {
    pub fn new() -> Self {
        Weather {
            ended: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        }
    }

    /// Calls `action` every `pace` until the end.
    pub fn every(
        &mut self,
        pace: Duration,
        seed: u64,
        mut action: impl FnMut(&mut Random) + Send + 'static,
    ) {
        let ended = self.ended.clone();
        let thread = std::thread::spawn(move || {
            let mut random = Random::new(seed);
            while !ended.load(Ordering::SeqCst) {
                action(&mut random);
                // Pace alone: nothing waits for anything to have happened by then.
                std::thread::sleep(pace);
            }
        });
        self.threads.push(thread);
    }

    /// Changes a property of `element` every millisecond, in ways that leave a flat picture flat
    /// and raise it by 1 or by 2.
    pub fn change_properties(
        &mut self,
        element: &gst::Element,
        seed: u64,
        changes: &Arc<AtomicU64>,
    ) {
        // Custom coefficients are an error without any.
        element.set_property("matrix", "1 2 1;");
        let (element, changes) = (element.clone(), changes.clone());
        self.every(Duration::from_millis(1), seed, move |random| {
            change_one(&element, random);
            changes.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Ends the threads.
    ///
    /// # Panics
    /// When one of them did.
    pub fn end(self) {
        self.ended.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("nothing panics");
        }
    }
}

const KERNELS: [&str; 14] = [
    "identity", "box3", "box5", "box7", "box", "gauss3", "gauss5", "gauss7", "gauss9", "gauss",
    "sharpen", "unsharp", "emboss", "custom",
];

fn change_one(element: &gst::Element, random: &mut Random) {
    fn any<T: Copy>(random: &mut Random, of: &[T]) -> T {
        of[random.below(of.len() as u64) as usize]
    }
    match random.below(16) {
        0..=3 => element.set_property_from_str("kernel", any(random, &KERNELS)),
        4 => element.set_property_from_str("kernel", "bilateral"),
        5 | 6 => element.set_property("bias", any(random, &[1f64, 2.0])),
        7 => {
            let borders = ["replicate", "reflect", "reflect101", "wrap"];
            element.set_property_from_str("border", any(random, &borders));
        }
        8 => element.set_property("radius", any(random, &[0i32, 1, 3, 6])),
        9 => element.set_property("sigma", any(random, &[0f64, 0.7, 2.0])),
        10 => element.set_property("sigma-space", any(random, &[0.5f64, 2.0])),
        11 => {
            // The last is refused with a warning, and the one before it stays.
            let matrices = ["1 2 1;", "1 2 3; 4 5 6; 7 8 10", "0.1;0.7;0.3", "1 2; 3"];
            element.set_property("matrix", any(random, &matrices));
        }
        12 => element.set_property("post-messages", random.below(2) == 0),
        13 => element.set_property("silent", random.below(2) == 0),
        14 => element.set_property_from_str("method", any(random, &["auto", "naive"])),
        _ => drop(element.property::<gst::Structure>("stats")),
    }
}
