//! What goes on beside a stream while it runs: keys, a picture of the figures, an early end.

use crate::measure::Sample;
use crate::progress::Progress;

/// What goes on beside the stream, asked from the thread that watches it.
pub trait Companion {
    /// A frame's figures. Says whether they are to be kept until the end.
    fn frame(&mut self, _sample: &Sample) -> bool {
        true
    }

    /// An application message that the session does not know.
    fn message(&mut self, _stage: &mut Stage<'_>, _structure: &gst::StructureRef) -> Next {
        Next::GoOn
    }

    /// An error that may only be the wish to end.
    fn error(&mut self, _stage: &mut Stage<'_>, _error: &gst::message::Error) -> Next {
        Next::GoOn
    }

    /// Called several times a second.
    fn tick(&mut self, _stage: &mut Stage<'_>) {}
}

/// Nothing goes on beside the stream.
impl Companion for () {}

/// What a [`Companion`] wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    GoOn,
    /// The stream is to end here, as if its source had.
    End,
    /// The stream is to be left as it is: nothing of it has to be finished.
    Leave,
}

/// What a [`Companion`] can act on.
pub struct Stage<'a> {
    pub pipeline: &'a gst::Pipeline,
    /// May be replaced by another in the same place.
    pub filter: &'a mut gst::Element,
    pub progress: &'a Progress,
    pub quiet: bool,
}

impl Stage<'_> {
    /// Says `line`, unless nothing is to be said.
    pub fn say(&self, line: &str) {
        if !self.quiet {
            self.progress.say(line);
        }
    }
}
