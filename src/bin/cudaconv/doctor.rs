//! `cudaconv doctor`: what was found on this machine, what is missing, what to do.

use std::time::Duration;

use gstcudaconv::engine::cuda::doctor as gpu;

use crate::plugin::{self, Origin, Plugin, PluginError};
use crate::{Exit, audio, console, machine, output, packages};

/// What `run` cannot do without.
const NEEDED: &[(&str, &str)] = &[
    ("uridecodebin", "opens and decodes files and streams"),
    ("videoconvert", "converts formats"),
    ("h264parse", "H.264 in files"),
    ("mp4mux", "writes .mp4"),
    ("filesink", "writes files"),
];

/// What only some runs need.
const USEFUL: &[(&str, &str)] = &[
    ("videotestsrc", "the generated clip"),
    ("compositor", "the generated clip and --compare"),
    ("qtdemux", "reads .mp4 and .mov"),
    ("matroskademux", "reads .mkv and .webm"),
    ("matroskamux", "writes .mkv"),
    (
        "avdec_h264",
        "decodes H.264 and, with its package, most other codings",
    ),
    ("aacparse", "copies AAC sound"),
    ("pngenc", "writes .png"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    /// `run` works without it.
    Note,
    Missing,
}

struct Finding {
    verdict: Verdict,
    name: String,
    text: String,
}

fn finding(verdict: Verdict, name: &str, text: impl Into<String>) -> Finding {
    Finding {
        verdict,
        name: name.to_owned(),
        text: text.into(),
    }
}

/// Prints what was found, and says whether `run` would work.
pub fn doctor(plugin: &Result<Plugin, PluginError>) -> Exit {
    let mut findings = vec![gstreamer()];
    findings.extend(filter(plugin));
    findings.extend(
        NEEDED
            .iter()
            .map(|(element, use_)| present(element, use_, Verdict::Missing)),
    );
    findings.push(h264());
    findings.push(aac());
    findings.extend(
        USEFUL
            .iter()
            .map(|(element, use_)| present(element, use_, Verdict::Note)),
    );
    findings.push(cpu());
    findings.extend(nvidia());
    for finding in &findings {
        let mark = match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Missing => "MISSING",
        };
        console::result(&format!("{mark:<8}{:<16}{}", finding.name, finding.text));
    }
    let missing = findings
        .iter()
        .filter(|f| f.verdict == Verdict::Missing)
        .count();
    if missing == 0 {
        console::result("\ncudaconv run works on this machine.");
        Exit::Done
    } else {
        console::result(&format!(
            "
cudaconv run needs what is marked MISSING ({missing})."
        ));
        Exit::Incomplete
    }
}

fn gstreamer() -> Finding {
    let (major, minor, micro, _) = gst::version();
    finding(Verdict::Ok, "GStreamer", format!("{major}.{minor}.{micro}"))
}

fn filter(plugin: &Result<Plugin, PluginError>) -> Vec<Finding> {
    let plugin = match plugin {
        Ok(plugin) => plugin,
        Err(error) => return vec![finding(Verdict::Missing, "plugin", error.to_string())],
    };
    let origin = match plugin.origin {
        Origin::Beside => "beside this program",
        Origin::Installed => "installed",
    };
    let text = format!(
        "{} from {} ({origin})",
        plugin.version,
        plugin.file.display()
    );
    let mut findings = vec![finding(Verdict::Ok, "plugin", text)];
    if let Some(other) = &plugin.passed_over {
        let text = format!(
            "the installed plugin {} is not used by this program",
            other.display()
        );
        findings.push(finding(Verdict::Note, "plugin", text));
    }
    findings.push(match gst::ElementFactory::make(plugin::ELEMENT).build() {
        Ok(_) => finding(
            Verdict::Ok,
            "element",
            "cudaconv is registered and can be made",
        ),
        Err(error) => finding(
            Verdict::Missing,
            "element",
            format!("cudaconv cannot be made: {}", error.message),
        ),
    });
    findings
}

