//! What may end a pass: one row that the store has no room for, or the run.

use super::job::JobResult;
use leasehold::{Error, ErrorKind};
use leasehold_console::Failure;

/// What ended a pass.
pub(super) enum PassError {
    /// The store has no room for this row; others may be smaller.
    Row(String),
    Run(Failure),
}

impl PassError {
    /// Where there is nothing else to go on with.
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Row(why) => Error::new(ErrorKind::Unavailable, why).into(),
            Self::Run(failure) => failure,
        }
    }
}

impl<E: Into<Failure>> From<E> for PassError {
    fn from(failure: E) -> Self {
        Self::Run(failure.into())
    }
}

/// The error for an answer of another kind than the job asks for.
pub(super) fn unexpected(answer: JobResult) -> PassError {
    match answer {
        JobResult::Failed { why } => PassError::Row(why),
        _ => PassError::Run(out_of_turn()),
    }
}

pub(super) fn out_of_turn() -> Failure {
    Error::new(ErrorKind::Closed, "a worker of the bench answered out of turn").into()
}
