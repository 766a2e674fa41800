//! A ladder as JSON, for programs. Times are nanoseconds, bandwidths bytes a second, errors parts of
//! the whole range; what is not known, or does not apply, is left out.

use std::fmt::Write;
use std::time::Duration;

use gstcudaconv::engine::ladder::{Ladder, Measured, Place, Row};

use super::Machine;

/// Members of an object, as they are added.
#[derive(Default)]
struct Object(String);

impl Object {
    fn raw(&mut self, name: &str, value: &str) -> &mut Object {
        let separator = if self.0.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{separator}{}: {value}", text(name));
        self
    }

    fn text(&mut self, name: &str, value: &str) -> &mut Object {
        self.raw(name, &text(value))
    }

    fn number(&mut self, name: &str, value: f64) -> &mut Object {
        if value.is_finite() {
            self.raw(name, &value.to_string());
        }
        self
    }

    fn optional(&mut self, name: &str, value: Option<f64>) -> &mut Object {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }

    fn finish(&self) -> String {
        format!("{{{}}}", self.0)
    }
}

fn text(value: &str) -> String {
    let mut quoted = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if u32::from(c) < 0x20 => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn list(items: impl Iterator<Item = String>, indent: &str) -> String {
    let items: Vec<String> = items.map(|item| format!("{indent}  {item}")).collect();
    format!("[\n{}\n{indent}]", items.join(",\n"))
}

/// Everything that was measured.
pub fn document(machine: &Machine, ladders: &[Ladder]) -> String {
    let mut about = Object::default();
    about
        .text("cpu", &machine.cpu)
        .text("system", &machine.system);
    match &machine.gpu {
        Ok(gpu) => about.text("gpu", gpu),
        Err(reason) => about.text("gpu-missing", reason),
    };
    let ladders = ladders.iter().map(|ladder| {
        let first = ladder.first();
        let rows = ladder.rows.iter().map(|row| step(row, first));
        let mut object = Object::default();
        object
            .text("name", &ladder.name)
            .text("title", &ladder.title)
            .raw("steps", &list(rows, "    "));
        object.finish()
    });
    format!(
        "{{\n  \"program\": {},\n  \"machine\": {},\n  \"ladders\": {}\n}}\n",
        text(&format!("cudaconv {}", crate::version())),
        about.finish(),
        list(ladders, "  ")
    )
}

fn step(row: &Row, first: Option<Duration>) -> String {
    let mut object = Object::default();
    object
        .text("name", &row.step.name)
        .text("title", &row.step.title)
        .text("about", row.step.about);
    match &row.outcome {
        Ok(measured) => figures(&mut object, measured, first),
        Err(reason) => {
            object.text("missing", reason);
        }
    }
    object.finish()
}

fn figures(object: &mut Object, measured: &Measured, first: Option<Duration>) {
    let nanoseconds = |time: Duration| time.as_nanos() as f64;
    let speed_up = |time| first.map(|first| nanoseconds(first) / nanoseconds(time).max(1.0));
    let transfer = measured.transfer;
    object
        .text(
            "memory",
            match measured.place {
                Place::Host => "host",
                Place::Device => "device",
            },
        )
        .number("time-ns", nanoseconds(measured.time))
        .optional("speed-up", speed_up(measured.time))
        .optional("upload-ns", transfer.map(|t| nanoseconds(t.up)))
        .optional("download-ns", transfer.map(|t| nanoseconds(t.down)))
        .optional(
            "speed-up-with-transfer",
            transfer.and(speed_up(measured.with_transfer())),
        )
        .number("bytes-moved", measured.bytes as f64)
        .number("copy-ns", nanoseconds(measured.floor))
        .number("times-copy", measured.over_floor())
        .number("bandwidth", measured.bandwidth())
        .number("memory-bytes", measured.memory_bytes as f64)
        .optional("shared-bytes", measured.shared_bytes.map(|b| b as f64))
        .optional("registers", measured.registers.map(f64::from))
        .optional("occupancy", measured.occupancy);
    if let Some(block) = measured.block {
        object.raw("block", &format!("[{}, {}]", block.x, block.y));
    }
    object
        .raw(
            "identical",
            match measured.errors.psnr.is_infinite() {
                true => "true",
                false => "false",
            },
        )
        .number("psnr-db", measured.errors.psnr)
        .number("largest-error", measured.errors.largest)
        .number("equal", measured.errors.equal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::made_up;

    #[test]
    fn the_document_is_json_with_every_step() {
        let (machine, ladders) = made_up();
        let value: serde_json::Value = serde_json::from_str(&document(&machine, &ladders)).unwrap();
        assert_eq!(value["machine"]["gpu"], "A GPU");
        let steps = value["ladders"][0]["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 4);
        assert_eq!(steps[0]["identical"], true);
        assert!(steps[0].get("psnr-db").is_none() && steps[0].get("upload-ns").is_none());
        assert_eq!(steps[2]["speed-up"], 4.0);
        assert_eq!(steps[2]["speed-up-with-transfer"], 3.2);
        assert_eq!(steps[2]["block"], serde_json::json!([16, 16]));
        assert_eq!(steps[3]["missing"], "no <tile> \"here\"");
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(text("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\"");
    }
}
