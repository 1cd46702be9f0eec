//! One statement with a deadline, and what is known of it afterwards.

use super::{Answer, ErrorClass, PoolClass, Server, Statement, StatementKind, Value};
use leasehold_core::{ErrorKind, Result};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How often a statement that was the victim of a deadlock is tried again, within its deadline. Two statements on one
/// row of one index cannot lock each other out; a third program's transaction can.
const DEADLOCKS: u32 = 8;

impl Server {
    /// Runs one statement, in a transaction of its own.
    ///
    /// A statement on a connection that was idle and turns out to be dead is sent again on a new one: everything that is
    /// sent this way may be repeated, as the contract of backends wants it. A [`StatementKind::End`] is not sent again:
    /// after a success without an answer it would find nothing to end.
    pub(crate) async fn execute(
        &self,
        class: PoolClass,
        kind: StatementKind,
        statement: &Statement,
        values: &[Value],
    ) -> Result<Answer> {
        let mut broke = false;
        let answer = self.execute_or_repeat(class, kind, statement, values, &mut broke).await;
        answer.map_err(|error| match broke && kind == StatementKind::Write {
            true => error.with_kind(ErrorKind::Indeterminate),
            false => error,
        })
    }

    pub(crate) async fn read(
        &self,
        class: PoolClass,
        statement: &Statement,
        values: &[Value],
    ) -> Result<Answer> {
        self.execute(class, StatementKind::Read, statement, values).await
    }

    pub(crate) async fn write(
        &self,
        class: PoolClass,
        statement: &Statement,
        values: &[Value],
    ) -> Result<Answer> {
        self.execute(class, StatementKind::Write, statement, values).await
    }

    /// Runs a grant, for a caller that can find out the outcome of a first sending. True beside the answer if there was one, over a
    /// connection that broke: the answer says nothing of it.
    pub(crate) async fn grant(&self, statement: &Statement, values: &[Value]) -> (Result<Answer>, bool) {
        let (class, kind, mut broke) = (PoolClass::Attempt, StatementKind::Write, false);
        let answer = self.execute_or_repeat(class, kind, statement, values, &mut broke).await;
        (answer, broke)
    }

    /// Sets `broke` once an idle connection has, over which the statement was sent.
    async fn execute_or_repeat(
        &self,
        class: PoolClass,
        kind: StatementKind,
        statement: &Statement,
        values: &[Value],
        broke: &mut bool,
    ) -> Result<Answer> {
        let mut connection = self.connection(class).await?;
        // The time to wait for a connection does not count: a statement that was sent has the whole time-out.
        let deadline = Instant::now() + self.target().timeout;
        let mut deadlocks = 0;
        loop {
            let failed = match timeout_at(deadline, connection.raw().ask(statement, values)).await {
                Ok(Ok(answer)) => {
                    connection.give_back();
                    return Ok(answer);
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    connection.found_dead();
                    return Err(self.no_answer(kind));
                }
            };
            // Two statements that met in a deadlock do not meet again at once.
            let pause = Duration::from_micros(fastrand::u64(..2_000)) * (deadlocks + 1);
            match self.dialect().error_class(&failed) {
                ErrorClass::Deadlock if deadlocks < DEADLOCKS && Instant::now() + pause < deadline => {
                    deadlocks += 1;
                    tokio::time::sleep(pause).await;
                }
                ErrorClass::Broken | ErrorClass::Ended
                    if connection.was_idle() && !*broke && kind != StatementKind::End =>
                {
                    *broke = true;
                    connection.found_dead();
                    connection = match timeout_at(deadline, self.connection(class)).await {
                        // The outcome of the first sending is unknown, whatever fails now.
                        Ok(Err(error)) if kind == StatementKind::Write => {
                            return Err(error.with_kind(ErrorKind::Indeterminate));
                        }
                        another => another.map_err(|_| self.no_answer(kind))??,
                    };
                }
                // The server was replaced. A new connection may lead to its replacement.
                ErrorClass::ReadOnly if connection.was_idle() => {
                    connection.found_dead();
                    let Ok(Ok(another)) = timeout_at(deadline, self.connection(class)).await else {
                        return Err(self.failure(failed, kind));
                    };
                    connection = another;
                }
                // Another client has just made the row, and may have locked it.
                ErrorClass::Duplicate | ErrorClass::Locked if kind == StatementKind::MakeRow => {
                    connection.give_back();
                    return Ok(Answer::default());
                }
                // The connection to end has ended by itself.
                ErrorClass::NoConnection if kind == StatementKind::End => {
                    connection.give_back();
                    return Ok(Answer::default());
                }
                ErrorClass::Broken | ErrorClass::Ended => {
                    connection.found_dead();
                    return Err(self.failure(failed, kind));
                }
                // The statement failed, and the connection is as good as before.
                ErrorClass::Deadlock | ErrorClass::Locked | ErrorClass::TooSlow | ErrorClass::Duplicate => {
                    connection.give_back();
                    return Err(self.failure(failed, kind));
                }
                _ => return Err(self.failure(failed, kind)),
            }
        }
    }
}
