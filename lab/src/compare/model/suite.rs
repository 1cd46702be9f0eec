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
