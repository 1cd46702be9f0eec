//! What `check` says of an error, and of messages that do not come.

use leasehold_core::{Error, Finding, Severity};

/// A finding whose message and help are those of an error. The message begins with `effect`.
pub(crate) fn error_finding(severity: Severity, code: &'static str, effect: &str, why: &Error) -> Finding {
    Finding::new(severity, code, format!("{effect}{why}"), why.help().unwrap_or_default())
}

/// Waiters of this process get no messages.
pub(crate) fn no_messages(why: &str, help: &str) -> Finding {
    let message = format!("waiters are not told that a lock is theirs, and ask every half second: {why}");
    Finding::new(Severity::Warning, "W_UNHEARD", message, help)
}
