//! What there is to know about the driver and its devices, for people with a machine on which
//! something does not work.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::CudaEngine;
use super::driver::{self, Device};
use crate::engine::cpu::{self, CpuEngine};
use crate::engine::{Engine, EngineError, Frame, InputFrame, OutputFrame, PlaneSpan};
use crate::filter::plan::Abilities;
use crate::filter::spec::Kernel;
use crate::filter::{FilterSpec, Layout, Plan};

/// The driver as it was found, and every device tried out.
#[derive(Debug, Clone)]
pub struct Examination {
    /// As in `535.183.01`; empty where the system does not tell.
    pub driver: String,
    /// The CUDA version that the driver supports, as in `12.2`.
    pub cuda: String,
    pub devices: Vec<Finding>,
}

/// One device.
#[derive(Debug, Clone)]
pub struct Finding {
    pub index: i32,
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Bytes.
    pub memory: usize,
    /// Bytes; 0 where the device could not be opened.
    pub free_memory: usize,
    /// As in `PCIe 16.0 GT/s x16 (of 32.0 GT/s x16) at 0000:01:00.0`.
    pub link: String,
    /// The trial, or why it failed: a sentence that says what to do where that is known.
    pub trial: Result<Trial, String>,
}

/// A device filtered two frames, and the CPU found the same bytes.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Modules with the time that the driver took to load each.
    pub modules: Vec<(&'static str, Duration)>,
    /// From the upload to the end of the download of a small frame.
    pub frame: Duration,
}

/// Opens the driver and tries every device.
///
/// # Errors
/// A sentence on why there is no driver or device, and what to do.
pub fn examine() -> Result<Examination, String> {
    let driver = driver::open().map_err(|error| error.to_string())?;
    Ok(Examination {
        driver: driver.version.clone(),
        cuda: driver.cuda_version(),
        devices: driver.devices.iter().map(examine_device).collect(),
    })
}

fn examine_device(device: &'static Device) -> Finding {
    let opened = CudaEngine::open(device.ordinal, 1);
    let free_memory = (opened.as_ref().ok()).and_then(|engine| engine.free_memory().ok());
    let trial = match opened {
        Ok(engine) => try_out(&engine).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    Finding {
        index: device.ordinal,
        name: device.name.clone(),
        capability: device.capability,
        memory: device.memory,
        free_memory: free_memory.unwrap_or_default(),
        link: pcie_link(
            &device.pci_bus_id,
            &Path::new("/sys/bus/pci/devices").join(device.pci_bus_id.to_lowercase()),
        ),
        trial,
    }
}

/// Speed and width of a device's PCIe link, as `folder` in sysfs tells them.
fn pcie_link(bus_id: &str, folder: &Path) -> String {
    let read = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        text.trim().trim_end_matches(" PCIe").to_owned()
    };
    let link = |speed: &str, width: &str| {
        let (speed, width) = (read(speed), read(width));
        (!speed.is_empty() && !width.is_empty()).then(|| format!("{speed} x{width}"))
    };
    let now = link("current_link_speed", "current_link_width");
    let most = link("max_link_speed", "max_link_width");
    match (now, most) {
        (Some(now), Some(most)) if now != most => format!("PCIe {now} (of {most}) at {bus_id}"),
        (Some(now), _) => format!("PCIe {now} at {bus_id}"),
        _ => format!("at {bus_id}"),
    }
}

/// Loads all modules, and filters a frame by a linear kernel and by the bilateral.
fn try_out(engine: &CudaEngine) -> Result<Trial, EngineError> {
    let modules = engine.load_all()?;
    let cpu = CpuEngine::new()?;
    let mut frame = Duration::ZERO;
    for (kernel, tolerance) in [
        (Kernel::Gauss5, 0),
        (Kernel::Emboss, 0),
        (Kernel::Bilateral, 1),
    ] {
        let spec = FilterSpec {
            kernel,
            ..FilterSpec::default()
        };
        let (expected, _) = filter(&cpu, &spec, &cpu::ABILITIES)?;
        let (got, time) = filter(engine, &spec, &super::ABILITIES)?;
        let off = |(a, b): (&u8, &u8)| a.abs_diff(*b) > tolerance;
        if let Some(at) = got.iter().zip(&expected).position(off) {
            return Err(EngineError {
                call: format!("a trial of kernel {kernel:?}"),
                reason: format!(
                    "byte {at} of the result is {}, on the CPU {}: do not trust this device",
                    got[at], expected[at]
                ),
                device: engine.device().to_owned(),
            });
        }
        frame = time;
    }
    Ok(Trial {
        modules: modules.iter().map(|m| (m.name, m.load_time)).collect(),
        frame,
    })
}

const WIDTH: usize = 161;
const HEIGHT: usize = 67;

/// Filters a grey frame; returns its bytes and what the second time took.
fn filter(
    engine: &dyn Engine,
    spec: &FilterSpec,
    abilities: &Abilities,
) -> Result<(Vec<u8>, Duration), EngineError> {
    let failed = |reason: String| EngineError {
        call: "a trial frame".into(),
        reason,
        device: engine.device().to_owned(),
    };
    let format = gst_video::VideoFormat::Gray8;
    let info = gst_video::VideoInfo::builder(format, WIDTH as u32, HEIGHT as u32).build();
    let info = info.map_err(|error| failed(error.to_string()))?;
    let layout = Layout::new(&info).map_err(|error| failed(error.to_string()))?;
    let plan = Plan::new(spec, &Arc::new(layout), abilities);
    let plan = Arc::new(plan.map_err(|error| failed(error.to_string()))?);
    let prepared = engine.prepare(&plan, true)?;
    let prepared = prepared.ok_or_else(|| failed("the engine is not ready".into()))?;
    let spans = vec![PlaneSpan {
        memory: 0,
        offset: 0,
        stride: WIDTH,
    }];
    let bytes: Vec<u8> = (0..WIDTH * HEIGHT)
        .map(|at| (at * at / 7 + at * 31) as u8)
        .collect();
    let output = vec![0; bytes.len()];
    let input = InputFrame::new(&plan.layout, vec![Box::new(bytes)], spans.clone());
    let output = OutputFrame::new(&plan.layout, vec![Box::new(output)], spans);
    let frame = Frame {
        input: input.map_err(|error| failed(error.to_string()))?,
        output: output.map_err(|error| failed(error.to_string()))?,
        interlaced: false,
    };
    let (frame, first) = prepared.submit(frame).wait();
    first?;
    let (frame, second) = prepared.submit(frame).wait();
    let second = second?;
    let (bytes, _) = frame.output.plane(0);
    Ok((bytes.to_vec(), second.finished - second.started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_link_is_told_with_what_it_could_be() {
        let folder = std::env::temp_dir().join(format!("cudaconv-link-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("current_link_speed", "8.0 GT/s PCIe\n");
        write("current_link_width", "4\n");
        assert_eq!(
            pcie_link("0000:01:00.0", &folder),
            "PCIe 8.0 GT/s x4 at 0000:01:00.0"
        );
        write("max_link_speed", "32.0 GT/s PCIe\n");
        write("max_link_width", "16\n");
        assert_eq!(
            pcie_link("0000:01:00.0", &folder),
            "PCIe 8.0 GT/s x4 (of 32.0 GT/s x16) at 0000:01:00.0"
        );
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(pcie_link("0000:01:00.0", &folder), "at 0000:01:00.0");
    }
}
