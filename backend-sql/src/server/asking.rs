//! One statement with a deadline, and what is known of it afterwards.

use super::{Answer, Connection, Doing, Lane, Meaning, Server, Statement, Value};
use leasehold_core::{ErrorKind, Result};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How often a statement that was the victim of a deadlock is tried again, within its deadline. Two statements on one
/// row of one index cannot lock each other out; a third program's transaction can.
const DEADLOCKS: u32 = 8;

/// The outcome of a statement.
pub(crate) struct Asked {
    pub(crate) answer: Result<Answer>,
    /// True if it was sent before, over a connection that broke, and would have changed something: whatever was answered
    /// the second time says nothing of the first. A row that was made twice is one row.
    pub(crate) may_have_been_done: bool,
}

impl Server {
    /// Runs one statement, in a transaction of its own.
    ///
    /// A statement on a connection that was idle and turns out to be dead is sent again on a new one: everything that is
    /// sent this way may be repeated, as the contract of backends wants it. Not so with [`Doing::Ending`], which after a
    /// success that was not heard of would find nothing to end.
    pub(crate) async fn ask(
        &self,
        lane: Lane,
        doing: Doing,
        statement: &Statement,
        values: &[Value],
    ) -> Result<Answer> {
        let Asked { answer, may_have_been_done } = self.asked(lane, doing, statement, values).await;
        answer.map_err(|error| match may_have_been_done {
            true => error.with_kind(ErrorKind::Indeterminate),
            false => error,
        })
    }

    /// As [`ask`](Self::ask), for a caller that can find out what became of a first sending.
    pub(crate) async fn asked(
        &self,
        lane: Lane,
        doing: Doing,
        statement: &Statement,
        values: &[Value],
    ) -> Asked {
        let mut broke = false;
        let answer = self.ask_twice(lane, doing, statement, values, &mut broke).await;
        Asked { answer, may_have_been_done: broke && doing == Doing::Keeping }
    }

    /// Sets `broke` once an idle connection has, over which the statement was sent.
    async fn ask_twice(
        &self,
        lane: Lane,
        doing: Doing,
        statement: &Statement,
        values: &[Value],
        broke: &mut bool,
    ) -> Result<Answer> {
        let mut connection = self.connection(lane).await?;
        // Not before there is a connection: what is sent is waited for.
        let deadline = Instant::now() + self.target().timeout;
        let mut deadlocks = 0;
        loop {
            let failed = match timeout_at(deadline, connection.link().ask(statement, values)).await {
                Ok(Ok(answer)) => {
                    connection.give_back();
                    return Ok(answer);
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    connection.found_dead();
                    return Err(self.no_answer(doing));
                }
            };
            let pause = jitter(deadlocks + 1);
            match self.meaning(&failed) {
                Meaning::Deadlock if deadlocks < DEADLOCKS && Instant::now() + pause < deadline => {
                    deadlocks += 1;
                    tokio::time::sleep(pause).await;
                }
                Meaning::Broken | Meaning::Ended
                    if connection.was_idle() && !*broke && doing != Doing::Ending =>
                {
                    *broke = true;
                    connection.found_dead();
                    connection = self.connection_to_repeat(lane, doing, deadline).await?;
                }
                // The server was replaced. A new connection may lead to its replacement.
                Meaning::ReadOnly if connection.was_idle() => {
                    connection.found_dead();
                    let Ok(Ok(another)) = timeout_at(deadline, self.connection(lane)).await else {
                        return Err(self.failure(failed, doing));
                    };
                    connection = another;
                }
                // Another client has just made the row, and may have locked it.
                Meaning::Duplicate | Meaning::Locked if doing == Doing::Making => {
                    connection.give_back();
                    return Ok(Answer::default());
                }
                Meaning::Broken | Meaning::Ended => {
                    connection.found_dead();
                    return Err(self.failure(failed, doing));
                }
                // The statement failed, and the connection is as good as before.
                Meaning::Deadlock | Meaning::Locked | Meaning::TooSlow | Meaning::Duplicate => {
                    connection.give_back();
                    return Err(self.failure(failed, doing));
                }
                _ => return Err(self.failure(failed, doing)),
            }
        }
    }

    /// Another connection, for a statement that was sent on one that broke and may have been carried out.
    async fn connection_to_repeat(&self, lane: Lane, doing: Doing, deadline: Instant) -> Result<Connection> {
        match timeout_at(deadline, self.connection(lane)).await {
            // The outcome of the first sending is unknown, whatever fails now.
            Ok(Err(error)) if doing == Doing::Keeping => Err(error.with_kind(ErrorKind::Indeterminate)),
            Ok(connection) => connection,
            Err(_) => Err(self.no_answer(doing)),
        }
    }

    /// Runs a statement without parameters that ends a connection, which may have ended by itself.
    pub(crate) async fn tell(&self, text: &str) -> Result<()> {
        let mut connection = self.connection(Lane::Asking).await?;
        match self.in_time(Doing::Ending, connection.link().tell(text)).await {
            Ok(Err(error)) if self.meaning(&error) != Meaning::NoConnection => {
                if matches!(self.meaning(&error), Meaning::Broken | Meaning::Ended) {
                    connection.found_dead();
                }
                Err(self.failure(error, Doing::Ending))
            }
            Ok(_) => {
                connection.give_back();
                Ok(())
            }
            Err(no_answer) => {
                connection.found_dead();
                Err(no_answer)
            }
        }
    }
}

/// Two statements that met in a deadlock do not meet again at once.
fn jitter(tries: u32) -> Duration {
    let random = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), tries);
    Duration::from_micros(random % 2_000) * tries
}
