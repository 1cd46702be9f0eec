//! What is said while a run goes on: lines for people, bars where they sit, JSON for programs.

mod bars;
mod lines;

pub(super) use lines::line;

use crate::args::{ConformanceArgs, Lines};
use crate::cells::Pair;
use crate::conformance::suite_result::SuiteResult;
use bars::Bars;
use leasehold_conformance::matrix::{Cell, cell_name};
use leasehold_conformance::{CaseEvent, Round, Run, Tally};
use leasehold_console::{Console, print_json, shell_word};
use serde_json::json;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Says what happens, from whatever thread it is told.
#[derive(Debug)]
pub(super) struct Reporter {
    format: Lines,
    bars: Option<Bars>,
    seed: u64,
    /// What a failure adds to `leasehold conformance` to be seen again.
    words: String,
    total: usize,
    over: AtomicUsize,
    /// The first line that could not be printed.
    unprinted: Mutex<Option<io::Error>>,
}

impl Reporter {
    pub(super) fn new(run: &Run, cells: &[Pair], args: &ConformanceArgs, console: Console) -> Self {
        let plan = run.plan();
        let of_cases = plan.iter().map(|(subject, _)| subject.name());
        let subjects = of_cases.chain(cells.iter().map(|(subject, _)| subject.name()));
        let bars = (args.format == Lines::Plain && console.is_at_terminal()).then(|| Bars::new(subjects));
        let options = if args.faults { " --faults" } else { console.store() };
        let stores = args.stores.iter().map(|store| format!(" {}", shell_word(store)));
        let words = std::iter::once(options.to_owned()).chain(stores).collect();
        Self {
            format: args.format,
            bars,
            seed: run.seed(),
            words,
            total: plan.len() + cells.len(),
            over: AtomicUsize::new(0),
            unprinted: Mutex::new(None),
        }
    }

    pub(super) fn observe(&self, event: CaseEvent<'_>) {
        if let Some(bars) = &self.bars {
            bars.observe(event);
        }
        if matches!(event, CaseEvent::Finished(_)) {
            self.over.fetch_add(1, Ordering::Relaxed);
        }
        match (event, self.format) {
            (CaseEvent::Started(subject, case), Lines::Ndjson) => {
                self.print(|| lines::json_started(subject, &case));
            }
            (CaseEvent::Finished(result), Lines::Ndjson) => self.print(|| lines::json_finished(result)),
            // At a terminal the bars show what passes.
            (CaseEvent::Finished(result), Lines::Plain)
                if self.bars.is_none() || lines::is_failed(result) =>
            {
                self.print(|| lines::finished(result, &self.words, self.seed));
            }
            (_, Lines::Plain) => {}
        }
    }

    /// A fault under a store is over.
    pub(super) fn cell(&self, cell: &Cell) {
        self.over.fetch_add(1, Ordering::Relaxed);
        if let Some(bars) = &self.bars {
            bars.finished(&cell.subject);
        }
        match self.format {
            Lines::Ndjson => self.print(|| print_json(&lines::event("cell_finished", cell, cell.seed))),
            Lines::Plain if self.bars.is_none() || lines::is_failed(&cell.into()) => {
                self.print(|| lines::cell(cell, &self.words, self.seed));
            }
            Lines::Plain => {}
        }
    }

    /// Says that it lives, where nobody sees a bar and no program reads.
    pub(super) fn heartbeat(&self) {
        if self.bars.is_none() && self.format == Lines::Plain {
            let over = self.over.load(Ordering::Relaxed);
            self.print(|| line(format_args!("… {over} of {} are over", self.total)));
        }
    }

    /// The last lines. An error if anything could not be printed.
    pub(super) fn end(&self, ended: &SuiteResult) -> io::Result<()> {
        if let Some(bars) = &self.bars {
            bars.end();
        }
        let (tally, interrupted) = (Tally::count(&ended.results), ended.signal.is_some());
        match self.format {
            Lines::Ndjson => self.print(|| lines::json_end(&tally, self.seed, interrupted)),
            Lines::Plain => self.print(|| lines::end(&ended.results, self.total, interrupted)),
        }
        self.unprinted.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn print(&self, print: impl FnOnce() -> io::Result<()>) {
        let printed = match &self.bars {
            Some(bars) => bars.above(print),
            None => print(),
        };
        if let Err(error) = printed {
            self.unprinted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

/// Says what a run would put to the test.
pub(super) fn list(run: &Run, cells: &[Pair], format: Lines) -> io::Result<()> {
    for (subject, case) in run.plan() {
        let subject = subject.name();
        match format {
            Lines::Plain => line(format_args!("{subject}::{}", case.name()))?,
            Lines::Ndjson => {
                print_json(&json!({"subject": subject, "case": case.id, "property": case.property}))?;
            }
        }
    }
    for (subject, fault) in cells {
        match format {
            Lines::Plain => line(cell_name(subject.name(), *fault))?,
            Lines::Ndjson => print_json(&json!({"subject": subject.name(), "fault": fault}))?,
        }
    }
    Ok(())
}

/// Says what came of a round of a soak.
pub(super) fn round(round: &Round, format: Lines) -> io::Result<()> {
    match format {
        Lines::Plain => lines::round(round),
        Lines::Ndjson => print_json(&lines::event("round_finished", round, round.seed)),
    }
}

/// The last line of a soak.
pub(super) fn rounds(sum: Tally, format: Lines, interrupted: bool) -> io::Result<()> {
    let (accepted, rejected, void) = (sum.passed, sum.failed + sum.late, sum.skipped + sum.not_judged);
    let early = if interrupted { ", interrupted" } else { "" };
    match format {
        Lines::Plain => {
            line(format_args!("{accepted} rounds accepted, {rejected} rejected, {void} void{early}"))
        }
        Lines::Ndjson => print_json(&json!({
            "event": "soak_finished", "accepted": accepted, "rejected": rejected, "void": void,
            "interrupted": interrupted,
        })),
    }
}
