use crate::format::outcome;
use leasehold_conformance::matrix::{Cell, State, cell_name};
use leasehold_conformance::{Case, CaseOutcome, CaseResult, Round, Tally, skipped_by_reason};
use leasehold_console::{print_json, safe, shell_word};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::{self, Write};

/// One line, in one piece: many threads write.
pub(in crate::conformance) fn line(text: impl Display) -> io::Result<()> {
    let text = format!("{text}\n");
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

pub(super) fn is_failed(result: &CaseResult) -> bool {
    matches!(result.outcome, CaseOutcome::Failed { .. } | CaseOutcome::Late { .. })
}

/// `ok`, `skipped`, `not judged`, `late` or `FAILED`, the case, and why; of a failure also the line that shows it again.
pub(super) fn finished(result: &CaseResult, words: &str, seed: u64) -> io::Result<()> {
    let (name, took) = (result.name(), result.took_ms as f64 / 1000.0);
    match &result.outcome {
        CaseOutcome::Passed => line(format_args!("ok      {name} ({took:.1} s)")),
        CaseOutcome::Skipped { why } => line(format_args!("skipped {name}: {}", safe(why))),
        CaseOutcome::NotJudged { why } => {
            line(format_args!("not judged {name} ({took:.1} s){}", indented(why)))
        }
        CaseOutcome::Failed { why } | CaseOutcome::Late { why } => {
            let word = if matches!(result.outcome, CaseOutcome::Late { .. }) { "late   " } else { "FAILED " };
            let again = again(words, &result.case, seed);
            line(format_args!("{word} {name} ({took:.1} s){}\n        {again}", indented(why)))
        }
    }
}

/// The same of a fault under a store, and what is promised beside what was seen.
pub(super) fn cell(cell: &Cell, words: &str, seed: u64) -> io::Result<()> {
    let (name, took, promised) = (cell.name(), cell.took_ms as f64 / 1000.0, outcome(cell.promised));
    match &cell.state {
        State::Kept => line(format_args!("ok      {name} ({took:.1} s): {promised}, as promised")),
        State::Better => {
            let seen = cell.measured.map_or("nothing", outcome);
            line(format_args!("ok      {name} ({took:.1} s): {seen}; promised: {promised}"))
        }
        State::NotApplicable { why } => line(format_args!("skipped {name}: not applicable: {}", safe(why))),
        State::NotRun { why } => line(format_args!("skipped {name}: not run: {}", safe(why))),
        State::NotJudged { why } => line(format_args!("not judged {name} ({took:.1} s){}", indented(why))),
        State::Broken { why } | State::Void { why } => {
            let word = if matches!(cell.state, State::Void { .. }) { "it shows nothing" } else { "broken" };
            let seen = indented(&format!("{word}; promised: {promised}: {why}"));
            let again = again(words, &cell_name("", cell.fault), seed);
            line(format_args!("FAILED  {name} ({took:.1} s){seen}\n        {again}"))
        }
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("\n          {}", safe(line))).collect()
}

fn again(words: &str, filter: &str, seed: u64) -> String {
    format!("again: leasehold conformance{words} --filter {filter} --seed {seed}")
}

/// The skipped cases by their reasons, and the tally.
pub(super) fn end(results: &[CaseResult], total: usize, interrupted: bool) -> io::Result<()> {
    let tally = Tally::count(results);
    if interrupted {
        let not_run = total - results.len();
        return line(format_args!("{tally}, interrupted: {not_run} not run"));
    }
    for (why, cases) in skipped_by_reason(results) {
        line(format_args!("not tested, {}: {}", safe(why), cases.join(" ")))?;
    }
    if tally.passed + tally.failed + tally.late + tally.not_judged == 0 {
        line("nothing ran: that is a failure")?;
    }
    line(tally)
}

#[derive(Serialize)]
struct Finished<'a> {
    event: &'static str,
    #[serde(flatten)]
    result: &'a CaseResult,
}

pub(super) fn json_started(subject: &str, case: &Case) -> io::Result<()> {
    let event = "case_started";
    print_json(&json!({"event": event, "subject": subject, "case": case.id, "property": case.property}))
}

pub(super) fn json_finished(result: &CaseResult) -> io::Result<()> {
    print_json(&Finished { event: "case_finished", result })
}

pub(super) fn json_end(tally: &Tally, seed: u64, interrupted: bool) -> io::Result<()> {
    let Tally { passed, failed, late, not_judged, skipped, .. } = *tally;
    let seed = shown(seed);
    print_json(&json!({
        "event": "run_finished", "passed": passed, "failed": failed, "late": late, "not_judged": not_judged,
        "skipped": skipped, "seed": seed, "interrupted": interrupted,
    }))
}

/// One round of a soak; of one that is no history of a lock also the line that shows it again.
pub(super) fn round(round: &Round) -> io::Result<()> {
    let Round { subject, seed, schedule, grants, faults, met, took_ms, .. } = round;
    let took = *took_ms as f64 / 1000.0;
    let seen = format!("{grants} grants, {met} of {faults} faults met a hold");
    let head = format!("{subject} seed {seed} ({took:.1} s): {}; {seen}", safe(schedule));
    match &round.outcome {
        CaseOutcome::Passed => line(format_args!("ok      {head}")),
        CaseOutcome::Skipped { why } | CaseOutcome::NotJudged { why } => {
            line(format_args!("void    {head}{}", indented(why)))
        }
        CaseOutcome::Failed { why } | CaseOutcome::Late { why } => line(format_args!(
            "FAILED  {head}{}\n        again: leasehold conformance --faults {} --soak 1s --seed {seed}",
            indented(why),
            shell_word(subject),
        )),
    }
}

pub(super) fn event(event: &str, of: &impl Serialize, seed: u64) -> Value {
    let mut value = json!(of);
    value["event"] = event.into();
    value["seed"] = shown(seed);
    value
}

/// As text: a number of 64 bits is none to many readers of JSON.
fn shown(seed: u64) -> Value {
    seed.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_is_text_in_every_event() {
        let of = json!({"seed": u64::MAX, "grants": 7});
        let expected = json!({"event": "round_finished", "seed": "18446744073709551615", "grants": 7});
        assert_eq!(event("round_finished", &of, u64::MAX), expected);
    }
}
