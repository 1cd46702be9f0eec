//! What a store or a subject could not do for the suite.

use crate::stop::Stop;
use std::fmt;

/// Something that the suite wanted and a store or subject cannot do, and why. It skips a case, or fails it; it never passes
/// one.
#[derive(Clone, Debug)]
pub struct Cannot {
    reason: String,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    NoWay,
    Failed,
    Absent,
    NotReady,
}

impl Cannot {
    /// There is no way to do it, for this reason: a case that needs it is skipped.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), why: Why::NoWay }
    }

    /// The subject does not implement this hook. Says nothing of the store, of which nothing is known then.
    pub(crate) fn no_hook(hook: &str) -> Self {
        Self::new(format!("the subject has no hook `{hook}`"))
    }

    /// It was tried, and came to nothing, or to one knows not what: a case that needs it has failed.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self { reason: error.to_string(), why: Why::Failed }
    }

    /// A server was not ready in time: nothing can be said of it.
    pub(crate) fn not_ready(reason: String) -> Self {
        Self { reason, why: Why::NotReady }
    }

    /// There is a way, and nothing there to do it to: a case has failed that had made sure of it. A fault that is made at
    /// random is left out.
    pub fn absent(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), why: Why::Absent }
    }

    /// True for what is [absent](Self::absent).
    pub fn is_absent(&self) -> bool {
        self.why == Why::Absent
    }

    /// True for a store that was not ready in time: nothing can be said of it.
    pub fn is_not_ready(&self) -> bool {
        self.why == Why::NotReady
    }

    /// False if there is no way to do it.
    pub(crate) fn was_tried(&self) -> bool {
        self.why != Why::NoWay
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
        match cannot.why {
            Why::NoWay => Self::Skipped(cannot.reason),
            Why::Failed | Why::Absent => Self::Failed(cannot.reason),
            Why::NotReady => Self::NotJudged(cannot.reason),
        }
    }
}

impl From<Stop> for Cannot {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Skipped(why) => Self::new(why),
            Stop::Failed(why) | Stop::Wrong(why) | Stop::Late(why, _) => Self::failed(why),
            Stop::NotJudged(why) => Self::not_ready(why),
        }
    }
}

impl fmt::Display for Cannot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
