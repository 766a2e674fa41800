//! The world around the process: its locale, and the plugin file in GStreamer's own tools.

use std::process::Command;

use gst::prelude::*;

use crate::common::cudaconv;
use crate::common::frames::{filled, flat_value, gray};
use crate::common::isolated;
use crate::common::pads::{Pads, texts};
use crate::common::watchdog::watched;

/// Reported: in a locale with a decimal comma a matrix of fractions is read wrongly.
#[test]
fn a_matrix_means_the_same_in_a_locale_with_a_decimal_comma() {
    watched(|| {
        let folder = std::env::temp_dir().join(format!("cudaconv-locale-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let made = Command::new("localedef")
            .args(["-f", "UTF-8", "-i", "de_DE"])
            .arg(folder.join("de_DE.UTF-8"))
            .output();
        let made = made.is_ok_and(|output| output.status.success());
        let path = folder.to_str().expect("a readable path").to_string();
        // Where the locale cannot be made the environment alone is tested.
        let environment = [
            ("LC_ALL", "de_DE.UTF-8"),
            ("LOCPATH", if made { path.as_str() } else { "" }),
            ("EXPECT_COMMA", if made { "1" } else { "0" }),
        ];
        let environment = if made {
            &environment[..]
        } else {
            &environment[..1]
        };
        isolated::passes("platform::alone_decimal_comma", environment);
        std::fs::remove_dir_all(&folder).expect("the folder can go");
    });
}

#[test]
#[ignore = "a_matrix_means_the_same_in_a_locale_with_a_decimal_comma runs it"]
fn alone_decimal_comma() {
    if !isolated::is_alone() {
        return;
    }
    use_locale_of_the_environment();
    if std::env::var("EXPECT_COMMA").is_ok() {
        assert_eq!(printed_in_c(1.5), "1,5", "the locale is in force");
    }
    watched(|| {
        let text = "0,0.5,0,0.5,1,0.5,0,0.5,0";
        let pads = Pads::around(cudaconv(&[("kernel", "custom"), ("matrix", text)]));
        assert_eq!(pads.element.property::<String>("matrix"), text);
        pads.element.set_property("divisor", 1f64);
        pads.begin(&gray());
        assert_eq!(
            pads.src.push(filled(&gray(), 0, 20)),
            Ok(gst::FlowSuccess::Ok)
        );
        pads.wait_buffers(1);
        assert_eq!(flat_value(&gray(), &pads.buffers()[0]), 60);
        pads.element.set_property("matrix", "0,5");
        assert_eq!(pads.element.property::<String>("matrix"), text, "no number");
        let warnings = texts(&pads.messages(), gst::MessageType::Warning);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let text = pads.element.property::<String>("last-message");
        assert!(!text.contains(",5"), "{text}");
    });
}

/// Makes the process use the locale of its environment, as programs with translations do.
fn use_locale_of_the_environment() {
    unsafe extern "C" {
        fn setlocale(
            category: std::ffi::c_int,
            locale: *const std::ffi::c_char,
        ) -> *mut std::ffi::c_char;
    }
    const LC_ALL: std::ffi::c_int = 6;
    // SAFETY: the text is NUL-terminated, the signature is libc's, and no other thread of this
    // process reads the locale yet.
    unsafe { setlocale(LC_ALL, c"".as_ptr()) };
}

/// How C's printf writes a number.
fn printed_in_c(number: f64) -> String {
    unsafe extern "C" {
        fn snprintf(
            buffer: *mut std::ffi::c_char,
            size: usize,
            format: *const std::ffi::c_char,
            ...
        ) -> std::ffi::c_int;
    }
    let mut buffer = [0u8; 32];
    // SAFETY: the buffer is as long as is said, and the format takes just the one double.
    unsafe {
        snprintf(
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            c"%.1f".as_ptr(),
            number,
        )
    };
    let text = std::ffi::CStr::from_bytes_until_nul(&buffer).expect("printf ends its text");
    text.to_string_lossy().into_owned()
}

/// The plugin file that was built beside this test program.
fn plugin_folder() -> Option<std::path::PathBuf> {
    let program = std::env::current_exe().expect("the test program knows its file");
    let built = program.with_file_name("libgstcudaconv.so");
    let folder = std::env::temp_dir().join(format!("cudaconv-plugin-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::copy(built, folder.join("libgstcudaconv.so")).ok()?;
    Some(folder)
}

/// Runs a tool of GStreamer with the plugin file; what it printed, and whether it succeeded.
fn tool(folder: &std::path::Path, name: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("timeout")
        .arg("60")
        .arg(name)
        .args(arguments)
        .env("GST_PLUGIN_PATH", folder)
        .env("GST_REGISTRY", folder.join("registry.bin"))
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .expect("GStreamer's tools are installed");
    (output.status.success(), isolated::text(&output))
}

/// Reported: the plugin file is blacklisted, panics in the loader, or its inspection fails, on a
/// machine without a driver.
#[test]
fn the_plugin_file_inspects_and_runs_in_gstreamers_own_tools() {
    watched(|| {
        let Some(folder) = plugin_folder() else {
            return; // only the library was built for this run
        };
        let (good, text) = tool(&folder, "gst-inspect-1.0", &["cudaconv"]);
        assert!(good && !text.contains("panicked"), "{text}");
        for word in [
            "sigma-space",
            "cuda-device-id",
            "over-budget",
            "nanosecond",
            "pixels",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        let (_, text) = tool(&folder, "gst-inspect-1.0", &["-b"]);
        assert!(!text.contains("libgstcudaconv"), "{text}");
        for (backend, wanted) in [("auto", true), ("cpu", true), ("cuda", false)] {
            let backend = format!("backend={backend}");
            let line = [
                "-v",
                "videotestsrc",
                "num-buffers=5",
                "!",
                "cudaconv",
                "silent=false",
            ];
            let mut line = line.to_vec();
            line.extend([backend.as_str(), "!", "fakesink"]);
            let (good, text) = tool(&folder, "gst-launch-1.0", &line);
            assert_eq!(good, wanted, "{backend}: {text}");
            assert_eq!(text.contains("ERROR"), !wanted, "{backend}: {text}");
            assert!(!text.contains("panicked"), "{text}");
        }
        std::fs::remove_dir_all(&folder).expect("the folder can go");
    });
}
