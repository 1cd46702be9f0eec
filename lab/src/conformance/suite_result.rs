use leasehold_conformance::{CaseResult, Tally};
use rustix::process::Signal;

/// What came of a run of the suite.
pub(super) struct SuiteResult {
    pub(super) results: Vec<CaseResult>,
    /// What ended it early.
    pub(super) signal: Option<Signal>,
}

impl SuiteResult {
    pub(super) fn is_success(&self) -> bool {
        self.signal.is_none() && Tally::count(&self.results).is_success()
    }
}
