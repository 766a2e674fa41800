//! Streams: a thread each, which does what was submitted one after the other.

use std::hash::{BuildHasher, RandomState};
use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::call::{self, Code};
use crate::clock::{Access, Clock};
use crate::event::Record;
use crate::inject::{self, Fate};
use crate::memory::Rows;
use crate::settings::SETTINGS;
use crate::world::{self, EXECUTION, Handle, PROGRESS, World};

/// A range of addresses, of the device or of page-locked host memory, that an operation uses.
pub struct Use {
    pub from: u64,
    pub to: u64,
    pub write: bool,
}

impl Use {
    pub fn read(rows: &Rows) -> Use {
        Use {
            from: rows.address,
            to: rows.end(),
            write: false,
        }
    }

    pub fn write(rows: &Rows) -> Use {
        Use {
            write: true,
            ..Use::read(rows)
        }
    }
}

enum Task {
    Work {
        call: &'static str,
        run: Box<dyn FnOnce() + Send>,
        fate: Fate,
    },
    Record(Arc<Record>),
    Wait(Arc<Record>),
}

pub struct Stream {
    handle: Handle,
    pub context: Handle,
    tasks: Sender<(u64, Task)>,
    /// Tasks submitted and tasks done, whatever their kind.
    pub submitted: u64,
    pub completed: u64,
    /// The last task that touches memory.
    last_work: u64,
    /// What is ordered before the next task, all earlier ones of this stream included.
    pub clock: Clock,
}

impl Stream {
    /// Starts the thread of the stream `handle`. It ends when the stream is dropped and all that
    /// was submitted is done.
    pub fn new(handle: Handle, context: Handle) -> Stream {
        let (tasks, receiver) = channel();
        thread::Builder::new()
            .name("fakecuda stream".into())
            .spawn(move || {
                let work = AssertUnwindSafe(|| run(handle, context, &receiver));
                // Else whoever waits for the stream would do so for ever.
                if panic::catch_unwind(work).is_err() {
                    process::abort();
                }
            })
            .expect("a thread for the stream");
        Stream {
            handle,
            context,
            tasks,
            submitted: 0,
            completed: 0,
            last_work: 0,
            clock: Clock::default(),
        }
    }

    /// Whether the host knows that nothing of this stream touches memory any more.
    pub fn over(&self, host: &Clock) -> bool {
        self.last_work == 0 || host.knows(self.handle, self.last_work)
    }

    fn push(&mut self, task: Task) {
        self.submitted += 1;
        self.clock.advance(self.handle, self.submitted);
        // The thread receives as long as this sender is there.
        let _ = self.tasks.send((self.submitted, task));
    }

    /// Records an event here.
    pub fn record(&mut self, host: &Clock) -> Arc<Record> {
        self.clock.join(host);
        let mut clock = self.clock.clone();
        clock.advance(self.handle, self.submitted + 1);
        let record = Arc::new(Record::new(clock));
        self.push(Task::Record(record.clone()));
        record
    }

    /// Makes all that is submitted from now on wait for `record`.
    pub fn wait_for(&mut self, record: Arc<Record>) {
        self.clock.join(&record.clock);
        self.push(Task::Wait(record));
    }
}

impl World {
    /// Puts work on a stream of the current context. `uses` is all the memory that `run` touches.
    /// Returns its number there.
    ///
    /// # Errors
    /// As [`World::stream`].
    pub fn submit(
        &mut self,
        handle: Handle,
        uses: &[Use],
        run: impl FnOnce() + Send + 'static,
    ) -> Result<u64, Code> {
        let host = self.host.clone();
        let stream = self.stream(handle)?;
        stream.clock.join(&host);
        let number = stream.submitted + 1;
        stream.last_work = number;
        let clock = stream.clock.clone();
        let call = call::running();
        for used in uses {
            let access = Access {
                from: used.from,
                to: used.to,
                write: used.write,
                stream: handle,
                number,
                call,
            };
            self.memory.note(access, &clock, &host);
        }
        let fate = inject::work(call, call::count(call));
        self.stream(handle)?.push(Task::Work {
            call,
            run: Box::new(run),
            fate,
        });
        Ok(number)
    }
}

/// Held by the kernel that runs, where one does at a time.
static KERNELS: Mutex<()> = Mutex::new(());

/// The thread of one stream.
fn run(handle: Handle, context: Handle, tasks: &Receiver<(u64, Task)>) {
    let random = RandomState::new();
    while let Ok((number, task)) = tasks.recv() {
        match task {
            Task::Work { call, run, fate } => {
                let _alone =
                    (SETTINGS.serial && call == "cuLaunchKernel").then(|| KERNELS.lock().unwrap());
                thread::sleep(fate.delay);
                delay(random.hash_one(number));
                work(context, call, run, fate.fault);
            }
            Task::Record(record) => record.reach(),
            Task::Wait(record) => {
                let mut world = world::lock();
                while record.reached().is_none() && world.broken(context).is_none() {
                    world = world::wait(world);
                }
            }
        }
        let mut world = world::lock();
        if let Some(stream) = world.streams.get_mut(&handle) {
            stream.completed = number;
        }
        PROGRESS.notify_all();
    }
}

/// Real devices take their time: whoever does not wait for them shall be found out.
fn delay(random: u64) {
    if SETTINGS.delay_us > 0 {
        thread::sleep(Duration::from_micros(random % (SETTINGS.delay_us + 1)));
    }
}

fn work(context: Handle, call: &'static str, run: Box<dyn FnOnce() + Send>, fault: Option<Code>) {
    call::set_running(call);
    if let Some(code) = fault {
        world::break_context(context, code);
        return;
    }
    let _executes = EXECUTION.read().unwrap();
    let broken = world::lock().broken(context).is_some();
    if !broken {
        run();
    }
}
