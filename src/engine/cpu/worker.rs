//! The thread of one engine: takes frames in the order of their submission and answers each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::compute::Compiled;
use crate::engine::{EngineError, Frame, Ticket};
use crate::latency::EngineTiming;

/// Its name in debuggers and `top`, at most the 15 bytes that Linux keeps.
const THREAD_NAME: &str = "cudaconv-cpu";

type Answer = (Frame, Result<EngineTiming, EngineError>);

/// A frame on its way to the thread. However it ends, its ticket is answered: a frame that is
/// dropped unfiltered goes back with an error.
struct Work {
    frame: Option<Frame>,
    plan: Arc<Compiled>,
    device: Arc<str>,
    reply: Sender<Answer>,
}

impl Work {
    fn run(mut self) {
        let Some(mut frame) = self.frame.take() else {
            return;
        };
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| self.plan.run(&mut frame)));
        let finished = Instant::now();
        let result = match result {
            Ok(()) => Ok(EngineTiming {
                started,
                finished,
                copy_in: Duration::ZERO,
                upload: Duration::ZERO,
                kernel: finished - started,
                download: Duration::ZERO,
                pinned_in: false,
                pinned_out: false,
            }),
            Err(panic) => Err(EngineError {
                call: "filtering a frame".into(),
                reason: panic_text(panic.as_ref()).into(),
                device: self.device.to_string(),
            }),
        };
        self.answer(frame, result);
    }

    fn answer(&self, frame: Frame, result: Result<EngineTiming, EngineError>) {
        // Fails only if the ticket was dropped: then nobody wants the frame.
        let _ = self.reply.send((frame, result));
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            let error = EngineError {
                call: "submitting a frame".into(),
                reason: "the engine has ended".into(),
                device: self.device.to_string(),
            };
            self.answer(frame, Err(error));
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    (panic.downcast_ref::<&str>().copied())
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic without a message")
}

enum Message {
    Work(Work),
    End,
}

/// Where frames are handed in.
#[derive(Clone)]
pub struct Queue {
    sender: Sender<Message>,
    device: Arc<str>,
}

impl Queue {
    pub fn submit(&self, plan: &Arc<Compiled>, frame: Frame) -> Box<dyn Ticket> {
        let (reply, answer) = bounded(1);
        let work = Work {
            frame: Some(frame),
            plan: plan.clone(),
            device: self.device.clone(),
            reply,
        };
        // A thread that has ended hands the work back, and dropping it answers the ticket.
        let _ = self.sender.send(Message::Work(work));
        Box::new(CpuTicket { answer })
    }
}

struct CpuTicket {
    answer: Receiver<Answer>,
}

impl Ticket for CpuTicket {
    fn wait(self: Box<Self>) -> Answer {
        (self.answer.recv()).expect("every work answers before its sender is dropped")
    }
}

/// The running thread. Dropping it lets the frames in flight end and the thread with them.
pub struct Worker {
    queue: Queue,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// # Errors
    /// When the system refuses the thread.
    pub fn start(device: Arc<str>) -> std::io::Result<Worker> {
        let (sender, receiver) = unbounded();
        let thread = std::thread::Builder::new()
            .name(THREAD_NAME.into())
            .spawn(move || serve(&receiver))?;
        Ok(Worker {
            queue: Queue { sender, device },
            thread: Some(thread),
        })
    }

    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    fn may_join(&self, thread: ThreadId) -> bool {
        // On its own thread (a frame's memory held the last engine) it would wait for itself; a
        // thread of the pool has the frames of others to work on.
        thread != std::thread::current().id() && rayon::current_thread_index().is_none()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.queue.sender.send(Message::End);
        if let Some(thread) = self.thread.take()
            && self.may_join(thread.thread().id())
        {
            // A panic there was already reported by its hook, and no frame depends on it.
            let _ = thread.join();
        }
    }
}

fn serve(receiver: &Receiver<Message>) {
    // Work that is queued behind `End` is dropped with the receiver, which answers it.
    while let Ok(Message::Work(work)) = receiver.recv() {
        work.run();
    }
}
