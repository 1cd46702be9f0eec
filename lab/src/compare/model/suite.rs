use leasehold_conformance::CaseOutcome;
use serde::{Deserialize, Serialize};

/// One case of the suite, against one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportedCase {
    /// `A02`.
    pub(crate) id: String,
    /// What is to hold, in snake case.
    pub(crate) property: String,
    pub(crate) outcome: CaseOutcome,
    pub(crate) took_ms: u64,
}