fn present(element: &str, purpose: &str, otherwise: Verdict) -> Finding {
    if gst::ElementFactory::find(element).is_some() {
        finding(Verdict::Ok, element, purpose)
    } else {
        finding(
            otherwise,
            element,
            format!("{purpose}; {}", packages::advice(element)),
        )
    }
}

/// The first of `elements` that is installed is the one that `run` takes.
fn first_of(
    name: &str,
    elements: impl Iterator<Item = &'static str>,
    otherwise: (Verdict, &str),
) -> Finding {
    let installed: Vec<&str> = elements
        .filter(|element| gst::ElementFactory::find(element).is_some())
        .collect();
    match installed.split_first() {
        None => finding(otherwise.0, name, otherwise.1),
        Some((first, [])) => finding(Verdict::Ok, name, *first),
        Some((first, others)) => finding(
            Verdict::Ok,
            name,
            format!("{first} (also installed: {})", others.join(", ")),
        ),
    }
}

fn h264() -> Finding {
    let advice = "without one only .png can be written; install it with: apt install \
                  gstreamer1.0-plugins-ugly";
    first_of(
        "H.264 encoder",
        output::h264_encoders(),
        (Verdict::Missing, advice),
    )
}

fn aac() -> Finding {
    let advice = "without one sound that is not AAC, MP3, AC-3 or Opus is left out; install it \
                  with: apt install gstreamer1.0-libav";
    first_of(
        "AAC encoder",
        audio::aac_encoders(),
        (Verdict::Note, advice),
    )
}

fn cpu() -> Finding {
    let simd = machine::simd();
    let simd = if simd.is_empty() {
        "no vector instructions known to this program".to_owned()
    } else {
        simd.join(" ")
    };
    let text = format!(
        "{}, {} processors, {simd}",
        machine::cpu(),
        machine::cores()
    );
    finding(Verdict::Ok, "CPU", text)
}

/// The driver, and every device tried out.
fn nvidia() -> Vec<Finding> {
    let examination = match gpu::examine() {
        Ok(examination) => examination,
        Err(reason) => {
            let found = machine::nvidia_module().map_or(String::new(), |module| {
                format!(" (the kernel module {module} is loaded)")
            });
            let text = format!("{reason}{found}. Until then the CPU filters, with the same pixels");
            return vec![finding(Verdict::Note, "NVIDIA", text)];
        }
    };
    let driver = match examination.driver.as_str() {
        "" => "a driver that does not tell its version",
        driver => &format!("driver {driver}"),
    };
    let text = format!(
        "{driver}, CUDA {}; no CUDA toolkit is needed",
        examination.cuda
    );
    let mut findings = vec![finding(Verdict::Ok, "NVIDIA", text)];
    findings.extend(examination.devices.iter().map(device));
    findings
}

fn device(device: &gpu::Finding) -> Finding {
    let gibibytes = |bytes: usize| bytes as f64 / f64::from(1 << 30);
    let (major, minor) = device.capability;
    let described = format!(
        "{}, compute capability {major}.{minor}, {:.1} GiB ({:.1} GiB free), {}",
        device.name,
        gibibytes(device.memory),
        gibibytes(device.free_memory),
        device.link,
    );
    let name = format!("GPU {}", device.index);
    match &device.trial {
        Ok(trial) => {
            let loading: Duration = trial.modules.iter().map(|(_, time)| *time).sum();
            let text = format!(
                "{described}; its {} kernel modules loaded in {:.0} ms, trial frames have the \
                 CPU's pixels",
                trial.modules.len(),
                loading.as_secs_f64() * 1e3,
            );
            finding(Verdict::Ok, &name, text)
        }
        Err(reason) => {
            let text = format!("{described}; not used: {reason}");
            finding(Verdict::Note, &name, text)
        }
    }
}
