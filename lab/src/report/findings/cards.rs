//! The verdict on one store, in a few sentences.

use super::faults::UnderFault;
use super::table::Tone;
use crate::format::{anchor, fault, list, time};
use crate::measure::Row;
use crate::report::{Declared, Report, StoreReport, Verdict};
use leasehold::semantics::{CrashBound, Fairness, Fault, HoldKind, LossSignal, Outcome, Reach, TokenClass};
use leasehold_conformance::CaseOutcome;
use leasehold_conformance::matrix::State;
use leasehold_console::shell_word;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
pub(crate) struct Card {
    id: String,
    pub(crate) store: String,
    /// What answered: its version and address, as far as known.
    pub(crate) server: String,
    /// The verdict.
    pub(crate) words: &'static str,
    /// A shape for those who see no colours.
    pub(crate) mark: &'static str,
    pub(crate) tone: Tone,
    /// The first sentence.
    pub(crate) headline: String,
    /// What was seen that its declaration does not allow, each with the command that shows it again; empty if no command does.
    pub(crate) violations: Vec<(String, String)>,
    pub(crate) points: Vec<String>,
}

impl Card {
    pub(super) fn of(report: &Report, store: &StoreReport) -> Self {
        let (words, mark, tone) = match store.verdict() {
            Verdict::NotRun => ("not run", "□", Tone::Muted),
            Verdict::Broken => ("BROKEN", "✕", Tone::Bad),
            Verdict::Late => ("late", "△", Tone::Careful),
            Verdict::NotJudged => ("not judged", "□", Tone::Muted),
            Verdict::AsDeclared if !store.has_figures() => ("not tried", "□", Tone::Muted),
            Verdict::AsDeclared if store.cases.len() + store.cells.len() > 0 => {
                ("as declared", "●", Tone::Good)
            }
            Verdict::AsDeclared => ("measured", "●", Tone::Plain),
        };
        let server = [&store.speed.server, &store.url].into_iter().flatten().cloned();
        Self {
            id: format!("store-{}", anchor(&store.name)),
            store: store.name.clone(),
            server: server.collect::<Vec<_>>().join(", "),
            words,
            mark,
            tone,
            headline: store.not_run.as_ref().map_or_else(|| headline(store), |not_run| not_run.why.clone()),
            violations: violations(report, store),
            points: points(store),
        }
    }
}

fn headline(store: &StoreReport) -> String {
    let counts = store.counts();
    let count = |test: fn(&State) -> bool| store.cells.iter().filter(|cell| test(&cell.state)).count();
    let fault_open = "not judged: the machine was late, or a server not ready";
    let case_open = "not judged: the machine was late, a server not ready, or the fault met nothing";
    let figures = [
        (counts.failed, "case", "failed"),
        (count(|state| matches!(state, State::Broken { .. })), "promise", "broken under faults"),
        (
            counts.late + count(|state| matches!(state, State::Late { .. })),
            "bound",
            "missed, also when tried again, by more than the machine was late",
        ),
        (counts.passed, "case", "passed"),
        (count(|state| matches!(state, State::Kept | State::Better)), "promise", "kept under faults"),
        (counts.not_judged, "case", case_open),
        (count(|state| matches!(state, State::NotJudged { .. })), "fault", fault_open),
        (count(|state| matches!(state, State::Void { .. })), "fault", "not judged: the fault showed nothing"),
        (store.lost(), "lock", "lost while it was measured: renewals came too late"),
        (usize::from(store.has_ended_early()), "measurement", "of speed not finished"),
    ];
    let parts = figures.into_iter().filter(|(figure, ..)| *figure > 0);
    let parts: Vec<String> = parts
        .map(|(figure, noun, words)| format!("{figure} {noun}{} {words}", if figure == 1 { "" } else { "s" }))
        .collect();
    let other = if store.has_figures() { "only its speed was measured" } else { "nothing of it was tried" };
    if parts.is_empty() { other.to_owned() } else { parts.join("; ") }
}

