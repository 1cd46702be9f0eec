//! Whether a connection of ours is a session of the server, or a pooler in between lends it another one each time.

use super::{Answer, Dialect, Doing, Link, Mode, Server, Statement, Target, Value, no_answer};
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

/// How often a session is asked for. Who of the two connections asks is drawn by lot, and a pooler that lends any session
/// does not go by who asks: whatever it lends, it lends each connection its own by chance only, which is one of two at
/// best each time. Once in 250,000 looks it is not seen, and one that nobody else uses is seen by the second question.
const QUESTIONS: u32 = 20;

/// How long after a look that found nothing out the next one is.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What is behind a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// A session of its own.
    Own,
    /// A session of others too, from one transaction to the next, by a pooler that keeps prepared statements apart.
    Shared,
}

/// What was found behind the connections. A look that fails is not remembered as one that found no pooler.
#[derive(Debug, Default)]
pub(super) struct Look {
    found: OnceCell<Sessions>,
    /// When the last one began.
    last: Mutex<Option<Instant>>,
}

impl Look {
    /// What was found, if anything was.
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
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_none_or(|last| last.elapsed() >= LOOK_AGAIN_AFTER)
    }

    /// What is behind this connection, by a second one that is closed then; `None` if there is none to be had, and then it
    /// is not looked for again at once.
    ///
    /// # Errors
    ///
    /// If the server did not answer, or what it answered shows a pooler that mixes up sessions.
    pub(super) async fn behind(&self, server: &Server, link: &mut dyn Link) -> Result<Option<Sessions>> {
        let found = self.found.get_or_try_init(|| async {
            if server.dialect().session_number().is_none() {
                return Ok(Sessions::Own);
            }
            if !self.is_long_ago() {
                return Err(None);
            }
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            look(server, link).await
        });
        match found.await {
            Ok(found) => Ok(Some(*found)),
            Err(None) => Ok(None),
            Err(Some(error)) => {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Err(error)
            }
        }
    }
}

async fn look(server: &Server, link: &mut dyn Link) -> Result<Sessions, Option<Error>> {
    let (dialect, target) = (server.dialect(), server.target());
    let Ok(Ok(mut other)) = timeout(target.connect_timeout, dialect.connect()).await else {
        return Err(None);
    };
    let found = match timeout(target.timeout, behind(dialect, target, [link, &mut *other])).await {
        Ok(found) => found.map_err(|error| server.failure(error, Doing::Looking))?,
        Err(_) => return Err(Some(no_answer(Doing::Looking, target))),
    };
    // The others wait for what was found, and not for a goodbye.
    let _ = timeout(target.timeout, other.close()).await;
    Ok(found)
}

/// Asks two open connections for the server's numbers of their sessions. A session that has two connections, or a connection
/// that has two sessions, is a pooler's: neither happens without one.
///
/// The statements are prepared and differ, so that a pooler which knows nothing of prepared statements says that there is
/// one of that name already. It is refused for all modes: there one client could execute what another has prepared.
async fn behind(dialect: &dyn Dialect, target: &Target, links: [&mut dyn Link; 2]) -> sqlx::Result<Sessions> {
    let Some(texts) = dialect.session_number() else {
        return Ok(Sessions::Own);
    };
    let statements = texts.map(|text| Statement::new(text, dialect, &target.table));
    let (lots, mut seen) = (RandomState::new().hash_one(()), [None; 2]);
    for question in 0..QUESTIONS {
        // Each is asked once in any case.
        let who = usize::from(question == 1 || question > 1 && lots >> question & 1 == 1);
        let number = number(&links[who].ask(&statements[who], &[]).await?);
        if seen[1 - who] == Some(number) || seen[who].is_some_and(|earlier| earlier != number) {
            return Ok(Sessions::Shared);
        }
        seen[who] = Some(number);
    }
    Ok(Sessions::Own)
}

fn number(answer: &Answer) -> Option<i64> {
    answer.rows.first()?.first().and_then(Value::as_int)
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
pub(super) fn check_mode(sessions: Sessions, target: &Target) -> Result<()> {
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

#[cfg(all(test, feature = "postgres"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

    use super::*;
    use crate::postgres::PostgresDialect;
    use async_trait::async_trait;
    use leasehold_core::StoreUrl;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    /// A connection that is lent these sessions in turn, whoever asks.
    struct Lent(Arc<AtomicI64>, &'static [i64]);

    #[async_trait]
    impl Link for Lent {
        async fn ask(&mut self, _: &Statement, _: &[Value]) -> sqlx::Result<Answer> {
            let turn = self.0.fetch_add(1, Ordering::SeqCst) as usize;
            let session = self.1[turn % self.1.len()];
            Ok(Answer { rows: vec![vec![Value::Int(Some(session))]], ..Answer::default() })
        }

        async fn tell(&mut self, _: &str) -> sqlx::Result<()> {
            Ok(())
        }

        async fn close(self: Box<Self>) {}
    }

    async fn behind_connections(lent: [&'static [i64]; 2]) -> Sessions {
        let url = StoreUrl::parse("postgres://u@127.0.0.1/d").unwrap();
        let target = Arc::new(Target::of(&url, "postgres", 5432).unwrap());
        let (dialect, turns) = (PostgresDialect::new(Arc::clone(&target)), Arc::<AtomicI64>::default());
        let [mut one, mut other] = lent.map(|sessions| Lent(Arc::clone(&turns), sessions));
        behind(&dialect, &target, [&mut one, &mut other]).await.unwrap()
    }

    #[tokio::test]
    async fn sessions_that_are_lent_in_step_with_the_questions_are_seen() {
        for sessions in [&[1_i64][..], &[1, 2], &[1, 2, 1, 2, 2, 1]] {
            for _ in 0..20 {
                assert_eq!(behind_connections([sessions; 2]).await, Sessions::Shared, "{sessions:?}");
            }
        }
        for _ in 0..20 {
            assert_eq!(behind_connections([&[1], &[2]]).await, Sessions::Own);
        }
    }
}
