//! Whether a connection of ours is a session of the server, or a pooler in between lends it another one each time.

#[cfg(all(test, feature = "postgres"))]
mod tests;

use super::{Dialect, Doing, Link, Mode, Server, Statement, Target, Value, no_answer};
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

/// The number of questions for a session. One of the two connections asks, drawn by lot, and a pooler does not know which: each
/// time it lends the connection its own session with a chance of one in two at best. So a pooler stays unseen once in 250,000
/// checks, and one without other clients is seen by the second question.
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
    found.ok_or_else(|| Some(no_prepared_statements(target)))
}

/// Asks two open connections for the server's numbers of their sessions. A session that has two connections, or a
/// connection that has two sessions, is a pooler's: neither happens without one. `None` if it is one that mixes up what
/// is prepared: there one client could execute what another has prepared, so it is refused for all modes. It need not
/// say so. It does where the name of a statement is taken; where many begin at once, a session has everybody's first
/// statement by chance.
async fn behind(
    dialect: &dyn Dialect,
    target: &Target,
    links: [&mut dyn Link; 2],
) -> sqlx::Result<Option<Sessions>> {
    let Some(template) = dialect.session_number() else {
        return Ok(Some(Sessions::Own));
    };
    let lots = RandomState::new().hash_one(());
    // Of 62 bits, and not the same.
    let marks = [0, 1].map(|who| (lots >> 2 << 1 | who).cast_signed());
    let statements = marks
        .map(|mark| Statement::new(&template.replace("{mark}", &mark.to_string()), dialect, &target.table));
    let mut pair = Pair { links, statements, marks, prepared: [None; 2], last: [None; 2] };
    for question in 0..QUESTIONS {
        // Each is asked once in any case.
        let who = usize::from(question == 1 || question > 1 && lots >> question & 1 == 1);
        match pair.ask(who).await? {
            Shows::Nothing => {}
            Shows::Shared => return pair.keeps_statements_apart().await,
            Shows::KeptApart => return Ok(Some(Sessions::Shared)),
            Shows::MixedUp => return Ok(None),
        }
    }
    Ok(Some(Sessions::Own))
}

/// Two connections, each with a statement that nobody else has.
struct Pair<'a> {
    links: [&'a mut dyn Link; 2],
    statements: [Statement; 2],
    marks: [i64; 2],
    /// The session in which each was asked first, which is where its statement was prepared.
    prepared: [Option<i64>; 2],
    last: [Option<i64>; 2],
}

/// What an answer shows of what is behind.
enum Shows {
    Nothing,
    /// One session for two connections.
    Shared,
    /// A session executed what was prepared in another.
    KeptApart,
    /// A session executed what somebody else has prepared.
    MixedUp,
}

impl Pair<'_> {
    async fn ask(&mut self, who: usize) -> sqlx::Result<Shows> {
        let answer = match self.links[who].ask(&self.statements[who], &[]).await {
            Err(sqlx::Error::ColumnIndexOutOfBounds { .. } | sqlx::Error::ColumnDecode { .. }) => {
                return Ok(Shows::MixedUp);
            }
            answer => answer?,
        };
        let row: Option<Vec<_>> = answer.rows.first().map(|row| row.iter().map(Value::as_int).collect());
        let Some([Some(number), Some(mark)]) = row.as_deref() else {
            return Ok(Shows::MixedUp);
        };
        if *mark != self.marks[who] {
            return Ok(Shows::MixedUp);
        }
        self.last[who] = Some(*number);
        Ok(if self.prepared[who].get_or_insert(*number) != number {
            Shows::KeptApart
        } else if self.last[1 - who] == Some(*number) {
            Shows::Shared
        } else {
            Shows::Nothing
        })
    }

    /// While one is in a transaction, the other is lent another session, if there is any; sooner or later it is one in
    /// which it has prepared nothing. What refuses transactions is not told apart from what mixes up.
    async fn keeps_statements_apart(&mut self) -> sqlx::Result<Option<Sessions>> {
        for turn in 0..QUESTIONS as usize {
            let (holder, other) = (turn % 2, 1 - turn % 2);
            if self.links[holder].tell("BEGIN").await.is_err() {
                return Ok(None);
            }
            for who in [holder, other] {
                match self.ask(who).await? {
                    Shows::Nothing | Shows::Shared => {}
                    Shows::KeptApart => {
                        self.links[holder].tell("ROLLBACK").await?;
                        return Ok(Some(Sessions::Shared));
                    }
                    Shows::MixedUp => return Ok(None),
                }
            }
            self.links[holder].tell("ROLLBACK").await?;
        }
        Ok(None)
    }
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
