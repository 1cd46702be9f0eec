//! One error type; its [kind](ErrorKind) is advice on what to do next.

mod kind;
mod loss;

pub use kind::ErrorKind;
pub use loss::{Loss, LossCause};

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure. Its [`kind`](Error::kind) says what to do about it.
///
/// One word wide and cheap to clone. `Display` is one line without the cause; the chain is in
/// [`source`](StdError::source); [`help`](Error::help) is the next step in words. It has no secret, such as a password.
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
        let mut error = Self::new(ErrorKind::Lost, format!("the lock was lost: {loss}"))
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
        let mut out = f.debug_struct("Error");
        out.field("kind", kind).field("message", message).field("help", help).field("source", source).finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
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
    }

    #[test]
    fn error_of_a_loss_keeps_its_cause() {
        let error = Error::from(Loss::new(LossCause::Taken));
        assert_eq!(error.kind(), ErrorKind::Lost);
        assert_eq!(error.loss().map(Loss::cause), Some(LossCause::Taken));
    }
}
