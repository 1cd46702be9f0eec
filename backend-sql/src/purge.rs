//! Forgetting names that nobody has used for long.
//!
//! A name is forgotten only if its token lies as far in the past as it was idle, by the clock of which the next token
//! is made: the next one is larger than the last, although nothing is left of that, unless the clock is set back by
//! more than `idle`.

use leasehold_core::{Error, ErrorKind};

/// Purging needs a right that locking does not.
pub(crate) fn name_the_right(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Denied => error.with_help(
            "purging needs a right that locking does not: GRANT DELETE on the table, to these credentials or to others",
        ),
        _ => error,
    }
}
