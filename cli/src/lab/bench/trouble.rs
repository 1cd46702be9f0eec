//! What may end a pass: one row that the store has no room for, or the run.

use super::job::Done;
use crate::report::Failure;
use leasehold::{Error, ErrorKind};

/// What ended a pass.
pub(super) enum Trouble {
    /// The store has no room for this row; others may be smaller.
    OfRow(String),
    OfRun(Failure),
}

impl Trouble {
    /// Where there is nothing else to go on with.
    pub(super) fn of_all(self) -> Failure {
        match self {
            Self::OfRow(why) => Error::new(ErrorKind::Unavailable, why).into(),
            Self::OfRun(failure) => failure,
        }
    }
}

impl<E: Into<Failure>> From<E> for Trouble {
    fn from(failure: E) -> Self {
        Self::OfRun(failure.into())
    }
}

/// The error for an answer of another kind than the job asks for.
pub(super) fn instead(answer: Done) -> Trouble {
    match answer {
        Done::Failed { why } => Trouble::OfRow(why),
        _ => Trouble::OfRun(out_of_turn()),
    }
}

pub(super) fn out_of_turn() -> Failure {
    Error::new(ErrorKind::Closed, "a worker of the bench answered out of turn").into()
}
