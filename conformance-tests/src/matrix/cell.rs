use crate::lateness::Lateness;
use crate::runner::{CaseOutcome, CaseResult};
use crate::stop::Stop;
use leasehold_core::{Fault, Outcome};
use serde::{Deserialize, Serialize};

/// One fault under one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cell {
    /// The subject: `redis-sentinel`.
    pub subject: String,
    /// The fault.
    pub fault: Fault,
    /// True if the holder is a reader of a shared lock. The other clients are exclusive in every cell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reader: bool,
    /// What the store promises under it.
    pub promised: Outcome,
    /// What was seen; `None` where nothing was.
    pub measured: Option<Outcome>,
    /// How the two agree.
    pub state: State,
    /// How the fault was made, and what came of it, in a sentence.
    pub words: String,
    /// What was measured.
    pub figures: Figures,
    /// What the random choices were made from.
    pub seed: u64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

impl Cell {
    /// A cell of which nothing is known yet.
    pub(super) fn new(subject: &str, fault: Fault, reader: bool, seed: u64) -> Self {
        Self {
            subject: subject.to_owned(),
            fault,
            reader,
            promised: Outcome::NotApplicable,
            measured: None,
            state: State::NotRun { why: String::new() },
            words: String::new(),
            figures: Figures::default(),
            seed,
            took_ms: 0,
        }
    }

    /// The name of its line: `redis::fault_store-paused`, `redis::fault_store-paused_under_a_reader`.
    pub fn name(&self) -> String {
        let under = if self.reader { "_under_a_reader" } else { "" };
        cell_name(&self.subject, self.fault) + under
    }
}

/// The name of the line of a subject under a fault: `redis::fault_store-paused`.
pub fn cell_name(subject: &str, fault: Fault) -> String {
    format!("{subject}::fault_{}", word(fault))
}

/// `store-paused`.
fn word(fault: Fault) -> String {
    let value = serde_json::to_value(fault).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Among the results of cases: what broke has failed, what showed nothing is not judged, what was not made is skipped.
impl From<&Cell> for CaseResult {
    fn from(cell: &Cell) -> Self {
        let outcome = match &cell.state {
            State::Kept | State::Better => CaseOutcome::Passed,
            State::Broken { why } => CaseOutcome::Failed { why: why.clone() },
            State::Late { why } => CaseOutcome::Late { why: why.clone() },
            State::Void { why } => CaseOutcome::NotJudged { why: format!("it shows nothing: {why}") },
            State::NotJudged { why } => CaseOutcome::NotJudged { why: why.clone() },
            State::NotRun { why } => CaseOutcome::Skipped { why: why.clone() },
            State::NotApplicable { why } => CaseOutcome::Skipped { why: format!("not applicable: {why}") },
        };
        let (subject, case, property) = (cell.subject.clone(), "fault".to_owned(), word(cell.fault));
        Self { subject, case, property, outcome, took_ms: cell.took_ms, at_first: None }
    }
}

/// How a promise and what was seen agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "complete: the verdicts of a cell")]
#[allow(missing_docs, reason = "`why` is what was seen, what was missing, or the reason")]
pub enum State {
    /// What was seen is what is promised.
    Kept,
    /// More was seen than is promised: the promise may be too small, or the fault too weak.
    Better,
    /// Less was seen than is promised.
    Broken { why: String },
    /// A bound of time was missed, and again when the fault was made anew, although this machine was on time.
    Late { why: String },
    /// The fault touched nothing: no hold overlapped it. It shows nothing, so the store is not judged.
    Void { why: String },
    /// Nothing can be said of the store: this machine was late, or a server was not ready in time.
    NotJudged { why: String },
    /// It can happen, and cannot be made on this machine.
    NotRun { why: String },
    /// It cannot happen to this store.
    NotApplicable {
        /// Why not. Empty where an earlier run did not say.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        why: String,
    },
}

impl State {
    /// The state of a cell that could not be played to its end; a machine that was late excuses some of it.
    pub(super) fn of(stop: Stop, late: Lateness) -> Self {
        match late.excuse(stop) {
            Stop::Skipped(why) | Stop::Missing(why) => Self::NotRun { why },
            Stop::Failed(why) | Stop::Absent(why) | Stop::Wrong(why) => Self::Broken { why },
            stop @ (Stop::Late(..) | Stop::Away(_)) => Self::Late { why: stop.into_reason() },
            stop @ (Stop::NotJudged(_) | Stop::Void(_)) => Self::NotJudged { why: stop.into_reason() },
        }
    }
}

/// What was measured in one cell. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Figures {
    /// How often the fault was made.
    pub trials: u64,
    /// Grants that were answered.
    pub grants: u64,
    /// M1: grants of a name that, to the store, somebody else still held.
    pub two_holders: u64,
    /// M2: the longest time for which two holders believed at once.
    pub belief_overlap_ms: f64,
    /// M3: updates lost by a resource that checks tokens.
    pub fenced_lost: u64,
    /// Updates lost by a resource that does not.
    pub plain_lost: u64,
    /// F1, F2: tokens that were given twice, or were smaller than an earlier one.
    pub tokens_repeated: u64,
    /// The longest time for which nobody could have the lock.
    pub unavailable_ms: f64,
    /// From the fault to the moment at which its holder knew; `None` where nobody lost anything.
    pub detected_ms: Option<f64>,
    /// From the fault to the next grant.
    pub recovered_ms: Option<f64>,
    /// Records that were left when all was over, beyond those that are declared.
    pub residue: u64,
}

