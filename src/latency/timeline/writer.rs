//! The file: a JSON array that is whole after every write.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::Record;
use super::format::Events;

const BEGIN: &str = "[\n";
const END: &str = "\n]\n";

pub struct Writer {
    file: File,
    /// Where the array's end stands, to be overwritten by what comes next.
    end: u64,
    events: Events,
}

impl Writer {
    /// Begins the array in an empty file.
    ///
    /// # Errors
    /// When it cannot be written, or is no file that can be written in the middle.
    pub fn start(file: File) -> io::Result<Writer> {
        let process = std::process::id();
        let events = Events::since(Instant::now());
        let first = format!(
            r#"{{"name":"process_labels","ph":"M","pid":0,"tid":0,"args":{{"labels":"cudaconv, process {process}"}}}}"#
        );
        let text = format!("{BEGIN}{first}{END}");
        file.write_all_at(text.as_bytes(), 0)?;
        Ok(Writer {
            file,
            end: (text.len() - END.len()) as u64,
            events,
        })
    }

    pub(super) fn add(&mut self, record: &Record) {
        match record {
            Record::Element { id, name, slots } => self.events.element(*id, name, *slots),
            Record::Frame(id, frame) => self.events.frame(*id, frame),
            Record::Dropped {
                id,
                number,
                at,
                reason,
            } => self.events.dropped(*id, *number, *at, reason),
            Record::Flush(_) => (),
        }
    }

    pub fn add_lost(&mut self, records: u64) {
        if records > 0 {
            self.events.lost(records, Instant::now());
        }
    }

    /// Puts what was added into the file, in one step with the array's end, so that the file is
    /// whole whenever the process ends.
    ///
    /// # Errors
    /// As the file's.
    pub fn write(&mut self) -> io::Result<()> {
        let text = &mut self.events.text;
        if text.is_empty() {
            return Ok(());
        }
        let added = text.len();
        text.push_str(END);
        if let Err(error) = self.file.write_all_at(text.as_bytes(), self.end) {
            // A part of it may be there. What was there before still fits.
            let _ = self.file.set_len(self.end);
            let _ = self.file.write_all_at(END.as_bytes(), self.end);
            return Err(error);
        }
        self.end += added as u64;
        text.clear();
        Ok(())
    }
}
