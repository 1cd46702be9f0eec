use crate::case::{Case, Harm};
use crate::stop::{Stop, Verdict};
use crate::time_scale::millis;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// How one case came out on one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaseResult {
    /// The subject: `redis`.
    pub subject: String,
    /// The case: `A02`.
    pub case: String,
    /// What it asks, in snake case.
    pub property: String,
    /// How it came out.
    pub outcome: CaseOutcome,
    /// How long it took, in milliseconds, the start of a server included.
    pub took_ms: u64,
    /// What its first attempt showed, if it was run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_first: Option<String>,
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "complete: a case passes, fails, is not judged or is skipped")]
#[allow(missing_docs, reason = "`why` is what was seen, or the reason")]
pub enum CaseOutcome {
    /// The subject has the property.
    Passed,
    /// It has not.
    Failed { why: String },
    /// A bound was missed, or what was waited for never came, and the delays of the machine do not explain it.
    Late { why: String },
    /// Nothing can be said of the subject: the machine was late, a server was not ready, or the case showed nothing.
    NotJudged { why: String },
    /// The property has no meaning here, or cannot be observed.
    Skipped { why: String },
}

/// How many came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tally {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Late.
    pub late: usize,
    /// Not judged.
    pub not_judged: usize,
    /// Skipped.
    pub skipped: usize,
}

impl CaseResult {
    pub(super) fn new(subject: &str, case: Case, verdict: Verdict, took: Duration) -> Self {
        Self {
            subject: subject.to_owned(),
            case: case.id.to_owned(),
            property: case.property.to_owned(),
            outcome: verdict.into(),
            took_ms: millis(took),
            at_first: None,
        }
    }

    /// Not put to a subject whose store others use.
    pub(super) fn spared(subject: &str, case: Case) -> Self {
        let reason = match case.harm {
            Harm::Others => "it would change what is not its own, in a store that others use",
            _ => "it is a load that others would feel, in a store that others use",
        };
        Self::new(subject, case, Err(Stop::Skipped(reason.to_owned())), Duration::ZERO)
    }

    /// The name of its line: `redis::A02_held_lock_refuses_a_second_holder_at_once`.
    pub fn name(&self) -> String {
        format!("{}::{}_{}", self.subject, self.case, self.property)
    }
}

impl From<Verdict> for CaseOutcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Ok(()) => Self::Passed,
            Err(Stop::Failed(why) | Stop::Absent(why) | Stop::Wrong(why)) => Self::Failed { why },
            Err(stop @ (Stop::Late(..) | Stop::Away(_))) => Self::Late { why: stop.into_reason() },
            Err(stop @ (Stop::NotJudged(_) | Stop::Void(_) | Stop::Missing(_))) => {
                Self::NotJudged { why: stop.into_reason() }
            }
            Err(Stop::Skipped(why)) => Self::Skipped { why },
        }
    }
}

impl Tally {
    /// Counts these.
    pub fn count<'a>(results: impl IntoIterator<Item = &'a CaseResult>) -> Self {
        results.into_iter().map(|result| &result.outcome).collect()
    }

    /// True if there was something to see, and nothing was wrong or left open: a run in which nothing ran is no success.
    pub fn is_success(self) -> bool {
        self.failed + self.late + self.not_judged == 0 && self.passed > 0
    }

    /// True if nothing failed or was late, and something is not judged.
    pub fn is_not_judged(self) -> bool {
        self.failed + self.late == 0 && self.not_judged > 0
    }
}

/// Why cases of these were skipped, the reason of most cases first, with their ids: what was not tested.
pub fn skipped_by_reason(results: &[CaseResult]) -> Vec<(&str, Vec<&str>)> {
    let mut reasons = BTreeMap::<&str, BTreeSet<&str>>::new();
    for result in results {
        if let CaseOutcome::Skipped { why } = &result.outcome {
            reasons.entry(why).or_default().insert(&result.case);
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().map(|(why, cases)| (why, Vec::from_iter(cases))).collect();
    reasons.sort_by_key(|(_, cases)| Reverse(cases.len()));
    reasons
}

impl<'a> FromIterator<&'a CaseOutcome> for Tally {
    fn from_iter<T: IntoIterator<Item = &'a CaseOutcome>>(outcomes: T) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            *match outcome {
                CaseOutcome::Passed => &mut tally.passed,
                CaseOutcome::Failed { .. } => &mut tally.failed,
                CaseOutcome::Late { .. } => &mut tally.late,
                CaseOutcome::NotJudged { .. } => &mut tally.not_judged,
                CaseOutcome::Skipped { .. } => &mut tally.skipped,
            } += 1;
        }
        tally
    }
}

