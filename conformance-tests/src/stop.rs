//! How a case came out, and what a hook of a subject could not do.

use leasehold_core::{Error, ErrorKind, Loss, LossCause};
use std::error::Error as _;
use std::fmt;
use std::iter::successors;
use std::time::Duration;

/// How a case, or a part of it, came out; `?` on a broken expectation ends it.
pub type Verdict = Result<(), Stop>;

/// Why a case did not pass, or why a hook did not do what the case asked of it, which ends the case in the same way.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "complete: a case passes, fails, is not judged or is skipped")]
pub enum Stop {
    /// The property does not hold; what was seen.
    Failed(String),
    /// A hook found nothing to act on, such as a record to delete. That fails a case; a fault that is made at random is left out.
    Absent(String),
    /// The property does not hold, and no delay of this machine explains what was seen: a token that did not grow, a missing right.
    Wrong(String),
    /// Something came too late, by this much; `None` if it never came while the case waited for it.
    Late(String, Option<Duration>),
    /// The store was away, or slow to answer, or a lease, or a place in a queue, ended before it was renewed: late, unless this machine
    /// was not on time, for the time-outs of a client are not stretched.
    Away(String),
    /// Nothing can be said of the store: this machine was late, or a server was not ready in time.
    NotJudged(String),
    /// The case showed nothing: its fault met nothing, or its history has too little in it. A case is run again, and then not judged.
    Void(String),
    /// A program that the case needs is not installed; which.
    Missing(String),
    /// The property has no meaning here, cannot be observed, or needs a hook that there is not; why.
    Skipped(String),
}

impl Stop {
    /// There is no way to do it, for this reason: a case that needs it is skipped.
    pub fn skipped(reason: impl Into<String>) -> Self {
        Self::Skipped(reason.into())
    }

    /// It was tried, and came to nothing, or its outcome is unknown: a case that needs it has failed.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// The subject does not implement this hook. Says nothing of the store, of which nothing is known then.
    pub(crate) fn no_hook(hook: &str) -> Self {
        Self::Skipped(format!("the subject has no hook `{hook}`"))
    }

    /// For what is to be installed and is not there: the case is not judged, or skipped if `LEASEHOLD_SKIP_MISSING` is set.
    pub fn missing(reason: &str) -> Self {
        match std::env::var_os("LEASEHOLD_SKIP_MISSING") {
            Some(_) => Self::Skipped(format!("NOT RUN: {reason}")),
            None => {
                let help = "install it, or let LEASEHOLD_SKIP_MISSING=1 skip its cases; Leasehold's own scripts/test installs all";
                Self::Missing(format!("{reason}; {help}"))
            }
        }
    }

    /// What was seen of a case that failed, or was late.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed(why) | Self::Absent(why) | Self::Wrong(why) => Some(why),
            Self::Late(why, _) | Self::Away(why) => Some(why),
            Self::NotJudged(_) | Self::Void(_) | Self::Missing(_) | Self::Skipped(_) => None,
        }
    }

    /// What was seen of a case that is to be run again: one that failed, was late, or showed nothing.
    pub(crate) fn needs_second_attempt(&self) -> Option<String> {
        match self {
            Self::Wrong(_) => None,
            Self::Void(_) => Some(self.to_string()),
            stop => stop.failure().map(str::to_owned),
        }
    }

    /// The same with other words for what was seen, if it failed or was late.
    pub(crate) fn map(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(words(why)),
            Self::Absent(why) => Self::Absent(words(why)),
            Self::Wrong(why) => Self::Wrong(words(why)),
            Self::Late(why, by) => Self::Late(words(why), by),
            Self::Away(why) => Self::Away(words(why)),
            stop => stop,
        }
    }

    /// What was seen, or why it was not judged or skipped.
    pub fn into_reason(self) -> String {
        match self {
            Self::Late(reason, None) => format!("it never came: {reason}"),
            Self::Void(reason) => format!("void: {reason}"),
            Self::Failed(reason)
            | Self::Absent(reason)
            | Self::Wrong(reason)
            | Self::Late(reason, Some(_))
            | Self::Away(reason)
            | Self::NotJudged(reason)
            | Self::Missing(reason)
            | Self::Skipped(reason) => reason,
        }
    }
}

impl std::error::Error for Stop {}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.clone().into_reason())
    }
}

/// Ends the case as failed, with these words, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::stop::Stop::Failed(format!($($words)+)));
        }
    };
}
pub(crate) use ensure;

/// Ends the case as wrong, with these words, unless the condition holds, which no delay of this machine can break.
macro_rules! ensure_untimed {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::stop::Stop::Wrong(format!($($words)+)));
        }
    };
}
pub(crate) use ensure_untimed;

/// Ends the case as void, with these words, unless the condition holds: its fault has met what it is to meet.
macro_rules! ensure_met {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::stop::Stop::Void(format!($($words)+)));
        }
    };
}
pub(crate) use ensure_met;

