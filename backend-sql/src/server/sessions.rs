//! Whether a connection of ours is a session of the server, or a pooler in between lends it another one each time.

#[cfg(all(test, feature = "postgres"))]
mod tests;

use super::{Mode, RawConnection, Server, Statement, StatementKind, Target, Value};
use crate::lock_mutex;
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

/// The number of questions for a session. A random one of the two connections asks, and a pooler does not know which: each time
/// it lends the connection its own session with a chance of one in two at best. So a pooler stays unseen once in 250,000
/// checks, and one without other clients is seen by the second question.
const QUESTIONS: usize = 20;

/// How long after a look that found nothing out the next one is.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What is behind a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    Own,
    /// A session of others too, from one transaction to the next, by a pooler. What is prepared there, others would execute.
    Shared,
}

/// What was found behind the connections. A look that fails is not remembered as one that found no pooler.
#[derive(Debug, Default)]
pub(super) struct SessionCheck {
    found: OnceCell<Sessions>,
    /// When the last one began.
    last: Mutex<Option<Instant>>,
}

impl SessionCheck {
    pub(super) fn found(&self) -> Option<Sessions> {
        self.found.get().copied()
    }

    /// True if there is something to look for, or a pooler was found, which not every mode can live with.
    pub(super) fn is_due(&self) -> bool {
        match self.found() {
            Some(found) => found == Sessions::Shared,
            None => self.is_long_ago(),
        }
    }

    fn is_long_ago(&self) -> bool {
        let last = *lock_mutex(&self.last);
        last.is_none_or(|last| last.elapsed() >= LOOK_AGAIN_AFTER)
    }

    /// What is behind this connection, by a second one that is closed then; `None` without one: it is not looked for again at once.
    ///
    /// # Errors
    ///
    /// If the server did not answer.
    pub(super) async fn behind(
        &self,
        server: &Server,
        connection: &mut dyn RawConnection,
    ) -> Result<Option<Sessions>> {
        let found = self.found.get_or_try_init(|| async {
            let Some(question) = server.dialect().texts().session_number else {
                return Ok(Sessions::Own);
            };
            if !self.is_long_ago() {
                return Err(None);
            }
            *lock_mutex(&self.last) = Some(Instant::now());
            look(server, connection, question).await
        });
        match found.await {
            Ok(found) => Ok(Some(*found)),
            Err(None) => Ok(None),
            Err(Some(error)) => {
                *lock_mutex(&self.last) = None;
                Err(error)
            }
        }
    }
}

async fn look(
    server: &Server,
    connection: &mut dyn RawConnection,
    question: &str,
) -> Result<Sessions, Option<Error>> {
    let (dialect, target) = (server.dialect(), server.target());
    let Ok(Ok(mut other)) = timeout(target.connect_timeout, dialect.connect_beside()).await else {
        target.headroom.refused();
        return Err(None);
    };
    let question = Statement::new(question, dialect.texts(), &target.table);
    let found = server.in_time(StatementKind::Read, behind(&question, [connection, &mut *other])).await?;
    let found = found.map_err(|error| server.failure(error, StatementKind::Read))?;
    // Others wait for the result, and not for a goodbye.
    let _ = timeout(target.timeout, other.close()).await;
    if found == Sessions::Own {
        dialect.sessions_are_own();
    }
    Ok(found)
}

/// Asks two open connections for the server's numbers of their sessions. A session that has two connections, or a
/// connection that has two sessions, is a pooler's: neither happens without one.
async fn behind(question: &Statement, connections: [&mut dyn RawConnection; 2]) -> sqlx::Result<Sessions> {
    let mut last = [None; 2];
    for number in 0..QUESTIONS {
        // Each is asked once in any case.
        let at = if number < 2 { number } else { fastrand::usize(..2) };
        let session = connections[at].ask(question, &[]).await?.first().and_then(Value::as_int);
        if last[1 - at] == Some(session) || *last[at].get_or_insert(session) != session {
            return Ok(Sessions::Shared);
        }
    }
    Ok(Sessions::Own)
}

pub(super) fn finding(sessions: Sessions) -> Option<Finding> {
    (sessions == Sessions::Shared).then(|| {
        Finding::new(
            Severity::Warning,
            "W_POOLER",
            "a pooler lends sessions for one transaction at a time: no statement is prepared, no waiter is woken by a \
             notification, and the time limits that are set for one session are met by others",
            "connect to the database itself, or to a pool in session mode",
        )
    })
}

/// The lock of this mode is a session's: in a shared one there is nothing that it would be part of.
pub(super) fn check_mode(sessions: Sessions, target: &Target) -> Result<()> {
    if sessions == Sessions::Own || target.mode != Mode::ForUpdate {
        return Ok(());
    }
    let address = target.address();
    let message = format!("at {address} there is a pooler that lends sessions for one transaction at a time");
    Err(Error::new(ErrorKind::Misconfigured, message).with_help(
        "mode=for-update needs a session for each lock: connect to the database itself, or to a pool in session mode; \
         or write mode=lease",
    ))
}
