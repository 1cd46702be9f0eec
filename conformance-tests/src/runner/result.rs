use crate::case::{Case, Harm};
use crate::stop::{Stop, Verdict};
use serde::{Deserialize, Serialize};
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
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "complete: a case passes, fails or is skipped")]
pub enum CaseOutcome {
    /// The subject has the property.
    Passed,
    /// It has not.
    Failed {
        /// What was seen.
        words: String,
    },
    /// The property has no meaning here, or cannot be observed.
    Skipped {
        /// Why.
        reason: String,
    },
}

/// How many came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tally {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
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
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
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
            Err(Stop::Failed(words)) => Self::Failed { words },
            Err(Stop::Skipped(reason)) => Self::Skipped { reason },
        }
    }
}

impl Tally {
    /// Counts these.
    pub fn count<'a>(results: impl IntoIterator<Item = &'a CaseResult>) -> Self {
        let mut tally = Self::default();
        for result in results {
            match result.outcome {
                CaseOutcome::Passed => tally.passed += 1,
                CaseOutcome::Failed { .. } => tally.failed += 1,
                CaseOutcome::Skipped { .. } => tally.skipped += 1,
            }
        }
        tally
    }

    /// True if there was something to see, and nothing was wrong: a run in which nothing ran is no success.
    pub fn is_success(self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

/// `63 passed, 0 failed, 4 skipped`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
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
        let failed = result(CaseOutcome::Failed { words: "two \"holders\"".to_owned() });
        let text = serde_json::to_string(&failed).unwrap();
        assert_eq!(
            text,
            r#"{"subject":"redis","case":"A02","property":"held_lock_refuses_a_second_holder_at_once","outcome":{"is":"failed","words":"two \"holders\""},"took_ms":12}"#
        );
        assert_eq!(serde_json::from_str::<CaseResult>(&text).unwrap(), failed);
        assert_eq!(failed.name(), "redis::A02_held_lock_refuses_a_second_holder_at_once");
    }

    #[test]
    fn run_in_which_nothing_ran_is_no_success() {
        let skipped = result(CaseOutcome::Skipped { reason: "no server".to_owned() });
        let failed = result(CaseOutcome::Failed { words: "two holders".to_owned() });
        let passed = result(CaseOutcome::Passed);
        assert!(!Tally::count([]).is_success());
        assert!(!Tally::count([&skipped]).is_success());
        assert!(!Tally::count([&passed, &failed]).is_success());
        assert!(Tally::count([&passed, &skipped]).is_success());
        let all = Tally::count([&passed, &skipped, &failed, &passed]);
        assert_eq!(all.to_string(), "2 passed, 1 failed, 1 skipped");
    }
}
