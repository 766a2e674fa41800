//! The driver's state: every object by its handle, under one lock.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, RwLock};

use crate::abi::ladder::Sample;
use crate::call::{Code, code};
use crate::clock::Clock;
use crate::event::Event;
use crate::memory::Memory;
use crate::stream::Stream;
use crate::violation;

/// What a program holds of an object. Never 0, never used twice, no address.
pub type Handle = usize;

/// Handles count up from here.
const FIRST_HANDLE: Handle = 0x00CD_A000_0000;

/// A primary context.
pub struct Context {
    /// Index into the visible devices.
    pub device: usize,
    pub retained: u32,
}

/// PTX that was loaded.
pub struct Module {
    pub context: Handle,
    /// Names of the kernels in it.
    pub entries: Vec<String>,
    /// Variables in it: name, address and bytes.
    pub variables: Vec<(String, u64, u64)>,
    /// Launches of them that the host does not know to be over: stream and number.
    pub launches: Vec<(Handle, u64)>,
}

/// A texture object: rows of single samples in device memory.
#[derive(Debug)]
pub struct Texture {
    pub context: Handle,
    pub address: u64,
    pub sample: Sample,
    pub width: usize,
    pub height: usize,
    /// Bytes from one row to the next.
    pub pitch: u64,
}

/// A kernel of a module.
pub struct Function {
    pub module: Handle,
    pub name: String,
    /// Bytes of dynamic shared memory that it may be launched with.
    pub max_dynamic_shared: u32,
}

pub struct World {
    pub initialised: bool,
    next_handle: Handle,
    /// Codes that left devices unusable for the rest of the process.
    broken: HashMap<usize, Code>,
    pub contexts: HashMap<Handle, Context>,
    pub streams: HashMap<Handle, Stream>,
    pub events: HashMap<Handle, Event>,
    pub modules: HashMap<Handle, Module>,
    pub functions: HashMap<Handle, Function>,
    pub textures: HashMap<Handle, Texture>,
    pub memory: Memory,
    /// What the host knows to be over.
    pub host: Clock,
}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| {
    Mutex::new(World {
        initialised: false,
        next_handle: FIRST_HANDLE,
        broken: HashMap::new(),
        contexts: HashMap::new(),
        streams: HashMap::new(),
        events: HashMap::new(),
        modules: HashMap::new(),
        functions: HashMap::new(),
        textures: HashMap::new(),
        memory: Memory::default(),
        host: Clock::default(),
    })
});

/// Told whenever work on a stream is done.
pub static PROGRESS: Condvar = Condvar::new();

/// Held for reading by every operation that runs, for writing while a device breaks: once a call
/// returns the error, no operation touches memory any more.
pub static EXECUTION: RwLock<()> = RwLock::new(());

thread_local! {
    static STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

pub fn lock() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap()
}

/// Gives the lock away until work on a stream is done.
pub fn wait(world: MutexGuard<'static, World>) -> MutexGuard<'static, World> {
    PROGRESS.wait(world).unwrap()
}

/// This thread's contexts, the current one last.
pub fn with_stack<T>(f: impl FnOnce(&mut Vec<Handle>) -> T) -> T {
    STACK.with_borrow_mut(f)
}

/// The context that is current on this thread, if one is.
pub fn top() -> Option<Handle> {
    with_stack(|stack| stack.last().copied())
}

/// Whether a context is of no use any more after this error.
fn sticky(code: Code) -> bool {
    matches!(code, 214 | 220 | 226 | 700 | 702 | 710 | 714..=719)
}

/// Makes the device of the current context unusable if `code` is an error that does so.
pub fn break_current_context(code: Code) {
    if let Some(context) = top().filter(|_| sticky(code)) {
        break_context(context, code);
    }
}

/// Makes the device of `context` unusable, after all operations that run now.
pub fn break_context(context: Handle, code: Code) {
    let _no_operation = EXECUTION.write().unwrap();
    let mut world = lock();
    if let Some(device) = world.contexts.get(&context).map(|context| context.device) {
        world.broken.entry(device).or_insert(code);
    }
    PROGRESS.notify_all();
}

impl World {
    pub fn new_handle(&mut self) -> Handle {
        self.next_handle += 0x10;
        self.next_handle
    }

    /// # Errors
    /// `NOT_INITIALIZED` before `cuInit`.
    pub fn initialised(&self) -> Result<(), Code> {
        if self.initialised {
            Ok(())
        } else {
            Err(code::NOT_INITIALIZED)
        }
    }

    /// What left `device` unusable.
    pub fn broken_device(&self, device: usize) -> Option<Code> {
        self.broken.get(&device).copied()
    }

    /// What left the device of `context` unusable.
    pub fn broken(&self, context: Handle) -> Option<Code> {
        self.broken_device(self.contexts.get(&context)?.device)
    }

    /// The context that the running call works in.
    ///
    /// # Errors
    /// When the driver is not initialised, the context was destroyed, or its device is broken.
    pub fn current(&self) -> Result<Handle, Code> {
        self.initialised()?;
        let Some(context) = top() else {
            violation!("no context is current on this thread");
        };
        if !self.contexts.contains_key(&context) {
            return Err(code::CONTEXT_IS_DESTROYED);
        }
        self.broken(context).map_or(Ok(context), Err)
    }

    /// The stream `handle` of the current context.
    ///
    /// # Errors
    /// As [`World::current`].
    pub fn stream(&mut self, handle: Handle) -> Result<&mut Stream, Code> {
        let current = self.current()?;
        // 0 and 1 are the legacy default stream, 2 the one of the thread.
        if handle <= 2 {
            violation!("the default stream must not be used");
        }
        match self.streams.get_mut(&handle) {
            None => violation!("{handle:#x} is no stream, or it was destroyed"),
            Some(stream) if stream.context != current => {
                violation!("the stream belongs to another context than the current one")
            }
            Some(stream) => Ok(stream),
        }
    }

    /// The event `handle`, of whatever context.
    ///
    /// # Errors
    /// As [`World::current`].
    pub fn event(&mut self, handle: Handle) -> Result<&mut Event, Code> {
        self.current()?;
        match self.events.get_mut(&handle) {
            None => violation!("{handle:#x} is no event, or it was destroyed"),
            Some(event) => Ok(event),
        }
    }

    /// Destroys `context` and all that belongs to it.
    pub fn destroy_context(&mut self, context: Handle) {
        if self.broken(context).is_none() {
            for stream in self.streams.values().filter(|s| s.context == context) {
                if !stream.over(&self.host) {
                    violation!("the context goes while work on one of its streams is in flight");
                }
            }
        }
        self.contexts.remove(&context);
        self.streams.retain(|_, stream| stream.context != context);
        self.events.retain(|_, event| event.context != context);
        self.modules.retain(|_, module| module.context != context);
        self.textures
            .retain(|_, texture| texture.context != context);
        let modules = &self.modules;
        self.functions
            .retain(|_, function| modules.contains_key(&function.module));
        self.memory.forget_context(context);
        if self.contexts.is_empty() {
            // Nothing is left that streams of before could have to do with.
            self.host = Clock::default();
        }
    }
}
