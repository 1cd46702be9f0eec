use std::fmt;

/// The advice of a failed operation to its caller. Two kinds differ only where the caller would act differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another owner holds the lock, and the caller did not want to wait. Try again later.
    Busy,
    /// Another owner held the lock for the whole of the wait, as far as is known: the store may have stopped answering before
    /// the end. Wait longer, or look at the holder.
    TimedOut,
    /// The lock was held and is lost. Stop touching the resource. [`Error::loss`](crate::Error::loss) has the cause.
    Lost,
    /// The store may or may not have applied the operation: a reply was lost, or did not come in time. What it may
    /// have left is being released and ends with its lease at the latest. Never used for an answer that is known.
    Indeterminate,
    /// The store was certainly not changed, and cannot serve now: unreachable, read-only, out of memory. Try again later.
    Unavailable,
    /// The store refuses these credentials, or they lack a permission. Fix the credentials. If a request before in the same call
    /// had no answer, that may have been applied; what it left ends with its lease.
    Denied,
    /// Store or configuration do not fit together: wrong scheme, missing table, foreign data under the key. Fix the set-up.
    Misconfigured,
    /// An argument is out of its range; nothing was sent. Fix the call.
    Invalid,
    /// This backend or mode cannot do it at all. Choose another, or do without.
    Unsupported,
    /// The client was closed. Make a new one.
    Closed,
}

impl ErrorKind {
    /// A short stable code for people and scripts: `E_BUSY`.
    pub const fn code(self) -> &'static str {
        self.code_and_words().0
    }

    const fn code_and_words(self) -> (&'static str, &'static str) {
        match self {
            Self::Busy => ("E_BUSY", "busy"),
            Self::TimedOut => ("E_TIMED_OUT", "timed out"),
            Self::Lost => ("E_LOST", "lost"),
            Self::Indeterminate => ("E_INDETERMINATE", "unknown outcome"),
            Self::Unavailable => ("E_UNAVAILABLE", "unavailable"),
            Self::Denied => ("E_DENIED", "denied"),
            Self::Misconfigured => ("E_MISCONFIGURED", "misconfigured"),
            Self::Invalid => ("E_INVALID", "invalid"),
            Self::Unsupported => ("E_UNSUPPORTED", "unsupported"),
            Self::Closed => ("E_CLOSED", "closed"),
        }
    }
}

/// The kind in words, as in `timed out`.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code_and_words().1)
    }
}
