/// What the caller of a failed operation should do next. A new kind is added only where the caller would act
/// differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Somebody else holds the lock, and the caller did not want to wait. Try again later.
    Busy,
    /// Somebody else held the lock for the whole of the wait, as far as the store has said: it may have fallen silent before
    /// the end. Wait longer, or look at who holds it.
    TimedOut,
    /// The lock was held and is no longer. Stop touching the resource. [`Error::loss`](crate::Error::loss) has the cause.
    Lost,
    /// The store may or may not have applied the operation: a reply was lost, or did not come in time. What was left
    /// behind is being withdrawn and ends with its lease at the latest. Never used for an answer that is known.
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
        match self {
            Self::Busy => "E_BUSY",
            Self::TimedOut => "E_TIMED_OUT",
            Self::Lost => "E_LOST",
            Self::Indeterminate => "E_INDETERMINATE",
            Self::Unavailable => "E_UNAVAILABLE",
            Self::Denied => "E_DENIED",
            Self::Misconfigured => "E_MISCONFIGURED",
            Self::Invalid => "E_INVALID",
            Self::Unsupported => "E_UNSUPPORTED",
            Self::Closed => "E_CLOSED",
        }
    }
}
