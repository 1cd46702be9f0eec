use serde::{Deserialize, Serialize};

/// One case of the suite, against one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseResult {
    /// `A02`.
    pub(crate) id: String,
    /// What is to hold, in snake case.
    pub(crate) property: String,
    pub(crate) outcome: CaseOutcome,
    pub(crate) took_ms: u64,
}

/// How a case came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum CaseOutcome {
    Passed,
    /// What was seen.
    Failed {
        why: String,
    },
    /// It has no meaning there, or was not to be run.
    Skipped {
        why: String,
    },
}

/// How many cases came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Counts {
    pub(crate) fn of(cases: &[CaseResult]) -> Self {
        let mut counts = Self::default();
        for case in cases {
            match case.outcome {
                CaseOutcome::Passed => counts.passed += 1,
                CaseOutcome::Failed { .. } => counts.failed += 1,
                CaseOutcome::Skipped { .. } => counts.skipped += 1,
            }
        }
        counts
    }

    pub(crate) fn ran(self) -> usize {
        self.passed + self.failed
    }
}
