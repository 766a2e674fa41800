//! `cudaconv bench`: what this machine can do.

mod chart;
mod json;
mod page;
mod table;

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use gstcudaconv::engine::cuda::abi::ladder::Task;
use gstcudaconv::engine::cuda::ladder::Gpu;
use gstcudaconv::engine::ladder::{Job, Ladder, MaybeGpu, Row, climb};

use crate::input::TestClip;
use crate::{Exit, Failure, args, console, output};

// Paragraphs are wrapped where they are shown; lines of the list have at most 79 characters, so that they are not.
const LADDER_HELP: &str = "\
Takes the steps of the tutorials, from plain code on one thread to what a GPU can do, for two filters: \
3x3 weights over float32, and the bilateral of radius 7 over 8-bit grey. Every step is computed on this \
machine, and told with

  time       of the filter alone, the median; on the GPU by its own clock
  speed-up   over the first step
  + copies   the upload before and the download after it, pinned, and the
             speed-up with both
  moved      bytes to and from memory, as a rate too
  x copy     how many times as long as a bare copy of as many bytes, measured
             in the same run; on the GPU the driver's copy or a kernel's,
             whichever is faster
  memory     of pictures and tables
  shared     memory of each block of threads
  occup.     occupancy: the threads that fit on a multiprocessor, as a share
             of those that it has room for
  PSNR       of the result against float64 (for 8 bits, rounded); = where every
             pixel is equal

Pictures go round, up to 64 of them, so that they are as cold as the frames of a stream. Steps that this machine cannot take say why, in a line.";

/// What `bench ladder` was asked to do.
#[derive(Debug, Clone)]
struct Options {
    json: Option<PathBuf>,
    html: Option<PathBuf>,
    /// Of all pictures, instead of the tutorials'.
    size: Option<(u32, u32)>,
    only: Option<Task>,
    device: i32,
    quiet: bool,
}

/// A ladder's machine, for people.
pub struct Machine {
    pub cpu: String,
    pub system: String,
    /// The GPU, or why there is none.
    pub gpu: Result<String, String>,
}

pub fn command() -> Command {
    Command::new("bench")
        .about("Measures what this machine can do")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(ladder_command())
}

fn ladder_command() -> Command {
    let file = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .help(help)
            .value_parser(value_parser!(PathBuf))
    };
    Command::new("ladder")
        .about("The steps from plain code to what a GPU can do, each measured and checked")
        .long_about(LADDER_HELP)
        .after_help(args::EXIT_CODES)
        .arg(file(
            "json",
            "FILE",
            "Write all figures as JSON; - is standard output, the table then goes to standard error",
        ))
        .arg(file("html", "FILE.html", "Write a page with a chart and the table"))
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("FILTER")
                .help("One of the two filters")
                .value_parser(["convolve", "bilateral"]),
        )
        .arg(
            Arg::new("size")
                .long("size")
                .value_name("WIDTHxHEIGHT")
                .help("Size of all pictures [default: 1920x1080, for the bilateral 640x480 as well]")
                .value_parser(TestClip::parse_size),
        )
        .arg(
            Arg::new("device")
                .long("cuda-device-id")
                .value_name("NUMBER")
                .help("The GPU, as the driver counts; -1 is any")
                .default_value("-1")
                .allow_negative_numbers(true)
                .value_parser(value_parser!(i32).range(-1..)),
        )
        .arg(args::flag("quiet", "No table: files alone").short('q'))
}

fn options(matches: &ArgMatches) -> Options {
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let only = matches.get_one::<String>("only").map(String::as_str);
    Options {
        json: path("json"),
        html: path("html"),
        size: matches.get_one::<(u32, u32)>("size").copied(),
        only: only.map(|name| match name {
            "convolve" => Task::Convolve,
            _ => Task::Bilateral,
        }),
        device: matches.get_one::<i32>("device").copied().unwrap_or(-1),
        quiet: matches.get_flag("quiet"),
    }
}

/// Does what the command line asks for.
///
/// # Errors
/// When a file cannot be written.
pub fn bench(matches: &ArgMatches) -> Result<Exit, Failure> {
    match matches.subcommand() {
        Some(("ladder", matches)) => ladder(&options(matches)),
        _ => unreachable!("clap asks for a subcommand"),
    }
}

