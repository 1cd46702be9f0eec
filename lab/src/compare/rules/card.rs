//! The verdict on one store, in words.

use super::UnderFault;
use crate::compare::model::{Declared, Report, StoreReport, Verdict};
use crate::format::{Tone, anchor, fault, hold, list, reach, slug, time, token};
use leasehold::semantics::{Fairness, Fault, Outcome, Reach};
use leasehold_conformance::CaseOutcome;
use leasehold_conformance::matrix::State;
use leasehold_console::shell_word;
use serde::Serialize;

/// One store, in a few sentences.
#[derive(Debug, Serialize)]
pub(crate) struct Card {
    pub(crate) id: String,
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
    /// What was seen that its declaration does not allow, each with the command that shows it again.
    pub(crate) violations: Vec<Violation>,
    pub(crate) points: Vec<String>,
    /// The anchor of its evidence, if there is any.
    pub(crate) evidence: Option<String>,
}

/// A case that failed, or a promise that was broken.
#[derive(Debug, Serialize)]
pub(crate) struct Violation {
    pub(crate) what: String,
    /// The command that shows it again; empty if no command does.
    pub(crate) again: String,
}

pub(crate) fn card(report: &Report, store: &StoreReport) -> Card {
    let (words, mark, tone) = match store.verdict() {
        Verdict::NotRun => ("not run", "□", Tone::Muted),
        Verdict::Broken => ("BROKEN", "✕", Tone::Bad),
        Verdict::Late => ("late", "△", Tone::Careful),
        Verdict::NotJudged => ("not judged", "□", Tone::Muted),
        Verdict::AsDeclared => ("as declared", "●", Tone::Good),
    };
    let has_evidence = !store.cells.is_empty() || store.cases.len() > store.counts().passed;
    Card {
        id: format!("store-{}", anchor(&store.name)),
        store: store.name.clone(),
        server: [&store.server, &store.url].into_iter().flatten().cloned().collect::<Vec<_>>().join(", "),
        words,
        mark,
        tone,
        headline: store.not_run.as_ref().map_or_else(|| headline(store), |not_run| not_run.why.clone()),
        violations: violations(report, store),
        points: store.declared.as_ref().map_or_else(Vec::new, |declared| points(store, declared)),
        evidence: has_evidence.then(|| format!("evidence-{}", anchor(&store.name))),
    }
}

fn headline(store: &StoreReport) -> String {
    let counts = store.counts();
    let count = |test: fn(&State) -> bool| store.cells.iter().filter(|cell| test(&cell.state)).count();
    let late = "not judged: the machine was late";
    let figures = [
        (counts.failed, "case", "failed"),
        (count(|state| matches!(state, State::Broken { .. })), "promise", "broken under faults"),
        (counts.late, "bound", "missed, also when tried again, by more than the machine was late"),
        (counts.passed, "case", "passed"),
        (count(|state| matches!(state, State::Kept | State::Better)), "promise", "kept under faults"),
        (counts.not_judged, "case", late),
        (count(|state| matches!(state, State::NotJudged { .. })), "fault", late),
        (count(|state| matches!(state, State::Void { .. })), "fault", "not judged: no hold was under it"),
        (store.speed.lost(), "lock", "lost while it was measured: renewals came too late"),
    ];
    let parts = figures.into_iter().filter(|(figure, ..)| *figure > 0);
    let parts: Vec<String> = parts
        .map(|(figure, noun, words)| format!("{figure} {noun}{} {words}", if figure == 1 { "" } else { "s" }))
        .collect();
    if parts.is_empty() { "only its speed was measured".to_owned() } else { parts.join("; ") }
}

fn violations(report: &Report, store: &StoreReport) -> Vec<Violation> {
    let of = match &store.url {
        Some(url) => format!(" {}", shell_word(url)),
        None => format!(" --faults {}", shell_word(&store.name)),
    };
    let again =
        |filter: &str, seed: u64| format!("leasehold conformance{of} --filter {filter} --seed {seed:#x}");
    let failed = store.cases.iter().filter_map(|case| match &case.outcome {
        CaseOutcome::Failed { why } => Some(Violation {
            what: format!("{} {}: {}", case.id, case.property.replace('_', " "), first_line(why)),
            again: again(&case.id, report.seed),
        }),
        _ => None,
    });
    let broken = store.cells.iter().filter_map(|cell| match &cell.state {
        State::Broken { why } => Some(Violation {
            what: format!("under {}: {}", fault(cell.fault), first_line(why)),
            again: again(&slug(cell.fault), cell.seed),
        }),
        _ => None,
    });
    let measured = store.speed.violations().into_iter().map(|what| Violation { what, again: String::new() });
    failed.chain(broken).chain(measured).collect()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn points(store: &StoreReport, declared: &Declared) -> Vec<String> {
    let needs = if declared.reach == Reach::Network { "needs its server" } else { "no server needed" };
    let mut points = vec![format!("excludes {}; {needs}", reach(declared.reach))];
    points.extend(owners(store));
    let order = match declared.fairness {
        Fairness::Fifo => "waiters are served first come, first served",
        _ => "waiters are served in no order",
    };
    let turns = store.speed.hand_over_at(8).or(store.speed.hand_over.first());
    points.push(match turns {
        Some(turns) => format!(
            "hand-over with {} waiting: median {}, p99 {}; {order}",
            turns.waiters,
            time(turns.gap.p50_us),
            time(turns.gap.p99_us)
        ),
        None => order.to_owned(),
    });
    points.push(format!(
        "a hold is {}; tokens {}",
        hold(declared.hold, declared.crash_bound),
        token(declared.token)
    ));
    points.extend(store.findings.iter().cloned());
    points
}

/// After which faults one owner is not enough.
fn owners(store: &StoreReport) -> Vec<String> {
    let under = |outcome: Outcome| {
        let is_so = |each: &Fault| {
            UnderFault::of(store, *each).is_some_and(|seen| seen.outcome == outcome && *each != Fault::None)
        };
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
