//! The driver and its devices: found, opened, and explained where that fails.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use super::api::{Api, CUdevice, Failure, LoadError, code};
use super::context::Context;
use super::error::CudaError;
use super::pinned;
use crate::engine::EngineError;

/// The oldest CUDA version whose driver takes the PTX of this program.
pub const NEEDED_CUDA: (u32, u32) = (12, 2);
/// The first driver of that version, for people.
const NEEDED_DRIVER: &str = "535";
/// The oldest architecture that the PTX is for (Turing).
pub const NEEDED_CAPABILITY: (u32, u32) = (7, 5);

/// Why no GPU can be used. Each sentence says what was found and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    #[error(
        "no NVIDIA driver: libcuda.so.1 was not found. Install the NVIDIA driver, version \
         {NEEDED_DRIVER} or newer (no CUDA toolkit is needed); in a container, start it with the \
         NVIDIA container runtime"
    )]
    Missing,
    #[error(
        "the NVIDIA driver's libcuda lacks the function {0}. Install the NVIDIA driver, version \
         {NEEDED_DRIVER} or newer, and remove other files of this name from LD_LIBRARY_PATH"
    )]
    Incomplete(&'static str),
    #[error(
        "the NVIDIA driver supports CUDA {}.{}, but {}.{} is needed. Install the NVIDIA driver, \
         version {NEEDED_DRIVER} or newer (no CUDA toolkit is needed)",
        .0.0, .0.1, NEEDED_CUDA.0, NEEDED_CUDA.1
    )]
    TooOld((u32, u32)),
    #[error("the NVIDIA driver does not start: {0}")]
    Init(String),
    #[error("the NVIDIA driver finds no device. {0}")]
    NoDevice(String),
    #[error("cuda-device-id={asked} does not exist; accepted are -1 (any) and {list}")]
    DeviceId { asked: i32, list: String },
    #[error(
        "{device} has compute capability {}.{}, but {}.{} (Turing) or newer is needed",
        .capability.0, .capability.1, NEEDED_CAPABILITY.0, NEEDED_CAPABILITY.1
    )]
    Capability {
        device: String,
        capability: (u32, u32),
    },
    #[error(
        "{device} is not used again in this process, because an earlier call broke it: {error}"
    )]
    Dead { device: String, error: String },
    #[error("{0}")]
    Call(CudaError),
}

impl From<DriverError> for EngineError {
    fn from(error: DriverError) -> EngineError {
        match error {
            DriverError::Call(error) => error.into(),
            error => EngineError {
                call: "opening CUDA".into(),
                reason: error.to_string(),
                device: "GPU".into(),
            },
        }
    }
}

/// The driver, initialised.
pub struct Driver {
    /// The CUDA version that it supports, major and minor.
    pub cuda: (u32, u32),
    /// Its own version, as in `535.183.01`; empty where the system does not tell.
    pub version: String,
    /// At least one, in the driver's order.
    pub devices: Vec<Device>,
}

/// One GPU.
pub struct Device {
    pub(super) api: &'static Api,
    pub(super) handle: CUdevice,
    pub ordinal: i32,
    /// For people: `NVIDIA H200`.
    pub name: String,
    pub capability: (u32, u32),
    /// Bytes.
    pub memory: usize,
    /// Of the form `0000:01:00.0`; empty where the driver does not tell.
    pub pci_bus_id: String,
    /// The error after which nothing more is expected of it in this process.
    dead: OnceLock<CudaError>,
    /// Engines that use it.
    instances: AtomicUsize,
    context: Mutex<Weak<Context>>,
}

/// The driver, opened at the first call. A failure is not kept: the next call tries again.
///
/// # Errors
/// When there is no driver, no device, or none that can be used.
pub fn open() -> Result<&'static Driver, DriverError> {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    static OPENING: Mutex<()> = Mutex::new(());
    if let Some(driver) = DRIVER.get() {
        return Ok(driver);
    }
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = DRIVER.get() {
        return Ok(driver);
    }
    let driver = start()?;
    Ok(DRIVER.get_or_init(|| driver))
}