/// Ends the case as skipped, with these words, unless the condition holds.
macro_rules! require {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::stop::Stop::Skipped(format!($($words)+)));
        }
    };
}
pub(crate) use require;

/// True if the lease ended before it was renewed, and the store has not said why.
pub(crate) fn was_not_renewed_in_time(loss: &Loss) -> bool {
    matches!(loss.cause(), LossCause::Expired | LossCause::Unreachable)
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let causes = successors(error.source(), |&cause| cause.source()).map(|cause| format!(": {cause}"));
        let words = format!("{}: {error}{}", error.kind().code(), causes.collect::<String>());
        // A store that is slow or away may do better the next time.
        match error.kind() {
            _ if error.is_outage() => Self::Away(words),
            ErrorKind::Lost if error.loss().is_some_and(was_not_renewed_in_time) => Self::Away(words),
            ErrorKind::TimedOut => Self::Late(words, None),
            ErrorKind::Denied => Self::Wrong(words),
            _ => Self::Failed(words),
        }
    }
}

/// Ends the case as late, with these words, unless this took no longer than its bound.
macro_rules! ensure_within {
    ($took:expr, $bound:expr, $($words:tt)+) => {
        let (took, bound): (std::time::Duration, std::time::Duration) = ($took, $bound);
        if took > bound {
            return Err($crate::stop::Stop::Late(format!($($words)+), Some(took - bound)));
        }
    };
}
pub(crate) use ensure_within;

/// Ends the case as late, with these words, unless the condition holds: what was waited for never came.
macro_rules! ensure_came {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::stop::Stop::Late(format!($($words)+), None));
        }
    };
}
pub(crate) use ensure_came;

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(format!("a file, a directory, a port or a process of the suite: {error}"))
    }
}

impl From<tokio::task::JoinError> for Stop {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Failed(format!("a task panicked: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// What each macro makes of a condition, and of this time with a bound of one millisecond.
    fn stops(holds: bool, took: Duration) -> [Verdict; 6] {
        macro_rules! of {
            ($($expectation:tt)+) => {
                (|| {
                    $($expectation)+;
                    Ok(())
                })()
            };
        }
        [
            of!(ensure!(holds, "a")),
            of!(ensure_untimed!(holds, "b")),
            of!(require!(holds, "c")),
            of!(ensure_met!(holds, "d")),
            of!(ensure_came!(holds, "e")),
            of!(ensure_within!(took, MS, "f")),
        ]
    }

    #[test]
    fn broken_expectation_stops_the_case_in_its_own_way() {
        assert!(stops(true, MS).iter().all(Result::is_ok), "the bound itself is in time");
        let words = r#"[Err(Failed("a")), Err(Wrong("b")), Err(Skipped("c")), Err(Void("d")), Err(Late("e", None)), Err(Late("f", Some(2ms)))]"#;
        assert_eq!(format!("{:?}", stops(false, MS * 3)), words);
    }

    #[test]
    fn error_of_a_store_is_away_late_wrong_or_a_failure() {
        use ErrorKind::{Busy, Denied, Indeterminate, Lost, TimedOut, Unavailable};
        let of = |kind| Stop::from(Error::new(kind, "it"));
        for kind in [Unavailable, Indeterminate] {
            assert!(matches!(of(kind), Stop::Away(_)), "{kind:?}");
        }
        assert!(matches!(of(TimedOut), Stop::Late(_, None)));
        for kind in [Busy, Lost] {
            assert!(matches!(of(kind), Stop::Failed(_)), "{kind:?}");
        }
        assert!(matches!(of(Denied), Stop::Wrong(_)));
        let lost = |cause| Stop::from(Error::from(Loss::new(cause)));
        for cause in [LossCause::Expired, LossCause::Unreachable] {
            assert!(matches!(lost(cause), Stop::Away(_)), "{cause:?}");
        }
        for cause in [LossCause::Gone, LossCause::Taken, LossCause::SessionOver, LossCause::ReadOnly] {
            assert!(matches!(lost(cause), Stop::Failed(_)), "{cause:?}");
        }
    }

    #[test]
    fn failed_and_late_verdicts_have_a_failure() {
        let why = || "it".to_owned();
        let late = [Stop::Late(why(), None), Stop::Away(why())];
        for stop in [Stop::Failed(why()), Stop::Absent(why()), Stop::Wrong(why())].into_iter().chain(late) {
            assert_eq!(stop.failure(), Some("it"), "{stop:?}");
            assert!(stop.clone().map(|_| "more".to_owned()).into_reason().ends_with("more"), "{stop:?}");
        }
        for stop in [Stop::NotJudged(why()), Stop::Void(why()), Stop::Skipped(why())] {
            assert_eq!(stop.failure(), None, "{stop:?}");
        }
    }
}
