use leasehold_conformance::{CaseResult, Tally};
use leasehold_console::exit::Code;
use rustix::process::Signal;

/// What came of a run of the suite.
pub(super) struct SuiteResult {
    pub(super) results: Vec<CaseResult>,
    /// What ended it early.
    pub(super) signal: Option<Signal>,
}

impl SuiteResult {
    pub(super) fn code(&self) -> Code {
        code_of(Tally::count(&self.results))
    }
}

/// A failure counts for more than a missed bound, and that for more than what was not judged.
pub(super) fn code_of(tally: Tally) -> Code {
    match tally {
        tally if tally.is_success() => Code::SUCCESS,
        tally if tally.is_not_judged() => Code::NOT_JUDGED,
        Tally { failed: 0, late: 1.., .. } => Code::LATE,
        _ => Code::FAILED,
    }
}