fn start() -> Result<Driver, DriverError> {
    let api = Api::get().map_err(|error| match error {
        LoadError::Missing => DriverError::Missing,
        LoadError::Symbol(name) => DriverError::Incomplete(name),
    })?;
    let failed = |failure: Failure| {
        let error = CudaError::new(api, failure, "GPU");
        let advice = advice(failure.code, &Surroundings::look());
        match failure.code {
            code::NO_DEVICE => DriverError::NoDevice(advice),
            _ => DriverError::Init(format!(
                "{} says {} ({}), {}. {advice}",
                error.call, error.name, error.code, error.text
            )),
        }
    };
    // Before anything else of it is relied on: an old driver may lack what comes later.
    let cuda = api.driver_version().map_err(failed)?;
    if cuda < NEEDED_CUDA {
        return Err(DriverError::TooOld(cuda));
    }
    api.init().map_err(failed)?;
    let count = api.device_count().map_err(failed)?;
    let devices: Vec<Device> = (0..count)
        .map(|ordinal| Device::new(api, ordinal))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if devices.is_empty() {
        return Err(DriverError::NoDevice(advice(
            code::NO_DEVICE,
            &Surroundings::look(),
        )));
    }
    Ok(Driver {
        cuda,
        version: kernel_module_version(),
        devices,
    })
}

/// The version of the loaded kernel module, which is that of the driver.
fn kernel_module_version() -> String {
    if let Ok(text) = std::fs::read_to_string("/sys/module/nvidia/version") {
        return text.trim().to_owned();
    }
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    version_in(&text).unwrap_or_default()
}

/// The first word of the form `535.183.01`.
fn version_in(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.split_whitespace().find(is_version).map(str::to_owned)
}

/// What the system around the driver looks like, for advice.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible_devices: Option<String>,
    pub control_node: ControlNode,
}

/// `/dev/nvidiactl`, without which the driver's library reaches no device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ControlNode {
    Missing,
    Denied,
    #[default]
    Usable,
}

impl Surroundings {
    pub fn look() -> Surroundings {
        const NODE: &str = "/dev/nvidiactl";
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(NODE);
        Surroundings {
            visible_devices: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
            control_node: match opened {
                Ok(_) => ControlNode::Usable,
                Err(_) if !Path::new(NODE).exists() => ControlNode::Missing,
                Err(_) => ControlNode::Denied,
            },
        }
    }
}

/// What to do about a driver that does not start.
pub fn advice(failed_with: u32, around: &Surroundings) -> String {
    let by_code = match failed_with {
        code::STUB_LIBRARY => Some(
            "libcuda is the toolkit's stub for linking: remove the folder \"stubs\" from \
             LD_LIBRARY_PATH, and install the NVIDIA driver if it is missing",
        ),
        code::SYSTEM_DRIVER_MISMATCH => Some(
            "libcuda and the loaded kernel module are of different versions: restart the machine \
             after an update of the driver; in a container, update the host's driver",
        ),
        code::COMPAT_NOT_SUPPORTED => Some(
            "a forward-compatibility libcuda is in use that this GPU does not support: remove the \
             folder \"compat\" from LD_LIBRARY_PATH",
        ),
        code::SYSTEM_NOT_READY => Some(
            "the system is not ready: on servers with NVSwitch, start the service \
             nvidia-fabricmanager of the driver's version",
        ),
        _ => None,
    };
    if let Some(text) = by_code {
        return text.into();
    }
    if let (code::NO_DEVICE | code::INVALID_DEVICE, Some(value)) =
        (failed_with, &around.visible_devices)
    {
        return format!(
            "CUDA_VISIBLE_DEVICES is {value:?}: unset it, or name a device that exists"
        );
    }
    match around.control_node {
        ControlNode::Missing => "There is no /dev/nvidiactl: the kernel module nvidia is not \
                                 loaded (try nvidia-smi; secure boot may refuse an unsigned \
                                 module), or a container was started without its GPUs (docker run \
                                 --gpus all)"
            .into(),
        ControlNode::Denied => "/dev/nvidiactl may not be opened: give the user rights on \
                                /dev/nvidia* (often the group video), or start the container with \
                                its GPUs (docker run --gpus all)"
            .into(),
        ControlNode::Usable => {
            "Look at nvidia-smi and at the kernel's log (dmesg | grep NVRM)".into()
        }
    }
}

