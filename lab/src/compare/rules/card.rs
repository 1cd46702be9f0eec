//! The verdict on one store, in words.

use crate::compare::model::{Declared, StoreReport};
use crate::format::{Tone, anchor, fault, hold, list, reach, time, token};
use leasehold::semantics::{Fairness, Fault, Outcome, Reach};
use leasehold_conformance::matrix::{Cell, State};
use serde::Serialize;

/// One store, in a few sentences.
#[derive(Debug, Serialize)]
pub(crate) struct Card {
    pub(crate) id: String,
    pub(crate) store: String,
    /// What answered: its version and address, as far as known.
    pub(crate) server: String,
    /// `as declared`, `BROKEN`, `late`, `not judged` or `not run`.
    pub(crate) words: &'static str,
    /// A shape for those who see no colours.
    pub(crate) mark: &'static str,
    pub(crate) tone: Tone,
    /// The first sentence.
    pub(crate) headline: String,
    pub(crate) points: Vec<String>,
    /// The anchor of its evidence, if there is any.
    pub(crate) evidence: Option<String>,
}

pub(crate) fn card(store: &StoreReport) -> Card {
    let (words, mark, tone) = match &store.not_run {
        Some(_) => ("not run", "□", Tone::Muted),
        None if store.is_broken() => ("BROKEN", "✕", Tone::Bad),
        None if store.counts().late > 0 => ("late", "△", Tone::Bad),
        None if store.not_judged() > 0 => ("not judged", "□", Tone::Muted),
        None => ("as declared", "●", Tone::Good),
    };
    let has_evidence = !store.cells.is_empty() || store.cases.len() > store.counts().passed;
    Card {
        id: format!("store-{}", anchor(&store.name)),
        store: store.name.clone(),
        server: [&store.server, &store.url].into_iter().flatten().cloned().collect::<Vec<_>>().join(", "),
        words,
        mark,
        tone,
        headline: store.not_run.clone().unwrap_or_else(|| headline(store)),
        points: store.declared.as_ref().map_or_else(Vec::new, |declared| points(store, declared)),
        evidence: has_evidence.then(|| format!("evidence-{}", anchor(&store.name))),
    }
}

fn headline(store: &StoreReport) -> String {
    let counts = store.counts();
    let kept = store.cells.iter().filter(|cell| matches!(cell.state, State::Kept | State::Better)).count();
    let mut parts = Vec::new();
    if counts.failed > 0 {
        parts.push(format!("{} of {} cases failed", counts.failed, counts.passed + counts.failed));
    } else if counts.passed > 0 {
        parts.push(format!("{} cases passed", counts.passed));
    }
    if counts.late > 0 {
        parts.push(format!("{} bounds missed twice", counts.late));
    }
    if store.not_judged() > 0 {
        parts.push(format!("{} not judged, because the machine was late", store.not_judged()));
    }
    let broken = faults_with(store, |cell| matches!(cell.state, State::Broken { .. }));
    let void = faults_with(store, |cell| matches!(cell.state, State::Void { .. }));
    if !broken.is_empty() {
        parts.push(format!("promise broken under {}", list(&broken, 4)));
    }
    if !void.is_empty() {
        parts.push(format!("nothing shown under {}", list(&void, 4)));
    }
    if kept > 0 {
        parts.push(format!("{kept} promises kept under faults"));
    }
    if store.speed.is_broken() {
        parts.push("two holders, a lost hold or a stale token while it was measured".to_owned());
    }
    if parts.is_empty() { "only its speed was measured".to_owned() } else { parts.join("; ") }
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
    points
}

/// What becomes of the one owner, as far as it was seen, and as it is promised otherwise.
fn owners(store: &StoreReport) -> Vec<String> {
    let prefix = if store.was_tried() { "" } else { "promised: " };
    let under =
        |outcome| known(store).filter(move |(_, known)| *known == outcome).map(|(each, _)| fault(each));
    let one = |outcome| under(outcome).collect::<Vec<String>>();
    let (holds, fenced, away, breaks) =
        (one(Outcome::Holds), one(Outcome::FencedOnly), one(Outcome::Unavailable), one(Outcome::MayBreak));
    let all = holds.len() + fenced.len() + away.len() + breaks.len();
    if all == 0 {
        return Vec::new();
    }
    let mut points = vec![format!("{prefix}one owner under {} of {all} faults", holds.len() + away.len())];
    if !fenced.is_empty() {
        points.push(format!("{prefix}needs the token after: {}", list(&fenced, 4)));
    }
    if !breaks.is_empty() {
        points.push(format!("{prefix}not even the token helps after: {}", list(&breaks, 4)));
    }
    points
}

/// Each fault that can happen to it, with what was seen, or, if no fault was made at all, what is promised.
pub(super) fn known(store: &StoreReport) -> impl Iterator<Item = (Fault, Outcome)> {
    let measured = store.cells.iter().filter_map(|cell| Some((cell.fault, cell.measured?)));
    let promises = store.declared.iter().flat_map(|declared| &declared.promises);
    let promised =
        promises.filter(move |_| !store.was_tried()).map(|promise| (promise.fault, promise.outcome));
    let real =
        |(each, outcome): &(Fault, Outcome)| *each != Fault::None && *outcome != Outcome::NotApplicable;
    measured.chain(promised).filter(real)
}

fn faults_with(store: &StoreReport, test: impl Fn(&Cell) -> bool) -> Vec<String> {
    store.cells.iter().filter(|cell| test(cell)).map(|cell| fault(cell.fault)).collect()
}
