//! What is said while a run goes on: lines for people, a progress bar at a terminal, JSON for programs.

use crate::args::{ConformanceArgs, Lines};
use crate::background::Pair;
use crate::format::{joined_lines, outcome};
use crate::progress::Progress;
use leasehold_conformance::matrix::{Cell, State, cell_name};
use leasehold_conformance::{CaseEvent, CaseOutcome, CaseResult, Round, Run, Tally, skipped_by_reason};
use leasehold_console::{Console, safe, shell_word};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Says what happens, from whatever thread it is told.
#[derive(Debug)]
pub(super) struct Reporter {
    format: Lines,
    /// At a terminal, where it shows what passes.
    bar: Option<Progress>,
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
        let total = run.plan().len() + cells.len();
        let has_bar = args.format == Lines::Plain && console.is_at_terminal();
        let options = if args.faults { " --faults" } else { console.store() };
        let stores = args.stores.iter().map(|store| format!(" {}", shell_word(store)));
        Self {
            format: args.format,
            bar: has_bar.then(|| Progress::new(console, total)),
            seed: run.seed(),
            words: std::iter::once(options.to_owned()).chain(stores).collect(),
            total,
            over: AtomicUsize::new(0),
            unprinted: Mutex::new(None),
        }
    }

    pub(super) fn observe(&self, event: CaseEvent<'_>) {
        match (event, self.format) {
            (CaseEvent::Started(subject, case), Lines::Ndjson) => {
                let event = "case_started";
                self.print(
                    json!({"event": event, "subject": subject, "case": case.id, "property": case.property}),
                );
            }
            (CaseEvent::Started(..), Lines::Plain) => {}
            (CaseEvent::Finished(result), Lines::Ndjson) => self.print(event_of("case_finished", result)),
            (CaseEvent::Finished(result), Lines::Plain) => {
                let filter = || format!("{}::{}", result.subject, result.case);
                self.finished(result, || case_line(result, &self.again(&filter())));
            }
        }
    }

    /// A fault under a store is over.
    pub(super) fn cell(&self, cell: &Cell) {
        match self.format {
            Lines::Ndjson => self.print(seeded("cell_finished", cell, cell.seed)),
            Lines::Plain => self.finished(&cell.into(), || cell_line(cell, &self.again(&cell.name()))),
        }
    }

    fn finished(&self, result: &CaseResult, text: impl FnOnce() -> String) {
        self.over.fetch_add(1, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.step(result.name());
        }
        if self.bar.is_none() || !matches!(result.outcome, CaseOutcome::Passed | CaseOutcome::Skipped { .. })
        {
            self.print(text());
        }
    }

    fn again(&self, filter: &str) -> String {
        format!("again: leasehold conformance{} --filter {filter} --seed {}", self.words, self.seed)
    }

    /// A line now and then, for people who see no bar.
    pub(super) fn heartbeat(&self) {
        if self.bar.is_none() && self.format == Lines::Plain {
            let over = self.over.load(Ordering::Relaxed);
            self.print(format_args!("… {over} of {} are over", self.total));
        }
    }

    /// The last lines. An error if anything could not be printed.
    pub(super) fn end(&self, results: &[CaseResult], interrupted: bool) -> io::Result<()> {
        let tally = Tally::count(results);
        match self.format {
            Lines::Ndjson => self.print(ended(seeded("run_finished", &tally, self.seed), interrupted)),
            Lines::Plain if interrupted => {
                let not_run = self.total - results.len();
                self.print(format_args!("{tally}, interrupted: {not_run} not run"));
            }
            Lines::Plain => {
                for (why, cases) in skipped_by_reason(results) {
                    self.print(format_args!("not tested, {}: {}", safe(why), cases.join(" ")));
                }
                results.iter().filter_map(passed_again).for_each(|text| self.print(text));
                if tally.skipped == results.len() {
                    self.print("nothing ran: that is a failure");
                }
                self.print(tally);
            }
        }
        self.unprinted.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn print(&self, text: impl Display) {
        let printed = match &self.bar {
            Some(bar) => bar.above(|| line(text)),
            None => line(text),
        };
        if let Err(error) = printed {
            self.unprinted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

/// One line, in one piece: many threads write.
pub(super) fn line(text: impl Display) -> io::Result<()> {
    let text = format!("{text}\n");
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Says what a run would put to the test.
pub(super) fn list(run: &Run, cells: &[Pair], format: Lines) -> io::Result<()> {
    for (subject, case) in run.plan() {
        let subject = subject.name();
        match format {
            Lines::Plain => line(format_args!("{subject}::{}", case.name()))?,
            Lines::Ndjson => line(json!({"subject": subject, "case": case.id, "property": case.property}))?,
        }
    }
    for (subject, fault) in cells {
        match format {
            Lines::Plain => line(cell_name(subject.name(), *fault))?,
            Lines::Ndjson => line(json!({"subject": subject.name(), "fault": fault}))?,
        }
    }
    Ok(())
}

/// `ok`, `skipped`, `not judged`, `late` or `FAILED`, the case, and why; of a failure also the line that shows it again.
fn case_line(result: &CaseResult, again: &str) -> String {
    let (name, took) = (result.name(), result.took_ms as f64 / 1000.0);
    match &result.outcome {
        CaseOutcome::Passed => format!("ok      {name} ({took:.1} s)"),
        CaseOutcome::Skipped { why } => format!("skipped {name}: {}", safe(why)),
        CaseOutcome::NotJudged { why } => format!("not judged {name} ({took:.1} s){}", indented(why)),
        CaseOutcome::Late { why } => {
            format!("late    {name} ({took:.1} s){}\n        {again}", indented(why))
        }
        CaseOutcome::Failed { why } => {
            format!("FAILED  {name} ({took:.1} s){}\n        {again}", indented(why))
        }
    }
}

/// The same of a fault under a store, and what is promised beside what was seen.
fn cell_line(cell: &Cell, again: &str) -> String {
    let (name, took, promised) = (cell.name(), cell.took_ms as f64 / 1000.0, outcome(cell.promised));
    let failed = |kind: &str, word: &str, why: &str| {
        let seen = indented(&format!("{word}; promised: {promised}: {why}"));
        format!("{kind:<7} {name} ({took:.1} s){seen}\n        {again}")
    };
    match &cell.state {
        State::Kept => format!("ok      {name} ({took:.1} s): {promised}, as promised"),
        State::Better => {
            let seen = cell.measured.map_or("nothing", outcome);
            format!("ok      {name} ({took:.1} s): {seen}; promised: {promised}")
        }
        State::NotApplicable { why } => format!("skipped {name}: not applicable: {}", safe(why)),
        State::NotRun { why } => format!("skipped {name}: not run: {}", safe(why)),
        State::Void { why } | State::NotJudged { why } => {
            format!("not judged {name} ({took:.1} s){}", indented(why))
        }
        State::Broken { why } => failed("FAILED", "broken", why),
        State::Late { why } => failed("late", "late", why),
    }
}

fn passed_again(result: &CaseResult) -> Option<String> {
    let CaseResult { subject, case, at_first, outcome, .. } = result;
    let why = at_first.as_ref().filter(|_| *outcome == CaseOutcome::Passed)?;
    Some(format!("passed when run again, {subject}::{case}: {}", safe(&joined_lines(why))))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("\n          {}", safe(line))).collect()
}

/// What came of a round of a soak; of one that failed or was late also the line that shows it again.
pub(super) fn round(round: &Round, format: Lines) -> String {
    if format == Lines::Ndjson {
        return seeded("round_finished", round, round.seed).to_string();
    }
    let Round { subject, seed, schedule, grants, faults, met, took_ms, .. } = round;
    let took = *took_ms as f64 / 1000.0;
    let seen = format!("{grants} grants, {met} of {faults} faults met a hold");
    let head = format!("{subject} seed {seed} ({took:.1} s): {}; {seen}", safe(schedule));
    let store = shell_word(subject);
    let again = format!("\n        again: leasehold conformance --faults {store} --soak 1s --seed {seed}");
    match &round.outcome {
        CaseOutcome::Passed => format!("ok      {head}"),
        CaseOutcome::Skipped { why } => format!("skipped {head}{}", indented(why)),
        CaseOutcome::NotJudged { why } => format!("not judged {head}{}", indented(why)),
        CaseOutcome::Late { why } => format!("late    {head}{}{again}", indented(why)),
        CaseOutcome::Failed { why } => format!("FAILED  {head}{}{again}", indented(why)),
    }
}

/// The last line of a soak.
pub(super) fn rounds(sum: Tally, format: Lines, interrupted: bool) -> io::Result<()> {
    let early = if interrupted { ", interrupted" } else { "" };
    match format {
        Lines::Plain => line(format_args!("rounds: {sum}{early}")),
        Lines::Ndjson => line(ended(event_of("soak_finished", &sum), interrupted)),
    }
}

fn ended(mut value: Value, interrupted: bool) -> Value {
    value["interrupted"] = interrupted.into();
    value
}

fn event_of(event: &str, of: &impl Serialize) -> Value {
    let mut value = json!(of);
    value["event"] = event.into();
    value
}

/// With its seed as text: a number of 64 bits is none to many readers of JSON.
fn seeded(event: &str, of: &impl Serialize, seed: u64) -> Value {
    let mut value = event_of(event, of);
    value["seed"] = seed.to_string().into();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_is_text_in_every_event() {
        let of = json!({"seed": u64::MAX, "grants": 7});
        let expected = json!({"event": "round_finished", "seed": "18446744073709551615", "grants": 7});
        assert_eq!(seeded("round_finished", &of, u64::MAX), expected);
    }

    fn is(kind: &str) -> Value {
        json!({"is": kind, "why": "it"})
    }

    #[test]
    fn line_of_a_case_begins_with_its_outcome() {
        let line = |kind: &str| {
            let result =
                json!({"subject": "x", "case": "A01", "property": "p", "outcome": is(kind), "took_ms": 7});
            case_line(&serde_json::from_value(result).unwrap(), "again: this")
        };
        let passed = json!({
            "subject": "x", "case": "A01", "property": "p", "outcome": is("passed"), "took_ms": 7, "at_first": "it",
        });
        let mut passed: CaseResult = serde_json::from_value(passed).unwrap();
        assert_eq!(passed_again(&passed).as_deref(), Some("passed when run again, x::A01: it"));
        passed.outcome = serde_json::from_value(is("late")).unwrap();
        assert_eq!(passed_again(&passed), None);
        let why = "x::A01_p (0.0 s)\n          it";
        assert_eq!(line("passed"), "ok      x::A01_p (0.0 s)");
        assert_eq!(line("skipped"), "skipped x::A01_p: it");
        assert_eq!(line("not-judged"), format!("not judged {why}"));
        assert_eq!(line("late"), format!("late    {why}\n        again: this"));
        assert_eq!(line("failed"), format!("FAILED  {why}\n        again: this"));
    }

    #[test]
    fn line_of_a_fault_begins_with_its_state() {
        let starts = |kind: &str, word: &str| {
            let cell = json!({
                "subject": "x", "fault": "store-paused", "promised": "holds", "measured": "holds", "state": is(kind),
                "words": "", "figures": {}, "seed": 7, "took_ms": 7,
            });
            let line = cell_line(&serde_json::from_value(cell).unwrap(), "again: this");
            assert!(line.starts_with(&format!("{word} x::fault_store-paused")), "{line}");
            assert_eq!(line.contains("again"), ["FAILED ", "late   "].contains(&word), "{line}");
        };
        for kind in ["kept", "better"] {
            starts(kind, "ok     ");
        }
        for kind in ["not-applicable", "not-run"] {
            starts(kind, "skipped");
        }
        for kind in ["void", "not-judged"] {
            starts(kind, "not judged");
        }
        starts("broken", "FAILED ");
        starts("late", "late   ");
    }

    #[test]
    fn line_of_a_round_begins_with_its_outcome() {
        for (kind, word) in [
            ("passed", "ok"),
            ("skipped", "skipped"),
            ("not-judged", "not judged"),
            ("late", "late"),
            ("failed", "FAILED"),
        ] {
            let round = json!({
                "number": 0, "subject": "x", "seed": 7, "schedule": "", "grants": 9, "faults": 2, "met": 1,
                "outcome": is(kind), "took_ms": 7,
            });
            let line = round_of(&round);
            assert!(line.starts_with(&format!("{word:<7} x seed 7 (0.0 s)")), "{line}");
            assert_eq!(line.contains("--soak 1s --seed 7"), ["late", "failed"].contains(&kind), "{line}");
        }
    }

    fn round_of(of: &Value) -> String {
        round(&serde_json::from_value(of.clone()).unwrap(), Lines::Plain)
    }

    #[test]
    fn last_event_counts_each_outcome() {
        let outcomes =
            [is("passed"), is("late"), is("not-judged")].map(|of| serde_json::from_value(of).unwrap());
        let sum: Tally = outcomes.iter().collect();
        let expected = json!({
            "event": "soak_finished", "passed": 1, "failed": 0, "late": 1, "not_judged": 1, "skipped": 0,
            "interrupted": true,
        });
        assert_eq!(ended(event_of("soak_finished", &sum), true), expected);
    }
}
