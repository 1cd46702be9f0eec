//! How a case came out.

use crate::server::StartError;
use leasehold_core::Error;
use std::error::Error as _;

/// How a case, or a part of it, came out; `?` on a broken expectation ends it.
pub type Verdict = Result<(), Stop>;

/// Why a case did not pass.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "complete: a case passes, fails or is skipped")]
pub enum Stop {
    /// The property does not hold; what was seen.
    Failed(String),
    /// The property has no meaning here, or cannot be observed; why.
    Skipped(String),
}

impl Stop {
    /// For what is to be installed and is not there: a failure, unless `LEASEHOLD_SKIP_MISSING` is set, which skips.
    pub fn missing(reason: &str) -> Self {
        match std::env::var_os("LEASEHOLD_SKIP_MISSING") {
            Some(_) => Self::Skipped(format!("{NOT_RUN}{reason}")),
            None => {
                let help = "install it, or let LEASEHOLD_SKIP_MISSING=1 skip its cases; Leasehold's own scripts/test installs all";
                Self::Failed(format!("{reason}; {help}"))
            }
        }
    }

    /// True for a failure, and for what is [missing](Self::missing), also where that skips.
    pub(crate) fn is_failed_or_missing(&self) -> bool {
        match self {
            Self::Failed(_) => true,
            Self::Skipped(why) => why.starts_with(NOT_RUN),
        }
    }

    /// What was seen, or why it was skipped.
    pub(crate) fn into_reason(self) -> String {
        let (Self::Failed(reason) | Self::Skipped(reason)) = self;
        reason
    }
}

const NOT_RUN: &str = "NOT RUN: ";

/// Ends the case as failed, with these words, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::stop::Stop::Failed(format!($($words)+)));
        }
    };
}
pub(crate) use ensure;

/// Ends the case as skipped, with these words, unless the condition holds.
macro_rules! require {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::stop::Stop::Skipped(format!($($words)+)));
        }
    };
}
pub(crate) use require;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let mut words = format!("{}: {error}", error.kind().code());
        let mut source = error.source();
        while let Some(cause) = source {
            words += &format!(": {cause}");
            source = cause.source();
        }
        Self::Failed(words)
    }
}

impl From<StartError> for Stop {
    fn from(error: StartError) -> Self {
        Self::Failed(error.message)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(format!("the suite itself failed: {error}"))
    }
}

impl From<tokio::task::JoinError> for Stop {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Failed(format!("a task panicked: {error}"))
    }
}
