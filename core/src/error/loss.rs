use crate::Error;
use std::fmt;

/// Why a lock was lost. Sticky: a lease is lost once, for one cause.
#[derive(Clone, Debug)]
pub struct Loss {
    cause: LossCause,
    error: Option<Error>,
}

/// The cause of a [`Loss`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// The local deadline passed, and no renewal had failed or was under way: the process or its executor did not run in
    /// time, or the lease was a fixed one.
    Expired,
    /// The local deadline passed while renewals failed, or no answer was seen; [`Loss::error`] is the last failure. The
    /// store may be fine and only out of reach.
    Unreachable,
    /// The store does not know the lease: it ended there, or was deleted, evicted or released by force.
    Gone,
    /// The store says that another owner holds the lock.
    Taken,
    /// Its session with the store is over.
    SessionOver,
    /// The holder's own limit, `max_hold`, was reached.
    MaxHold,
    /// The client was closed while the lock was held.
    Closed,
}

impl Loss {
    /// A loss for this cause.
    pub fn new(cause: LossCause) -> Self {
        Self { cause, error: None }
    }

    pub(crate) fn unreachable(error: Error) -> Self {
        Self { cause: LossCause::Unreachable, error: Some(error) }
    }

    /// The cause.
    pub fn cause(&self) -> LossCause {
        self.cause
    }

    /// The last failure of the store, for [`LossCause::Unreachable`].
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        match &self.error {
            Some(error) => write!(f, " ({error})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ended before it was renewed",
            Self::Unreachable => "its lease ended while the store did not answer",
            Self::Gone => "the store no longer has it",
            Self::Taken => "another owner holds it",
            Self::SessionOver => "the session with the store that it was a part of is over",
            Self::MaxHold => "it was held for as long as its holder allowed",
            Self::Closed => "its client was closed",
        })
    }
}
