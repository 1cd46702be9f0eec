use crate::LockName;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::iter::successors;
use std::sync::Arc;

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure. Its [`kind`](Error::kind) says what to do about it.
///
/// One word wide and cheap to clone. `Display` is one line without the cause; the chain is in
/// [`source`](StdError::source); [`help`](Error::help) is the next step in words. `Debug`, which is what `main` prints of an error that it
/// returns, has all of it in lines for a person; `{:#?}` shows the fields. It has no secret, such as a password.
///
/// Not promised: the wording of messages, and the concrete types in the source chain.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    help: Option<Cow<'static, str>>,
    loss: Option<Loss>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind, with a message of one line.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), help: None, loss: None, source: None }))
    }

    /// A value that was refused before any I/O. Names the field, the value, the limit, and in `fix` the way out.
    pub fn invalid(field: &str, problem: impl fmt::Display, fix: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, format!("invalid {field}: {problem}")).with_help(fix)
    }

    /// No token is left that would be larger than the last one of this name. For backends.
    pub fn tokens_used_up() -> Self {
        Self::new(ErrorKind::Misconfigured, "the fencing tokens of this name are used up")
            .with_help("use another name; a clock far in the future may have used them up")
    }

    /// The client or backend was closed. For backends.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client was closed").with_help("make a new one")
    }

    /// Adds the next step, in words.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<Cow<'static, str>>) -> Self {
        self.inner_mut().help = Some(help.into());
        self
    }

    /// Chains the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner_mut().source = Some(Arc::from(source.into()));
        self
    }

    /// Puts the failed step in front of the message: `cannot open the store: …`.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        let message = format!("{doing}: {}", self.0.message);
        self.inner_mut().message = message.into();
        self
    }

    /// The same error as one of another kind: a bad value in a configuration file is no bad argument.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.inner_mut().kind = kind;
        self
    }

    /// The advice to the caller.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The next step in words, where there is one.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// The loss behind an error of kind [`Lost`](ErrorKind::Lost).
    pub fn loss(&self) -> Option<&Loss> {
        self.0.loss.as_ref()
    }

    /// True if another owner holds the lock: [`Busy`](ErrorKind::Busy) or [`TimedOut`](ErrorKind::TimedOut).
    pub fn is_contended(&self) -> bool {
        matches!(self.kind(), ErrorKind::Busy | ErrorKind::TimedOut)
    }

    /// True if the same call may succeed later without any change by the caller.
    pub fn is_retryable(&self) -> bool {
        self.is_contended() || self.is_outage()
    }

    /// True if the store did not give a usable answer: [`Unavailable`](ErrorKind::Unavailable) or
    /// [`Indeterminate`](ErrorKind::Indeterminate).
    pub fn is_outage(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate)
    }

    /// True if it may pass while a waiter waits, by itself or because an operator mends it: an outage, a password that is being changed, a
    /// table that is renamed for a moment.
    pub(crate) fn may_pass(&self) -> bool {
        self.is_outage() || matches!(self.kind(), ErrorKind::Denied | ErrorKind::Misconfigured)
    }

    /// True if the operation may have been applied: [`Indeterminate`](ErrorKind::Indeterminate).
    pub fn is_indeterminate(&self) -> bool {
        self.kind() == ErrorKind::Indeterminate
    }

    fn inner_mut(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Loss> for Error {
    fn from(loss: Loss) -> Self {
        let what = loss.lock.as_ref().map_or("the lock".to_owned(), |name| format!("lock {name:?} of a set"));
        let mut error = Self::new(ErrorKind::Lost, format!("{what} was lost: {loss}"))
            .with_help("stop touching what the lock protects; acquire a new guard to go on");
        let inner = error.inner_mut();
        inner.source = loss.error().map(|cause| Arc::new(cause.clone()) as Arc<dyn StdError + Send + Sync>);
        inner.loss = Some(loss);
        error
    }
}

/// For names that are [`LockName`](crate::LockName)s already, where a conversion cannot fail.
impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, message, help, source, .. } = &*self.0;
        if f.alternate() {
            let mut out = f.debug_struct("Error");
            out.field("kind", kind).field("message", message).field("help", help).field("source", source);
            return out.finish();
        }
        write!(f, "{message} [{}]", kind.code())?;
        for cause in successors(self.source(), |&cause| cause.source()) {
            write!(f, "\n  cause: {cause}")?;
        }
        help.as_ref().map_or(Ok(()), |help| write!(f, "\n  help:  {help}"))
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

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

/// Why a lock was lost. Sticky: a lease is lost once, for one cause.
#[derive(Clone, Debug)]
pub struct Loss {
    cause: LossCause,
    error: Option<Error>,
    pub(crate) lock: Option<LockName>,
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
    /// Its server takes no writes any more: another one may have replaced it, and granted the lock.
    ReadOnly,
    /// The holder's own limit, `max_hold`, was reached.
    MaxHold,
    /// The client was closed while the lock was held.
    Closed,
}

impl Loss {
    /// A loss for this cause.
    pub fn new(cause: LossCause) -> Self {
        Self { cause, error: None, lock: None }
    }

    pub(crate) fn unreachable(error: Error) -> Self {
        Self { error: Some(error), ..Self::new(LossCause::Unreachable) }
    }

    /// The cause.
    pub fn cause(&self) -> LossCause {
        self.cause
    }

    /// The last failure of the store, for [`LossCause::Unreachable`].
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The lock that was lost, for the loss of a [set](crate::LockSetGuard).
    pub fn lock(&self) -> Option<&LockName> {
        self.lock.as_ref()
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{} ({error})", self.cause),
            None => self.cause.fmt(f),
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
            Self::ReadOnly => "its server takes no writes any more",
            Self::MaxHold => "it was held for as long as its holder allowed",
            Self::Closed => "its client was closed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_one_word_wide_and_carries_chain_and_help() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        let error = Error::new(ErrorKind::Unavailable, "no answer")
            .with_source(std::io::Error::other("reset"))
            .with_help("start it")
            .context("cannot connect");
        assert_eq!(error.to_string(), "cannot connect: no answer");
        assert_eq!(error.help(), Some("start it"));
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("reset"));
        let printed = "cannot connect: no answer [E_UNAVAILABLE]\n  cause: reset\n  help:  start it";
        assert_eq!(format!("{error:?}"), printed, "what main prints");
        assert!(format!("{error:#?}").starts_with("Error {"));
    }

    #[test]
    fn error_of_a_loss_keeps_its_cause() {
        let error = Error::from(Loss::new(LossCause::Taken));
        assert_eq!(error.kind(), ErrorKind::Lost);
        assert_eq!(error.loss().map(Loss::cause), Some(LossCause::Taken));
    }
}