fn ladder(options: &Options) -> Result<Exit, Failure> {
    let to_stdout = options.json.as_deref() == Some(Path::new("-"));
    let files = [&options.json, &options.html].into_iter().flatten();
    for file in files.filter(|file| *file != Path::new("-")) {
        // Better known before the work than after it.
        output::check_target(file, None).map_err(|error| Failure::Usage(error.to_string()))?;
    }
    let gpu: MaybeGpu = Gpu::open(options.device).map_err(|error| error.to_string());
    let machine = Machine::new(&gpu);
    let tell = |line: &str| match (options.quiet, to_stdout) {
        (true, _) => (),
        (false, true) => console::note(line),
        (false, false) => console::result(line),
    };
    tell(&format!(
        "CPU: {}\nGPU: {}",
        machine.cpu,
        machine.gpu_text()
    ));
    let mut ladders: Vec<Ladder> = Vec::new();
    for (task, width, height) in jobs(options) {
        let job = Job::new(task, width, height);
        tell(&format!("\n{}\n{}", job.title(), table::header()));
        let (mut first, mut told_of_gpu) = (None, false);
        let ladder = climb(&job, &gpu, &mut |row| {
            let time = row.outcome.as_ref().ok().map(|measured| measured.time);
            first = first.or(time);
            if !machine.lacks_gpu_for(row) {
                tell(&table::line(row, first));
            } else if !told_of_gpu {
                told_of_gpu = true;
                tell(&table::line_without_gpu());
            }
        });
        ladders.push(ladder);
    }
    if let Some(file) = &options.json {
        let text = json::document(&machine, &ladders);
        match to_stdout {
            true => console::result(text.trim_end()),
            false => write(file, &text, tell)?,
        }
    }
    if let Some(file) = &options.html {
        let text = page::document(&machine, &ladders).into_string();
        write(file, &text, tell)?;
    }
    Ok(Exit::Done)
}

fn write(file: &Path, text: &str, tell: impl Fn(&str)) -> Result<(), Failure> {
    let name = file.display();
    std::fs::write(file, text)
        .map_err(|error| Failure::Failed(format!("{name} cannot be written: {error}")))?;
    tell(&format!("\nwritten: {name}"));
    Ok(())
}

/// What is filtered, in the sizes of the tutorials.
fn jobs(options: &Options) -> Vec<(Task, usize, usize)> {
    let mut jobs = vec![
        (Task::Convolve, 1920, 1080),
        (Task::Bilateral, 640, 480),
        (Task::Bilateral, 1920, 1080),
    ];
    if let Some((width, height)) = options.size {
        jobs.iter_mut()
            .for_each(|job| *job = (job.0, width as usize, height as usize));
        jobs.dedup();
    }
    jobs.retain(|job| options.only.is_none_or(|only| only == job.0));
    jobs
}

impl Machine {
    fn new(gpu: &MaybeGpu) -> Machine {
        Machine {
            cpu: crate::machine::describe_cpu(),
            system: crate::machine::system(),
            gpu: gpu.as_ref().map(Gpu::describe).map_err(Clone::clone),
        }
    }

    /// Whether all that a step lacks is a GPU.
    fn lacks_gpu_for(&self, row: &Row) -> bool {
        let missing = row.outcome.as_ref().err();
        missing.is_some() && missing == self.gpu.as_ref().err()
    }

    /// The GPU, or why there is none, in a line.
    fn gpu_text(&self) -> &str {
        match &self.gpu {
            Ok(text) | Err(text) => text,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use gstcudaconv::engine::cuda::abi::Extent;
    use gstcudaconv::engine::ladder::steps::{self, Way};
    use gstcudaconv::engine::ladder::{Errors, Measured, Place, Transfer};

    use super::*;

    /// Made-up figures: the first step takes 8 ms, every other one half of the one before.
    pub fn made_up() -> (Machine, Vec<Ladder>) {
        let job = Job::new(Task::Convolve, 4, 2);
        let steps = steps::of(Task::Convolve).into_iter().take(4).enumerate();
        let rows = steps.map(|(index, step)| {
            let device = matches!(step.way, Way::Kernels { .. });
            let measured = Measured {
                place: if device { Place::Device } else { Place::Host },
                time: Duration::from_micros(8000 >> index),
                transfer: device.then_some(Transfer {
                    up: Duration::from_micros(300),
                    down: Duration::from_micros(200),
                }),
                bytes: 16_000_000,
                floor: Duration::from_micros(500),
                memory_bytes: 16_000_072,
                shared_bytes: device.then_some(1296),
                block: device.then_some(Extent { x: 16, y: 16 }),
                registers: device.then_some(24),
                occupancy: device.then_some(0.75),
                errors: Errors {
                    psnr: if index == 0 { f64::INFINITY } else { 61.26 },
                    largest: 0.001,
                    equal: 0.5,
                },
            };
            let outcome = match index {
                3 => Err("no <tile> \"here\"".to_owned()),
                _ => Ok(measured),
            };
            Row { step, outcome }
        });
        let ladder = Ladder {
            task: Task::Convolve,
            title: job.title(),
            name: job.name(),
            rows: rows.collect(),
        };
        let machine = Machine {
            cpu: "A <fast> CPU".into(),
            system: "a system".into(),
            gpu: Ok("A GPU".into()),
        };
        (machine, vec![ladder])
    }

    fn parsed(arguments: &[&str]) -> Options {
        let all = ["ladder"].iter().chain(arguments);
        options(&ladder_command().get_matches_from(all))
    }

    #[test]
    fn the_tutorials_sizes_are_the_default() {
        let jobs_of = |arguments: &[&str]| jobs(&parsed(arguments)).len();
        assert_eq!(jobs_of(&[]), 3);
        assert_eq!(jobs_of(&["--only", "convolve"]), 1);
        assert_eq!(jobs_of(&["--only", "bilateral"]), 2);
        assert_eq!(
            jobs(&parsed(&["--size", "97x61"])),
            [(Task::Convolve, 97, 61), (Task::Bilateral, 97, 61)]
        );
    }
}
