use super::model::Model;
use std::fmt;
use std::time::Duration;

/// What a history can break. Each is checked for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// M1: no two holds that conflict at a time, in the order of the tokens; no more permits of a semaphore than it has.
    Exclusion,
    /// F2: no two grants have the same token.
    TokenUnique,
    /// F1: a grant that begins after another was answered has the larger token.
    TokenOrder,
    /// M2: no two holders that conflict believe at the same moment.
    Belief,
    /// M3: a resource that looks at tokens accepts no writer after a newer holder and no reader after a newer writer, and loses no
    /// update.
    Effects,
    /// O1, O2: no release and no renewal is confirmed to somebody who is not the owner.
    OwnerOnly,
    /// O3: no renewal and no release of a lease that is certainly over is confirmed.
    Resurrection,
    /// C1: nobody is told that a lock is held that nobody can have held.
    Refusal,
    /// L2: an acquisition with a deadline ends by it.
    Deadline,
    /// L3: a lock that is free does not stay so while somebody waits.
    WakeUp,
    /// L1: a killed holder is replaced within its bound.
    Crash,
    /// L4: where it is declared, first come, first served; no readers before a writer that waits.
    Order,
}

impl Rule {
    /// True if a lock keeps it that may have two owners, as long as its tokens grow: what tokens promise, and what the
    /// client does by itself.
    fn is_kept_by_two(self) -> bool {
        matches!(self, Self::TokenUnique | Self::TokenOrder | Self::Effects | Self::Deadline)
    }
}

/// One place where a history breaks a rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The lock, or the resource.
    pub name: String,
    /// When it was certain, in the time of the history.
    pub at: u64,
    /// The operations that show it: process, and number in it.
    pub operations: Vec<(u32, u64)>,
    /// How.
    pub what: String,
}

/// What was measured, whether or not it breaks a rule.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Measured {
    /// Acquisitions.
    pub acquisitions: usize,
    /// Grants that were answered.
    pub grants: usize,
    /// Attempts that met a holder: refused, or granted after a wait.
    pub contended: usize,
    /// Acquisitions whose outcome nobody knows.
    pub unknown: usize,
    /// The longest time for which two holders believed at once.
    pub belief_overlap: Duration,
    /// The longest time from a holder's death to the next grant, and how many there were.
    pub detection: Option<(Duration, usize)>,
    /// Updates of counters that look at tokens: accepted, refused, lost.
    pub fenced: Updates,
    /// Updates of counters that do not.
    pub plain: Updates,
}

/// What became of the updates of counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updates {
    /// Written.
    pub accepted: usize,
    /// Refused for their token.
    pub refused: usize,
    /// Written, and overwritten by somebody who had not seen them.
    pub lost: usize,
}

/// What a history shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "complete: right, wrong, or no evidence")]
pub enum Validity {
    /// It is the history of a lock.
    Accepted,
    /// It is not.
    Rejected,
    /// It breaks no rule, and shows nothing.
    Void,
}

/// What comes of a check.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Where it breaks a rule. For each rule the first [`CheckReport::SHOWN`]; [`count`](Self::count) has all.
    pub violations: Vec<Violation>,
    /// What was measured.
    pub measured: Measured,
    /// Why it shows nothing, if it does not.
    pub void: Vec<String>,
    counts: Vec<(Rule, usize)>,
    /// As [`Model::fenced_only`].
    fenced_only: Vec<(u64, u64)>,
}

impl CheckReport {
    /// How many violations of each rule are kept.
    pub const SHOWN: usize = 10;

    pub(super) fn against(model: &Model) -> Self {
        Self { fenced_only: model.fenced_only.clone(), ..Self::default() }
    }

    /// What the history shows.
    pub fn validity(&self) -> Validity {
        match (self.violations.is_empty(), self.void.is_empty()) {
            (false, _) => Validity::Rejected,
            (true, false) => Validity::Void,
            (true, true) => Validity::Accepted,
        }
    }

    /// True if the history is [`Accepted`](Validity::Accepted).
    pub fn is_accepted(&self) -> bool {
        self.validity() == Validity::Accepted
    }

    /// How often a rule is broken.
    pub fn count(&self, rule: Rule) -> usize {
        self.counts.iter().find(|(other, _)| *other == rule).map_or(0, |(_, count)| *count)
    }

    /// Counts a violation, unless two owners were possible then and the rule is kept by one. The first of each rule are kept.
    pub(super) fn broken(
        &mut self,
        rule: Rule,
        name: &str,
        at: u64,
        operations: &[(u32, u64)],
        what: impl FnOnce() -> String,
    ) {
        if !rule.is_kept_by_two() && self.fenced_only.iter().any(|(from, to)| (*from..=*to).contains(&at)) {
            return;
        }
        let place = self.counts.iter().position(|(other, _)| *other == rule);
        let place = place.unwrap_or_else(|| {
            self.counts.push((rule, 0));
            self.counts.len() - 1
        });
        self.counts[place].1 += 1;
        if self.counts[place].1 <= Self::SHOWN {
            let (name, operations) = (name.to_owned(), operations.to_vec());
            self.violations.push(Violation { rule, name, at, operations, what: what() });
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { acquisitions, grants, contended, unknown, .. } = &self.measured;
        write!(
            f,
            "{:?}: {acquisitions} acquisitions, {grants} granted, {contended} contended, {unknown} unknown",
            self.validity()
        )?;
        for (rule, count) in &self.counts {
            write!(f, "\n  {rule:?} broken {count} times")?;
        }
        for violation in &self.violations {
            write!(f, "\n  {violation}")?;
        }
        self.void.iter().try_for_each(|reason| write!(f, "\n  void: {reason}"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, name, at, operations, what } = self;
        write!(f, "{rule:?} of {name:?} at {at}: {what} (process, op: {operations:?})")
    }
}
