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
    pub(crate) standing: Standing,
    /// The first sentence.
    pub(crate) headline: String,
    pub(crate) points: Vec<String>,
    /// The anchor of its evidence, if there is any.
    pub(crate) evidence: Option<String>,
}

/// What can be said of it at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Standing {
    /// All that was tried is as declared.
    Sound,
    /// Something was not.
    Broken,
    NotRun,
}

impl Standing {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Sound => "as declared",
            Self::Broken => "BROKEN",
            Self::NotRun => "not run",
        }
    }

    /// A shape for those who see no colours.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Sound => "●",
            Self::Broken => "✕",
            Self::NotRun => "□",
        }
    }
}

impl Card {
    pub(crate) fn tone(&self) -> Tone {
        match self.standing {
            Standing::Sound => Tone::Good,
            Standing::Broken => Tone::Bad,
            Standing::NotRun => Tone::Muted,
        }
    }
}

pub(crate) fn card(store: &StoreReport) -> Card {
    let standing = match &store.not_run {
        Some(_) => Standing::NotRun,
        None if store.is_broken() => Standing::Broken,
        None => Standing::Sound,
    };
    let has_evidence = !store.cells.is_empty() || store.counts().failed + store.counts().skipped > 0;
    Card {
        id: format!("store-{}", anchor(&store.name)),
        store: store.name.clone(),
        server: server(store),
        standing,
        headline: headline(store, standing),
        points: store.declared.as_ref().map_or_else(Vec::new, |declared| points(store, declared)),
        evidence: has_evidence.then(|| format!("evidence-{}", anchor(&store.name))),
    }
}

fn server(store: &StoreReport) -> String {
    let parts = [store.server.clone(), store.url.clone()];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

fn headline(store: &StoreReport, standing: Standing) -> String {
    let counts = store.counts();
    let kept = store.cells.iter().filter(|cell| matches!(cell.state, State::Kept | State::Better)).count();
    let mut parts = Vec::new();
    if counts.failed > 0 {
        parts.push(format!("{} of {} cases failed", counts.failed, counts.ran()));
    } else if counts.ran() > 0 {
        parts.push(format!("{} cases passed", counts.passed));
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
    match standing {
        Standing::NotRun => store.not_run.clone().unwrap_or_default(),
        _ if parts.is_empty() => "only its speed was measured".to_owned(),
        _ => parts.join("; "),
    }
}

fn points(store: &StoreReport, declared: &Declared) -> Vec<String> {
    let mut points = vec![place(declared)];
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

fn place(declared: &Declared) -> String {
    let reach_words = reach(declared.reach);
    match declared.reach {
        Reach::Network => format!("excludes {reach_words}; needs its server"),
        _ => format!("excludes {reach_words}; no server needed"),
    }
}

/// What becomes of the one owner, as far as it was seen, and as it is promised otherwise.
fn owners(store: &StoreReport) -> Vec<String> {
    let seen = store.cells.iter().any(|cell| cell.measured.is_some());
    let prefix = if seen { "" } else { "promised: " };
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
    let seen = store.cells.iter().any(|cell| cell.measured.is_some());
    let measured = store.cells.iter().filter_map(|cell| Some((cell.fault, cell.measured?)));
    let promises = store.declared.iter().flat_map(|declared| &declared.promises);
    let promised = promises.filter(move |_| !seen).map(|promise| (promise.fault, promise.outcome));
    let real =
        |(each, outcome): &(Fault, Outcome)| *each != Fault::None && *outcome != Outcome::NotApplicable;
    measured.chain(promised).filter(real)
}

fn faults_with(store: &StoreReport, test: impl Fn(&Cell) -> bool) -> Vec<String> {
    store.cells.iter().filter(|cell| test(cell)).map(|cell| fault(cell.fault)).collect()
}