fn violations(report: &Report, store: &StoreReport) -> Vec<(String, String)> {
    let of = match &store.url {
        Some(url) => format!(" {}", shell_word(url)),
        None => format!(" --faults {}", shell_word(&store.name)),
    };
    let again =
        |filter: &str, seed: u64| format!("leasehold conformance{of} --filter {filter} --seed {seed:#x}");
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let mut violations = Vec::new();
    for case in &store.cases {
        if let CaseOutcome::Failed { why } = &case.outcome {
            let what = format!("{} {}: {}", case.case, case.property.replace('_', " "), first_line(why));
            violations.push((what, again(&case.case, report.seed.unwrap_or_default())));
        }
    }
    for cell in &store.cells {
        if let State::Broken { why } = &cell.state {
            let what = format!("under {}: {}", fault(cell.fault), first_line(why));
            violations.push((what, again(&cell.name(), cell.seed)));
        }
    }
    violations.extend(store.violations().map(|seen| (seen, String::new())));
    violations
}

fn points(store: &StoreReport) -> Vec<String> {
    let mut points = store.declared.as_ref().map_or_else(Vec::new, |declared| of_declared(store, declared));
    points.extend(store.findings.iter().cloned());
    let mut left_out = BTreeMap::<&str, Vec<&str>>::new();
    for row in &store.speed.left_out {
        left_out.entry(&row.why).or_default().push(&row.row);
    }
    points.extend(left_out.iter().map(|(why, rows)| format!("not measured: {} ({why})", rows.join(", "))));
    points
}

fn of_declared(store: &StoreReport, declared: &Declared) -> Vec<String> {
    let reach = match declared.reach {
        Reach::Process => "tasks of one process; no server needed",
        Reach::Host => "processes of one host; no server needed",
        _ => "processes on any host; needs its server",
    };
    let hold = match (declared.hold, declared.crash_bound) {
        (HoldKind::Session, _) => "a session",
        (HoldKind::Connection, _) | (_, CrashBound::Connection) => "a connection",
        _ => "a lease",
    };
    let tokens = match declared.token {
        TokenClass::Process => "grow while the process lives",
        TokenClass::Stored => "grow while the data lives",
        _ => "grow also over lost data",
    };
    let loss = match declared.loss_signal {
        LossSignal::Push => "told of a loss at once",
        _ => "told of a loss with its next renewal",
    };
    let order = match declared.fairness {
        Fairness::Fifo => "waiters are served first come, first served",
        _ => "waiters are served in no order",
    };
    let turns = store.row(|row| matches!(row, Row::HandOver { waiters: 8, .. }));
    let turns = turns
        .and_then(|turns| turns.latency_us)
        .map(|gap| format!("hand-over with 8 waiting: median {}, p99 {}; ", time(gap.p50), time(gap.p99)));
    let mut points = vec![format!("locks between {reach}")];
    points.extend(owners(store));
    points.push(format!("{}{order}", turns.unwrap_or_default()));
    points.push(format!(
        "without a message, a waiter asks again within {}",
        time(declared.asks_within_ms as f64 * 1e3)
    ));
    points.push(format!("a hold is {hold}, {loss}; tokens {tokens}"));
    points
}

/// The faults after which two owners are possible.
fn owners(store: &StoreReport) -> Vec<String> {
    let under = |outcome: Outcome| {
        let is_so =
            |each: &Fault| *each != Fault::None && UnderFault::expected(store, *each) == Some(outcome);
        Fault::ALL.into_iter().filter(is_so).map(fault).collect::<Vec<String>>()
    };
    let sentences = [
        (Outcome::FencedOnly, "needs the token after"),
        (Outcome::MayBreak, "not even the token helps after"),
    ];
    let point = |(outcome, words): (Outcome, &str)| {
        let faults = under(outcome);
        (!faults.is_empty()).then(|| format!("{words}: {}", list(&faults, 4)))
    };
    sentences.into_iter().filter_map(point).collect()
}
