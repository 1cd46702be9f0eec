use super::model::Model;
use crate::stop::{Stop, Verdict};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What a history can break. Each is checked for itself, because a lock that forgets its tokens is not one that has two owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rule {
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
    /// True if a delay of the machine breaks it: it bounds a time.
    fn is_of_time(self) -> bool {
        matches!(self, Self::Deadline | Self::WakeUp | Self::Crash)
    }

    /// True if a lock keeps it that may have two owners, as long as its tokens grow: what tokens promise, and what the
    /// client does by itself.
    fn is_kept_by_two(self) -> bool {
        matches!(self, Self::TokenUnique | Self::TokenOrder | Self::Effects | Self::Deadline)
    }
}

/// One place where a history breaks a rule.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    /// The lock, or the resource.
    pub(crate) name: String,
    /// When it was certain, in the time of the history.
    pub(crate) at: u64,
    /// The operations that show it: process, and number in it.
    pub(crate) operations: Vec<(u32, u64)>,
    pub(crate) what: String,
}

/// What was measured, whether or not it breaks a rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) acquisitions: usize,
    /// Grants that were answered.
    pub(crate) grants: usize,
    /// Attempts that met a holder: refused, or granted after a wait.
    pub(crate) contended: usize,
    /// Acquisitions whose outcome nobody knows.
    pub(crate) unknown: usize,
    /// The longest time for which two holders believed at once.
    pub(crate) belief_overlap: Duration,
    /// Updates of counters that look at tokens.
    pub(crate) fenced: Updates,
    /// Updates of counters that do not.
    pub(crate) plain: Updates,
}

/// What became of the updates of counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Updates {
    pub(crate) accepted: usize,
    /// Refused for their token.
    pub(crate) refused: usize,
    /// Written, and overwritten by somebody who had not seen them.
    pub(crate) lost: usize,
}

/// What comes of a check.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckReport {
    /// Where it breaks a rule: for each rule the first [`SHOWN`](Self::SHOWN).
    pub(crate) violations: Vec<Violation>,
    pub(crate) measured: Measured,
    /// Why it shows nothing, if it does not.
    pub(crate) void: Vec<String>,
    counts: BTreeMap<Rule, usize>,
    /// As [`Model::fenced_only`].
    fenced_only: Vec<(u64, u64)>,
}

impl CheckReport {
    /// How many violations of each rule are kept.
    const SHOWN: usize = 10;

    pub(super) fn against(model: &Model) -> Self {
        Self { fenced_only: model.fenced_only.clone(), ..Self::default() }
    }

    /// True if it is the history of a lock, and shows something.
    pub(crate) fn is_accepted(&self) -> bool {
        self.violations.is_empty() && self.void.is_empty()
    }

    /// What it is to a case, in these words: repeated tokens count for more than two owners, and those for more than a bound of time,
    /// which was missed by at least the `room` that the model leaves to the machine.
    pub(crate) fn verdict(&self, words: String, room: Duration) -> Verdict {
        let has_repeated = [Rule::TokenUnique, Rule::TokenOrder].iter().any(|rule| self.count(*rule) > 0);
        match () {
            () if self.is_accepted() => Ok(()),
            () if has_repeated => Err(Stop::Wrong(words)),
            () if self.counts.is_empty() => Err(Stop::Void(words)),
            () if self.counts.keys().all(|rule| rule.is_of_time()) => Err(Stop::Late(words, Some(room))),
            () => Err(Stop::Failed(words)),
        }
    }

    /// How often a rule is broken.
    pub(crate) fn count(&self, rule: Rule) -> usize {
        self.counts.get(&rule).copied().unwrap_or_default()
    }

    /// Counts a violation, unless two owners were possible then and the rule is kept by one. The first of each rule are kept.
    pub(crate) fn broken(
        &mut self,
        rule: Rule,
        name: &str,
        at: u64,
        operations: &[(u32, u64)],
        what: String,
    ) {
        if !rule.is_kept_by_two() && self.fenced_only.iter().any(|(from, to)| (*from..=*to).contains(&at)) {
            return;
        }
        let count = self.counts.entry(rule).or_default();
        *count += 1;
        if *count <= Self::SHOWN {
            let (name, operations) = (name.to_owned(), operations.to_vec());
            self.violations.push(Violation { rule, name, at, operations, what });
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { acquisitions, grants, contended, unknown, .. } = &self.measured;
        let verdict = match (self.violations.is_empty(), self.void.is_empty()) {
            (false, _) => "Rejected",
            (true, false) => "Void",
            (true, true) => "Accepted",
        };
        write!(
            f,
            "{verdict}: {acquisitions} acquisitions, {grants} granted, {contended} contended, {unknown} unknown"
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

#[cfg(test)]
mod tests {
    use super::*;
    use Rule::{Belief, Crash, Deadline, Effects, Exclusion, Order, OwnerOnly, Refusal, Resurrection};
    use Rule::{TokenOrder, TokenUnique, WakeUp};

    const OF_OWNERS: [Rule; 7] = [Exclusion, Belief, Effects, OwnerOnly, Resurrection, Refusal, Order];

    #[test]
    fn broken_rule_is_wrong_late_or_a_failure_and_an_empty_history_is_void() {
        let of = |rules: &[Rule], void: &[&str]| {
            let void = void.iter().map(|why| (*why).to_owned()).collect();
            let mut report = CheckReport { void, ..CheckReport::default() };
            rules.iter().for_each(|rule| report.broken(*rule, "lock", 7, &[], String::new()));
            report.verdict("seen".to_owned(), Duration::from_secs(2))
        };
        assert!(of(&[], &[]).is_ok());
        assert!(matches!(of(&[], &["3 grants"]), Err(Stop::Void(why)) if why == "seen"));
        for token in [TokenUnique, TokenOrder] {
            let stop = of(&[Exclusion, token, WakeUp], &["3 grants"]);
            assert!(matches!(stop, Err(Stop::Wrong(_))), "{token:?}: {stop:?}");
        }
        let stop = of(&[Deadline, WakeUp, Crash], &["3 grants"]);
        assert!(matches!(stop, Err(Stop::Late(_, Some(by))) if by == Duration::from_secs(2)));
        for rule in OF_OWNERS {
            assert!(matches!(of(&[rule, WakeUp], &[]), Err(Stop::Failed(_))), "{rule:?}");
        }
    }

    #[test]
    fn rule_that_two_owners_keep_counts_also_while_two_are_possible() {
        let counted = |rule| {
            let mut report = CheckReport { fenced_only: vec![(5, 9)], ..CheckReport::default() };
            [5, 9, 10].iter().for_each(|at| report.broken(rule, "lock", *at, &[], String::new()));
            report.count(rule)
        };
        assert_eq!([TokenUnique, TokenOrder, Effects, Deadline].map(counted), [3; 4]);
        let excused = [Exclusion, Belief, OwnerOnly, Resurrection, Refusal, WakeUp, Crash, Order];
        assert_eq!(excused.map(counted), [1; 8]);
    }
}