impl Device {
    fn new(api: &'static Api, ordinal: i32) -> Result<Device, Failure> {
        let handle = api.device(ordinal)?;
        let capability = |attribute| {
            api.device_attribute(attribute, handle)
                .map(i32::unsigned_abs)
        };
        Ok(Device {
            api,
            handle,
            ordinal,
            name: api.device_name(handle)?,
            capability: (
                capability(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                capability(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            memory: api.device_memory(handle)?,
            pci_bus_id: api.device_pci_bus_id(handle).unwrap_or_default(),
            dead: OnceLock::new(),
            instances: AtomicUsize::new(0),
            context: Mutex::default(),
        })
    }

    /// For people: `NVIDIA H200 (device 0)`.
    pub fn label(&self) -> String {
        format!("{} (device {})", self.name, self.ordinal)
    }

    /// Engines of this process that use it.
    pub fn instances(&self) -> usize {
        self.instances.load(Ordering::Acquire)
    }

    /// The error that broke it, if one did.
    pub fn dead(&self) -> Option<&CudaError> {
        self.dead.get()
    }

    /// From now on nothing is expected of it in this process.
    pub(super) fn mark_dead(&self, error: &CudaError) {
        // The first error is the cause; later ones follow from it.
        if self.dead.set(error.clone()).is_ok() {
            pinned::forget_device(self.ordinal);
        }
    }

    fn check(&self) -> Result<(), DriverError> {
        if let Some(error) = self.dead() {
            return Err(DriverError::Dead {
                device: self.label(),
                error: error.to_string(),
            });
        }
        if self.capability < NEEDED_CAPABILITY {
            return Err(DriverError::Capability {
                device: self.label(),
                capability: self.capability,
            });
        }
        Ok(())
    }

    /// The context that all engines on this device share; made for the first of them, released
    /// with the last object that lives in it.
    ///
    /// # Errors
    /// When the device cannot be used.
    pub fn context(&'static self) -> Result<Arc<Context>, DriverError> {
        self.check()?;
        let mut shared = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = shared.upgrade() {
            return Ok(context);
        }
        let context = Context::new(self).map_err(DriverError::Call)?;
        *shared = Arc::downgrade(&context);
        Ok(context)
    }
}

/// One engine's use of a device, counted as long as it lives.
pub struct Instance(&'static Device);

impl Instance {
    pub fn device(&self) -> &'static Device {
        self.0
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.0.instances.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Driver {
    /// Opens device `asked` for one engine; -1 is the device with the fewest engines of this
    /// process, the lowest index on ties, and the next one where that cannot be opened.
    ///
    /// # Errors
    /// When there is no such device, or it cannot be used.
    pub fn open_device(&'static self, asked: i32) -> Result<(Instance, Arc<Context>), DriverError> {
        // Choosing and counting are one step: of two elements that start at once on two devices,
        // each gets its own.
        static CHOOSING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = CHOOSING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first_error = None;
        for index in self.candidates(asked)? {
            let device = &self.devices[index];
            match device.context() {
                Ok(context) => {
                    device.instances.fetch_add(1, Ordering::AcqRel);
                    return Ok((Instance(device), context));
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| DriverError::NoDevice(String::new())))
    }

    /// Indices of the devices to try, in order.
    fn candidates(&self, asked: i32) -> Result<Vec<usize>, DriverError> {
        let instances: Vec<usize> = self.devices.iter().map(Device::instances).collect();
        match usize::try_from(asked) {
            Ok(index) if index < self.devices.len() => Ok(vec![index]),
            Err(_) if asked == -1 => Ok(least_used_first(&instances)),
            _ => Err(DriverError::DeviceId {
                asked,
                list: self.list(),
            }),
        }
    }

    /// `0 (NVIDIA H200), 1 (NVIDIA H200)`.
    fn list(&self) -> String {
        let entry = |device: &Device| format!("{} ({})", device.ordinal, device.name);
        let entries: Vec<String> = self.devices.iter().map(entry).collect();
        entries.join(", ")
    }

    /// The CUDA version that it supports, as in `12.2`.
    pub fn cuda_version(&self) -> String {
        format!("{}.{}", self.cuda.0, self.cuda.1)
    }
}

/// Indices by number of instances, lower indices first on ties.
fn least_used_first(instances: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..instances.len()).collect();
    order.sort_by_key(|&index| instances[index]);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_with_the_fewest_instances_comes_first_and_the_lowest_index_on_ties() {
        assert_eq!(least_used_first(&[0, 0, 0]), [0, 1, 2]);
        assert_eq!(least_used_first(&[1, 0, 0]), [1, 2, 0]);
        assert_eq!(least_used_first(&[2, 1, 1, 0]), [3, 1, 2, 0]);
        assert!(least_used_first(&[]).is_empty());
    }

    #[test]
    fn errors_say_what_was_found_and_what_to_do() {
        let text = DriverError::TooOld((11, 8)).to_string();
        assert!(
            text.contains("supports CUDA 11.8, but 12.2 is needed"),
            "{text}"
        );
        assert!(text.contains("version 535 or newer"), "{text}");
        let text = DriverError::Missing.to_string();
        assert!(text.contains("libcuda.so.1") && text.contains("no CUDA toolkit is needed"));
        let text = DriverError::DeviceId {
            asked: 99,
            list: "0 (NVIDIA H200)".into(),
        }
        .to_string();
        assert_eq!(
            text,
            "cuda-device-id=99 does not exist; accepted are -1 (any) and 0 (NVIDIA H200)"
        );
        let text = DriverError::Capability {
            device: "GTX 1080 (device 0)".into(),
            capability: (6, 1),
        }
        .to_string();
        assert!(
            text.contains("has compute capability 6.1, but 7.5 (Turing)"),
            "{text}"
        );
    }

    #[test]
    fn advice_follows_the_cause() {
        let around = |visible: Option<&str>, control_node| Surroundings {
            visible_devices: visible.map(str::to_owned),
            control_node,
        };
        let usable = around(None, ControlNode::Usable);
        assert!(advice(code::STUB_LIBRARY, &usable).contains("stubs"));
        assert!(advice(code::SYSTEM_DRIVER_MISMATCH, &usable).contains("restart"));
        assert!(advice(code::SYSTEM_NOT_READY, &usable).contains("fabricmanager"));
        assert!(advice(code::UNKNOWN, &usable).contains("nvidia-smi"));
        let hidden = around(Some("-1"), ControlNode::Usable);
        assert!(advice(code::NO_DEVICE, &hidden).contains("CUDA_VISIBLE_DEVICES is \"-1\""));
        let missing = around(None, ControlNode::Missing);
        assert!(advice(code::NO_DEVICE, &missing).contains("--gpus all"));
        let denied = around(None, ControlNode::Denied);
        assert!(advice(code::UNKNOWN, &denied).contains("rights"));
    }

    #[test]
    fn the_version_of_the_kernel_module_is_found_in_its_banner() {
        let banner = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 \
                      19:39:15 UTC 2024\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)";
        assert_eq!(version_in(banner).as_deref(), Some("535.183.01"));
        assert_eq!(version_in("no version"), None);
    }
}