impl Figures {
    /// True if the holder was told that it lost, or somebody else got what it held.
    pub fn lost_something(&self) -> bool {
        self.detected_ms.is_some() || self.recovered_ms.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cell(state: State) -> Cell {
        Cell { state, ..Cell::new("redis", Fault::StorePaused, false, 7) }
    }

    #[test]
    fn broken_cell_is_a_failed_case_and_a_void_one_is_not_judged() {
        let why = || "two holders".to_owned();
        let result = CaseResult::from(&cell(State::Broken { why: why() }));
        assert_eq!((result.name(), &*result.property), (cell(State::Kept).name(), "store-paused"));
        assert_eq!(result.outcome, CaseOutcome::Failed { why: why() });
        let outcome = |state| CaseResult::from(&cell(state)).outcome;
        assert_eq!(
            outcome(State::of(Stop::Late(why(), None), Lateness::default())),
            CaseOutcome::Late { why: "it never came: two holders".to_owned() }
        );
        assert!(matches!(outcome(State::Void { why: why() }), CaseOutcome::NotJudged { .. }));
        assert!(matches!(outcome(State::NotRun { why: why() }), CaseOutcome::Skipped { .. }));
        assert!(matches!(outcome(State::NotApplicable { why: why() }), CaseOutcome::Skipped { .. }));
        assert_eq!(outcome(State::Better), CaseOutcome::Passed);
    }

    #[test]
    fn state_of_an_earlier_run_may_lack_its_reason() {
        let read = serde_json::from_str::<State>(r#"{"is":"not-applicable"}"#).unwrap();
        assert_eq!(read, State::NotApplicable { why: String::new() });
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"is":"not-applicable"}"#);
    }

    #[test]
    fn cell_that_could_not_be_played_is_told_apart_by_its_cause() {
        let why = || "it".to_owned();
        let of = |stop| State::of(stop, Lateness::default());
        for broken in [Stop::Failed(why()), Stop::Absent(why()), Stop::Wrong(why())] {
            assert_eq!(of(broken), State::Broken { why: why() });
        }
        assert_eq!(of(Stop::NotJudged(why())), State::NotJudged { why: why() });
        assert_eq!(of(Stop::Void(why())), State::NotJudged { why: "void: it".to_owned() });
        for unmade in [Stop::Skipped(why()), Stop::Missing(why())] {
            assert_eq!(of(unmade), State::NotRun { why: why() });
        }
        let outcome = CaseResult::from(&cell(State::NotJudged { why: why() })).outcome;
        assert_eq!(outcome, CaseOutcome::NotJudged { why: why() });
        // A lease that was not renewed in time by a machine that was late says nothing of the store.
        assert_eq!(of(Stop::Away(why())), State::Late { why: why() });
        let (most, window) = (Duration::from_millis(100), Duration::from_millis(500));
        let late = State::of(Stop::Away(why()), Lateness { most, window, ..Lateness::default() });
        assert!(matches!(late, State::NotJudged { .. }), "{late:?}");
    }
}
