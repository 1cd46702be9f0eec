use serde::{Deserialize, Serialize};

/// One case of the suite, against one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportedCase {
    /// `A02`.
    pub(crate) id: String,
    /// What is to hold, in snake case.
    pub(crate) property: String,
    pub(crate) outcome: ReportedOutcome,
    pub(crate) took_ms: u64,
}

/// How a case came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ReportedOutcome {
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
pub(crate) struct CaseCounts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl CaseCounts {
    pub(crate) fn of(cases: &[ReportedCase]) -> Self {
        let mut counts = Self::default();
        for case in cases {
            match case.outcome {
                ReportedOutcome::Passed => counts.passed += 1,
                ReportedOutcome::Failed { .. } => counts.failed += 1,
                ReportedOutcome::Skipped { .. } => counts.skipped += 1,
            }
        }
        counts
    }

    pub(crate) fn ran(self) -> usize {
        self.passed + self.failed
    }
}
