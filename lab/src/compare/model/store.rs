use super::{ReportedCase, Speed};
use leasehold::semantics::{
    CrashBound, ExpiryClock, Fairness, Fault, HoldKind, LossSignal, Outcome, Reach, Semantics, Sharing,
    TokenClass, WakeUp,
};
use leasehold_conformance::Tally;
use leasehold_conformance::matrix::{Cell, State};
use serde::{Deserialize, Serialize};

/// One store: what it declares, and what was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreReport {
    /// Its name in this report: `redis-sentinel`.
    pub(crate) name: String,
    /// Without a password; `None` if it was a private one, which is gone.
    pub(crate) url: Option<String>,
    /// What the server calls itself, if there is one and it tells.
    pub(crate) server: Option<String>,
    /// Why nothing of it was measured; `None` if something was.
    pub(crate) not_run: Option<NotRun>,
    pub(crate) declared: Option<Declared>,
    /// What `leasehold config check` finds in it.
    pub(crate) findings: Vec<String>,
    pub(crate) cases: Vec<ReportedCase>,
    /// What was seen under faults.
    pub(crate) cells: Vec<Cell>,
    pub(crate) speed: Speed,
}

/// Why nothing of a store was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotRun {
    pub(crate) why: String,
    /// True if its server is there, and was not ready in time: nothing can be said of it then.
    pub(crate) is_late: bool,
}

/// What a run says of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All that was tried is as declared.
    AsDeclared,
    /// Something was seen that its declaration does not allow.
    Broken,
    /// A bound was missed twice, although the machine was on time.
    Late,
    /// The machine was late, the server was not ready in time, or a fault touched nothing.
    NotJudged,
    /// It is not there.
    NotRun,
}

/// What a backend declares of itself in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Declared {
    pub(crate) backend: String,
    pub(crate) mode: String,
    pub(crate) reach: Reach,
    pub(crate) hold: HoldKind,
    pub(crate) expiry_clock: ExpiryClock,
    pub(crate) fairness: Fairness,
    pub(crate) sharing: Sharing,
    /// True if the store tells a waiter; otherwise the waiter asks.
    pub(crate) push: bool,
    /// The longest time from a free lock to a waiter's next question, if every message is lost.
    pub(crate) asks_within_ms: u64,
    pub(crate) loss_signal: LossSignal,
    pub(crate) crash_bound: CrashBound,
    pub(crate) token: TokenClass,
    pub(crate) promises: Vec<Promise>,
}

/// What is promised under one fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Promise {
    pub(crate) fault: Fault,
    pub(crate) outcome: Outcome,
}

impl StoreReport {
    /// An empty report, for a store of which nothing is known yet.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: None,
            server: None,
            not_run: None,
            declared: None,
            findings: Vec::new(),
            cases: Vec::new(),
            cells: Vec::new(),
            speed: Speed::default(),
        }
    }

    pub(crate) fn counts(&self) -> Tally {
        self.cases.iter().map(|case| &case.outcome).collect()
    }

    /// True if any fault was made in it.
    pub(crate) fn was_tried(&self) -> bool {
        self.cells.iter().any(|cell| cell.measured.is_some())
    }

    pub(crate) fn cell(&self, fault: Fault) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.fault == fault)
    }

    /// True if anything was measured at all.
    pub(crate) fn has_figures(&self) -> bool {
        let counts = self.counts();
        counts.passed + counts.failed > 0
            || !self.speed.pairs.is_empty()
            || !self.speed.hand_over.is_empty()
            || self.was_tried()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let broken = self.cells.iter().any(|cell| matches!(cell.state, State::Broken { .. }));
        match &self.not_run {
            Some(NotRun { is_late: true, .. }) => Verdict::NotJudged,
            Some(_) => Verdict::NotRun,
            None if self.counts().failed > 0 || broken || !self.speed.violations().is_empty() => {
                Verdict::Broken
            }
            None if self.counts().late > 0 => Verdict::Late,
            None if self.not_judged() > 0 => Verdict::NotJudged,
            None => Verdict::AsDeclared,
        }
    }

    /// How many cases, faults and held locks are not judged: the machine was too late, or a fault touched nothing.
    pub(crate) fn not_judged(&self) -> usize {
        let is_not_judged = |cell: &&Cell| matches!(cell.state, State::NotJudged { .. } | State::Void { .. });
        self.counts().not_judged + self.cells.iter().filter(is_not_judged).count() + self.speed.lost()
    }

    pub(crate) fn serves_readers(&self) -> bool {
        self.declared.as_ref().is_some_and(|declared| declared.sharing != Sharing::Unsupported)
    }

    pub(crate) fn reach(&self) -> Option<Reach> {
        self.declared.as_ref().map(|declared| declared.reach)
    }
}

impl Declared {
    pub(crate) fn of(semantics: &Semantics) -> Self {
        let promises = semantics.promises.iter().map(|(fault, outcome)| Promise { fault, outcome });
        Self {
            backend: semantics.backend.to_owned(),
            mode: semantics.mode.to_owned(),
            reach: semantics.reach,
            hold: semantics.hold,
            expiry_clock: semantics.expiry_clock,
            fairness: semantics.fairness,
            sharing: semantics.sharing,
            push: matches!(semantics.wake_up, WakeUp::Push { .. }),
            asks_within_ms: u64::try_from(semantics.wake_up.bound().as_millis()).unwrap_or(u64::MAX),
            loss_signal: semantics.loss_signal,
            crash_bound: semantics.crash_bound,
            token: semantics.token,
            promises: promises.collect(),
        }
    }

    pub(crate) fn under(&self, fault: Fault) -> Option<Outcome> {
        self.promises.iter().find(|promise| promise.fault == fault).map(|promise| promise.outcome)
    }
}
