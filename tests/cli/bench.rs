//! `cudaconv bench ladder`, on a machine without a GPU and on the driver of the tests.

use std::fs;

use crate::driver;
use crate::program::{Finished, cudaconv, finish, folder, names, run};

/// A picture of no whole number of blocks, small enough for a driver that computes it on the CPU.
const SMALL: [&str; 4] = ["bench", "ladder", "--size", "61x35"];

/// Runs it in `folder` where the loader looks for drivers in `libraries`.
fn ladder(folder: &std::path::Path, libraries: &str, arguments: &[&str]) -> Finished {
    let mut command = cudaconv(folder, SMALL.iter().chain(arguments));
    command.env("LD_LIBRARY_PATH", libraries);
    if libraries.is_empty() {
        // Where there is a GPU all the same.
        command.env("CUDA_VISIBLE_DEVICES", "-1");
    }
    let finished = finish(&mut command);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished
}

fn steps(json: &str) -> Vec<serde_json::Value> {
    let document: serde_json::Value = serde_json::from_str(json).unwrap();
    let ladders = document["ladders"].as_array().unwrap().iter();
    ladders
        .flat_map(|ladder| ladder["steps"].as_array().unwrap().clone())
        .collect()
}

/// Reported: lines of the list of columns are broken again in a terminal of the usual width.
#[test]
fn the_help_has_its_columns_one_below_the_other() {
    let folder = folder("ladder-help");
    let mut command = cudaconv(&folder, ["bench", "ladder", "--help"]);
    command.env("COLUMNS", "80");
    let help = finish(&mut command).out;
    let (_, list) = help.split_once("and told with\n\n").expect("a list");
    let (list, _) = list.split_once("\n\n").expect("an end of the list");
    for line in list.lines() {
        assert!(line.chars().count() < 80, "{line}");
        let (name, text) = line.split_at(13);
        let is_name = name.starts_with("  ") && name.ends_with("  ");
        assert!(is_name && !text.starts_with(' '), "{line:?}");
    }
    for column in [
        "time", "speed-up", "x copy", "memory", "shared", "occup.", "PSNR",
    ] {
        assert!(list.contains(&format!("  {column} ")), "{column}");
    }
}

#[test]
fn without_a_gpu_the_cpu_takes_its_steps_and_all_others_say_why() {
    let folder = folder("ladder-cpu");
    let finished = ladder(&folder, "", &["--json", "ladder.json"]);
    let mut lines = finished.out.lines();
    let gpu = lines.find_map(|line| line.strip_prefix("GPU: "));
    let gpu = gpu.expect("a line about the GPU");
    assert!(gpu.contains("NVIDIA driver"), "{gpu}");
    // In one line of each table.
    assert_eq!(finished.out.matches("- no GPU").count(), 2);
    let steps = steps(&fs::read_to_string(folder.join("ladder.json")).unwrap());
    for step in &steps {
        let name = step["name"].as_str().unwrap();
        let missing = step.get("missing").map(|reason| reason.as_str().unwrap());
        match (name, missing) {
            ("cpu-one-thread" | "cpu-all-threads", None) => {
                assert!(step["time-ns"].as_f64().unwrap() > 0.0);
                assert_eq!(step["memory"], "host");
            }
            ("cpu-fast" | "matrix", reason) => {
                let known = |reason: &str| reason.starts_with("not ") || reason == gpu;
                assert!(reason.is_none_or(known), "{step}");
            }
            (_, Some(reason)) => {
                assert_eq!(reason, gpu, "{name}");
            }
            (_, None) => panic!("{step}"),
        }
    }
}

#[test]
fn on_a_gpu_every_step_is_taken_but_those_that_cannot_be() {
    let folder = folder("ladder-gpu");
    let arguments = ["--json", "ladder.json", "--html", "ladder.html"];
    let finished = ladder(&folder, &driver::search_path(), &arguments);
    assert!(
        finished.out.contains("Fake CUDA device"),
        "{}",
        finished.out
    );
    let steps = steps(&fs::read_to_string(folder.join("ladder.json")).unwrap());
    let of = |name: &str| steps.iter().filter(|step| step["name"] == name).count();
    for name in [
        "naive",
        "tile",
        "constant",
        "texture",
        "naive-8x8",
        "tile-32x32",
        "fp16",
        "int8",
    ] {
        assert_eq!(of(name), 2, "{name}");
    }
    for step in &steps {
        let name = step["name"].as_str().unwrap();
        if let Some(reason) = step.get("missing") {
            let reason = reason.as_str().unwrap();
            let known = match name {
                "matrix" => reason.starts_with("not possible"),
                "fast" | "cpu-fast" => reason.starts_with("not available"),
                _ => false,
            };
            assert!(known, "{step}");
            continue;
        }
        let number = |name: &str| {
            step[name]
                .as_f64()
                .unwrap_or_else(|| panic!("{name}: {step}"))
        };
        assert!(number("time-ns") > 0.0 && number("copy-ns") > 0.0 && number("bytes-moved") > 0.0);
        assert!(
            step["identical"] == true || number("psnr-db") > 30.0,
            "{step}"
        );
        if step["memory"] == "device" {
            assert!(
                number("upload-ns") > 0.0 && number("download-ns") > 0.0,
                "{step}"
            );
            assert!(number("speed-up-with-transfer") <= number("speed-up"));
        }
        if step.get("block").is_some() {
            let occupancy = number("occupancy");
            assert!(
                occupancy > 0.0 && occupancy <= 1.0 && number("registers") > 0.0,
                "{step}"
            );
        }
    }
    let page = fs::read_to_string(folder.join("ladder.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    for outside in ["http://", "https://", "<script", "<link", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_driver_without_textures_lacks_that_step_alone() {
    let folder = folder("ladder-textures");
    let mut command = cudaconv(
        &folder,
        SMALL.iter().chain(&["--only", "convolve", "--json", "-"]),
    );
    command
        .env("LD_LIBRARY_PATH", driver::search_path())
        .env("FAKECUDA_FAIL", "cuTexObjectCreate:1+:801");
    let finished = finish(&mut command);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for step in steps(&finished.out) {
        let missing = step.get("missing").map(|reason| reason.as_str().unwrap());
        assert_eq!(missing.is_some(), step["name"] == "texture", "{step}");
        assert!(missing.is_none_or(|reason| reason.contains("cuTexObjectCreate")));
    }
    // The table goes where it does not get between the figures.
    assert!(finished.err.contains("GPU, naive"), "{finished:?}");
}

#[test]
fn what_cannot_be_done_is_said_before_the_work() {
    let folder = folder("ladder-errors");
    let finished = run(
        &folder,
        SMALL.iter().chain(&["--json", "missing/ladder.json"]),
    );
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.err.contains("missing/ladder.json"), "{finished:?}");
    assert!(names(&folder).is_empty() && finished.out.is_empty());
    let finished = run(&folder, ["bench"]);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let finished = run(&folder, ["bench", "ladder", "--size", "61"]);
    assert!(finished.err.contains("1920x1080"), "{finished:?}");
}
