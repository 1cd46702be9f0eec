//! Whether a connection of ours is a session of the server, or a pooler in between lends it another one each time.

use super::{Answer, Dialect, Link, Meaning, Mode, Statement, Target, Value};
use leasehold_core::{Error, ErrorKind, Finding, Severity};

/// How often two connections are asked in turn for the session behind them. A pooler that has several to lend, and lends
/// them in turn, shows by the second time.
const ROUNDS: usize = 3;

/// What is behind a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// A session of its own.
    Own,
    /// A session of others too, from one transaction to the next, by a pooler that keeps prepared statements apart.
    Shared,
}

/// Asks two open connections for the server's numbers of their sessions. A session that has two connections, or a connection
/// that has two sessions, is a pooler's: neither happens without one.
///
/// The statements are prepared and differ, so that a pooler which knows nothing of prepared statements says that there is
/// one of that name already. It is refused for all modes: there one client could execute what another has prepared.
pub(super) async fn behind(
    dialect: &dyn Dialect,
    target: &Target,
    one: &mut dyn Link,
    other: &mut dyn Link,
) -> sqlx::Result<Sessions> {
    let Some(texts) = dialect.session_number() else {
        return Ok(Sessions::Own);
    };
    let statements = texts.map(|text| Statement::new(text, dialect, &target.table));
    let mut seen = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        seen[0].extend(number(&one.ask(&statements[0], &[]).await?));
        seen[1].extend(number(&other.ask(&statements[1], &[]).await?));
    }
    let alike = |numbers: &[i64]| numbers.windows(2).all(|pair| pair[0] == pair[1]);
    let own = alike(&seen[0]) && alike(&seen[1]) && seen[0].first() != seen[1].first();
    Ok(if own { Sessions::Own } else { Sessions::Shared })
}

fn number(answer: &Answer) -> Option<i64> {
    answer.rows.first()?.first().and_then(Value::as_int)
}

/// What to say of a failed look, if it shows a pooler.
pub(super) fn refusal(dialect: &dyn Dialect, target: &Target, error: &sqlx::Error) -> Option<Error> {
    (dialect.meaning(error) == Meaning::Pooled).then(|| no_prepared_statements(target))
}

pub(super) fn no_prepared_statements(target: &Target) -> Error {
    let message = format!(
        "at {} there is a pooler that gives a statement to another session than the one it was prepared in",
        target.address()
    );
    Error::new(ErrorKind::Misconfigured, message).with_help(
        "connect to the database itself, or to a pool in session mode; or, for mode=lease, let PgBouncer from 1.21 on know \
         of prepared statements: max_prepared_statements = 200",
    )
}

/// What `check` says.
pub(super) fn finding(sessions: Sessions) -> Option<Finding> {
    (sessions == Sessions::Shared).then(|| {
        Finding::new(
            Severity::Warning,
            "W_POOLER",
            "a pooler lends sessions for one transaction at a time: no waiter is woken by a notification, and the time \
             limits that are set for one session are met by others",
            "connect to the database itself, or to a pool in session mode",
        )
    })
}

/// The lock of this mode is a session's: in a shared one there is nothing that it would be part of.
pub(super) fn check_mode(sessions: Sessions, target: &Target) -> Result<(), Error> {
    if sessions == Sessions::Own || target.mode != Mode::ForUpdate {
        return Ok(());
    }
    let message = format!(
        "at {} there is a pooler that lends sessions for one transaction at a time",
        target.address()
    );
    Err(Error::new(ErrorKind::Misconfigured, message).with_help(
        "mode=for-update needs a session for each lock: connect to the database itself, or to a pool in session mode; \
         or write mode=lease",
    ))
}