/// `63 passed, 0 failed, 4 skipped`, and if there are any `, 1 late` and `, 2 not judged`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)?;
        for (count, word) in [(self.late, "late"), (self.not_judged, "not judged")] {
            if count > 0 {
                write!(f, ", {count} {word}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(outcome: CaseOutcome) -> CaseResult {
        let case = crate::cases::by_id("A02").unwrap();
        CaseResult { outcome, ..CaseResult::new("redis", case, Ok(()), Duration::from_micros(12_345)) }
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let failed = result(CaseOutcome::Failed { why: "two \"holders\"".to_owned() });
        let text = serde_json::to_string(&failed).unwrap();
        assert_eq!(
            text,
            r#"{"subject":"redis","case":"A02","property":"held_lock_refuses_a_second_holder_at_once","outcome":{"is":"failed","why":"two \"holders\""},"took_ms":12}"#
        );
        assert_eq!(serde_json::from_str::<CaseResult>(&text).unwrap(), failed);
        let again = CaseResult { at_first: Some("a late reply".to_owned()), ..failed.clone() };
        let text = serde_json::to_string(&again).unwrap();
        assert_eq!(serde_json::from_str::<CaseResult>(&text).unwrap(), again);
        assert_eq!(failed.name(), "redis::A02_held_lock_refuses_a_second_holder_at_once");
    }

    #[test]
    fn answer_that_never_came_is_late_and_says_so() {
        let of = |by| CaseOutcome::from(Err(Stop::Late("no grant".to_owned(), by)));
        assert_eq!(of(None), CaseOutcome::Late { why: "it never came: no grant".to_owned() });
        assert_eq!(of(Some(Duration::ZERO)), CaseOutcome::Late { why: "no grant".to_owned() });
    }

    #[test]
    fn run_in_which_nothing_ran_is_no_success() {
        let skipped = result(CaseOutcome::Skipped { why: "no server".to_owned() });
        let failed = result(CaseOutcome::Failed { why: "two holders".to_owned() });
        let passed = result(CaseOutcome::Passed);
        assert!(!Tally::count([]).is_success());
        assert!(!Tally::count([&skipped]).is_success());
        assert!(!Tally::count([&passed, &failed]).is_success());
        assert!(Tally::count([&passed, &skipped]).is_success());
        let all = Tally::count([&passed, &skipped, &failed, &passed]);
        assert_eq!(all.to_string(), "2 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn run_that_was_not_judged_is_neither_a_success_nor_a_failure() {
        let [late, open] =
            [CaseOutcome::Late { why: String::new() }, CaseOutcome::NotJudged { why: String::new() }];
        let told = |outcomes: &[&CaseOutcome]| {
            let tally: Tally = outcomes.iter().copied().collect();
            (tally.is_success(), tally.is_not_judged(), tally.to_string())
        };
        let passed = CaseOutcome::Passed;
        assert_eq!(
            told(&[&passed, &open]),
            (false, true, "1 passed, 0 failed, 0 skipped, 1 not judged".to_owned())
        );
        assert_eq!(
            told(&[&passed, &open, &late]),
            (false, false, "1 passed, 0 failed, 0 skipped, 1 late, 1 not judged".to_owned())
        );
    }

    #[test]
    fn verdict_becomes_an_outcome_of_its_own_kind() {
        let why = || "it".to_owned();
        let of = |stop| CaseOutcome::from(Err(stop));
        for failed in [Stop::Failed(why()), Stop::Absent(why()), Stop::Wrong(why())] {
            assert_eq!(of(failed), CaseOutcome::Failed { why: why() });
        }
        for open in [Stop::NotJudged(why()), Stop::Missing(why())] {
            assert_eq!(of(open), CaseOutcome::NotJudged { why: why() });
        }
        assert_eq!(of(Stop::Skipped(why())), CaseOutcome::Skipped { why: why() });
        assert_eq!(CaseOutcome::from(Ok(())), CaseOutcome::Passed);
    }

    #[test]
    fn success_has_nothing_late_and_a_failure_is_judged() {
        let why = String::new;
        let (late, open) = (CaseOutcome::Late { why: why() }, CaseOutcome::NotJudged { why: why() });
        let (passed, failed) = (CaseOutcome::Passed, CaseOutcome::Failed { why: why() });
        let of = |outcomes: &[&CaseOutcome]| {
            let tally: Tally = outcomes.iter().copied().collect();
            (tally.is_success(), tally.is_not_judged())
        };
        assert_eq!(of(&[&passed]), (true, false));
        assert_eq!(of(&[&passed, &late]), (false, false));
        assert_eq!(of(&[&open, &failed]), (false, false));
    }
}
