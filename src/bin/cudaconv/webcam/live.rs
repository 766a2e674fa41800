//! Between the stream and those who watch it: takes in frames and keys, keeps the board.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gst::prelude::*;

use super::board::{Board, Counts};
use super::controls::{self, Change};
use super::keys::{self, KEY};
use super::limit::ENOUGH;
use super::panel::{self, Shared};
use super::window;
use crate::companion::{Companion, Next, Stage};
use crate::measure::{Sample, Stats, Tally};
use crate::run;
use crate::summary::Setting;

/// Between two looks at the element's statistics.
const LOOK: Duration = Duration::from_millis(400);

/// What goes on beside the camera's stream.
pub struct Live {
    board: Shared,
    tally: Tally,
    /// Counts of filters that were replaced.
    earlier: Stats,
    settings: Vec<Setting>,
    looked: Instant,
}

impl Live {
    /// Draws on the element `panel` of `pipeline`.
    ///
    /// # Errors
    /// A sentence, when nothing can be drawn.
    pub fn new(pipeline: &gst::Pipeline, filter: &gst::Element) -> Result<Live, String> {
        let board = Shared::default();
        let panel = pipeline.by_name("panel");
        panel::draw_on(&panel.ok_or("the pipeline has no panel")?, board.clone())?;
        let mut live = Live {
            board,
            tally: Tally::default(),
            earlier: Stats::default(),
            settings: Vec::new(),
            looked: Instant::now(),
        };
        live.show_settings(filter);
        Ok(live)
    }

    /// The last settings, the figures of all frames, and the counts of filters before the last one.
    pub fn results(self) -> (Vec<Setting>, Tally, Stats) {
        (self.settings, self.tally, self.earlier)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings are others: frames from before say nothing about them.
    fn show_settings(&mut self, filter: &gst::Element) {
        self.settings = run::in_use(filter);
        let mut board = self.board();
        board.title = controls::title(filter);
        board.budget = filter.property("budget");
        board.clear();
        drop(board);
        self.look(filter);
    }

    /// Reads the statistics, which wait for nothing.
    fn look(&mut self, filter: &gst::Element) {
        self.looked = Instant::now();
        let mut stats = Stats::of(filter);
        stats.add_counts(&self.earlier);
        let policy = controls::text(filter, "over-budget");
        let parts = [stats.backend.clone(), stats.method.clone(), policy];
        let known = parts.into_iter().filter(|part| !part.is_empty());
        let mut board = self.board();
        board.how = known.collect::<Vec<_>>().join(" · ");
        board.counts = Counts::of(&stats);
    }
}

impl Companion for Live {
    fn frame(&mut self, sample: &Sample) -> bool {
        self.tally.frame(sample);
        self.board().frame(sample);
        false
    }

    fn message(&mut self, stage: &mut Stage<'_>, structure: &gst::StructureRef) -> Next {
        match structure.name().as_str() {
            ENOUGH => return Next::End,
            KEY => {}
            _ => return Next::GoOn,
        }
        let key = structure.get::<String>("text").unwrap_or_default();
        let Some(action) = key.chars().next().and_then(keys::action) else {
            return Next::GoOn;
        };
        let (change, next) = controls::act(stage, action);
        match change {
            Change::Nothing => {}
            Change::Settings => self.show_settings(stage.filter),
            Change::Filter(old) => {
                self.earlier.add_counts(&Stats::of(&old));
                run::print_lines(stage.filter);
                self.show_settings(stage.filter);
            }
        }
        next
    }

    fn error(&mut self, stage: &mut Stage<'_>, error: &gst::message::Error) -> Next {
        if !window::was_closed(error) {
            return Next::GoOn;
        }
        // With the window alone nothing is left to be finished.
        match window::take_away(stage.pipeline) {
            true => Next::End,
            false => Next::Leave,
        }
    }

    fn tick(&mut self, stage: &mut Stage<'_>) {
        if self.looked.elapsed() >= LOOK {
            self.look(stage.filter);
        }
    }
}
