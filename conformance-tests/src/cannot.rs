//! What a store or a subject could not do for the suite.

use crate::stop::Stop;
use std::fmt;

/// Something that the suite wanted and a store or subject cannot do, and why. It skips a case, or fails it; it never passes
/// one.
#[derive(Clone, Debug)]
pub struct Cannot {
    stop: Stop,
    is_absent: bool,
}

impl Cannot {
    /// There is no way to do it, for this reason: a case that needs it is skipped.
    pub fn new(reason: impl Into<String>) -> Self {
        Stop::Skipped(reason.into()).into()
    }

    /// The subject does not implement this hook. Says nothing of the store, of which nothing is known then.
    pub(crate) fn no_hook(hook: &str) -> Self {
        Self::new(format!("the subject has no hook `{hook}`"))
    }

    /// It was tried, and came to nothing, or to one knows not what: a case that needs it has failed.
    pub fn failed(error: impl fmt::Display) -> Self {
        Stop::Failed(error.to_string()).into()
    }

    /// A server was not ready in time: nothing can be said of it.
    pub(crate) fn not_ready(reason: String) -> Self {
        Stop::NotJudged(reason).into()
    }

    /// There is a way, and nothing there to do it to: a case has failed that had made sure of it. A fault that is made at
    /// random is left out.
    pub fn absent(reason: impl Into<String>) -> Self {
        Self { stop: Stop::Failed(reason.into()), is_absent: true }
    }

    /// True for what is [absent](Self::absent).
    pub fn is_absent(&self) -> bool {
        self.is_absent
    }

    /// True for a store that was not ready in time: nothing can be said of it.
    pub fn is_not_ready(&self) -> bool {
        matches!(self.stop, Stop::NotJudged(_))
    }

    /// False if there is no way to do it.
    pub(crate) fn was_tried(&self) -> bool {
        !matches!(self.stop, Stop::Skipped(_))
    }
}

/// What came too late for a hook is a failure of the hook.
impl From<Stop> for Cannot {
    fn from(stop: Stop) -> Self {
        let stop = if let Stop::Late(why, _) = stop { Stop::Failed(why) } else { stop };
        Self { stop, is_absent: false }
    }
}

/// Of a file, a directory or a port that a server is to have.
impl From<std::io::Error> for Cannot {
    fn from(error: std::io::Error) -> Self {
        Self::failed(format!("what a server needs cannot be made: {error}"))
    }
}

impl std::error::Error for Cannot {}

impl From<Cannot> for Stop {
    fn from(cannot: Cannot) -> Self {
        cannot.stop
    }
}

impl fmt::Display for Cannot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stop.clone().into_reason())
    }
}
