//! The statements of this mode.

use super::holder::{Holder, HolderRow};
use crate::lease::{ReadFor, foreign_row, perhaps_held};
use crate::names::range;
use crate::server::{
    Answer, ErrorClass, PoolClass, PooledConnection, Server, Statement, StatementKind, Value,
};
use leasehold_core::{Claim, Error, ErrorKind, FencingToken, LockMode, LockName, Namespace, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How often a lock is asked for, where its row had to be made first or an idle connection was dead; and how often its entry is written.
const TRIES: usize = 4;

/// Stored once the tokens of a name are used up. It is given to no holder.
const USED_UP: u64 = FencingToken::MAX_COUNTED + 1;

#[derive(Debug)]
pub(super) struct Rows {
    pub(super) server: Server,
    pub(super) namespace: Namespace,
    make_row: Statement,
    pub(super) exclusive: ModeStatements,
    shared: ModeStatements,
    pub(super) mark: Statement,
    pub(super) in_transaction: Statement,
    /// The question that a holder asks its server, again and again.
    pub(super) keep_alive: Arc<Statement>,
    look: Statement,
    look_where_writes_go: Statement,
    list: Statement,
    pub(super) idle: Statement,
    pub(super) purge: Statement,
    pub(super) purge_row: Statement,
}

/// The statements in which readers differ from others.
#[derive(Debug)]
pub(super) struct ModeStatements {
    pub(super) lock_now: Statement,
    lock: Statement,
    enter: Statement,
    leave: Statement,
}

#[derive(Debug)]
pub(super) struct LockedRow {
    pub(super) connection: PooledConnection,
    /// The server's number of the connection.
    pub(super) number: i64,
    /// The server's time at which the row was locked, or a moment later.
    pub(super) locked_at: i64,
}

impl Rows {
    pub(super) fn new(server: Server, namespace: &Namespace) -> Self {
        let (texts, holders) = (server.dialect().texts(), &server.target().table);
        let rows = holders.of_rows();
        let look = |lock| Statement::new(&include_str!("look.sql").replace("{lock}", lock), texts, holders);
        let statements = |lock, enter, leave| {
            let lock = texts.lock.replace("{lock}", lock);
            ModeStatements {
                lock_now: Statement::new(&lock.replace("{nowait}", "NOWAIT"), texts, &rows),
                lock: Statement::new(&lock.replace("{nowait}", ""), texts, &rows),
                enter: Statement::new(enter, texts, holders),
                leave: Statement::new(leave, texts, holders),
            }
        };
        Self {
            namespace: namespace.clone(),
            make_row: Statement::new(texts.make_row, texts, &rows),
            exclusive: statements("FOR UPDATE", texts.enter, include_str!("leave.sql")),
            shared: statements(texts.for_share, texts.enter_shared, texts.remove_sharer),
            mark: Statement::new(texts.mark, texts, holders),
            in_transaction: Statement::new(texts.in_transaction, texts, holders),
            keep_alive: Arc::new(Statement::new(texts.takes_writes, texts, &rows)),
            look: look(""),
            look_where_writes_go: look("FOR UPDATE"),
            list: Statement::new(include_str!("list.sql"), texts, holders),
            idle: Statement::new(include_str!("idle.sql"), texts, holders),
            purge: Statement::new(include_str!("purge.sql"), texts, holders),
            purge_row: Statement::new(include_str!("purge_row.sql"), texts, &rows),
            server,
        }
    }

    fn by_mode(&self, mode: LockMode) -> &ModeStatements {
        if mode.is_shared() { &self.shared } else { &self.exclusive }
    }

    /// Locks the row of a claim's name, in a transaction that may be idle for its ttl. `None` if another owner has it locked.
    pub(super) async fn lock_now(&self, claim: &Claim) -> Result<Option<LockedRow>> {
        let (name, lock) = (self.stored(claim.name()), &self.by_mode(claim.mode()).lock_now);
        self.locked(name, claim.ttl(), lock, self.server.target().timeout).await
    }

    /// Locks the row, and waits for it in the server. `None` if that took too long.
    pub(super) async fn lock_in_time(&self, claim: &Claim) -> Result<Option<LockedRow>> {
        // The server gives up first: it counts in whole seconds.
        let patience = self.server.target().timeout * 2 + Duration::from_secs(1);
        let (name, lock) = (self.stored(claim.name()), &self.by_mode(claim.mode()).lock);
        self.locked(name, claim.ttl(), lock, patience).await
    }

    /// True if a transaction has the row locked exclusively. This makes a missing row, and locks it for a moment as a reader does.
    pub(super) async fn is_locked_exclusively(&self, name: &LockName) -> Result<bool> {
        let within = self.server.target().timeout;
        match self.locked(self.stored(name), within, &self.shared.lock_now, within).await? {
            None => Ok(true),
            Some(locked) => {
                self.roll_back(locked.connection).await;
                Ok(false)
            }
        }
    }

    /// Locks the row of a name, as it is stored, in a transaction that may be idle for a time.
    pub(super) async fn locked(
        &self,
        name: Value,
        idle: Duration,
        lock: &Statement,
        patience: Duration,
    ) -> Result<Option<LockedRow>> {
        let mut may_be_in_our_way = false;
        for _ in 0..TRIES {
            // A broken connection may have locked the row: then no later error says that nothing is held.
            let told = |error| if may_be_in_our_way { perhaps_held(error) } else { error };
            let mut connection = self.server.connection_to_hold().await.map_err(told)?;
            let (begin, mut has_begun) = (self.server.dialect().begin(idle), false);
            let asked = timeout(patience, async {
                connection.raw().tell(&begin).await?;
                has_begun = true;
                connection.raw().ask(lock, std::slice::from_ref(&name)).await
            });
            match asked.await {
                // The connection is closed. What it may have locked is let go when the server notices, and not before.
                Err(_) => {
                    connection.found_dead();
                    return Err(self.server.no_answer(StatementKind::Write));
                }
                Ok(Ok(answer)) => match self.read_locked(&answer)? {
                    Some((number, locked_at)) => {
                        return Ok(Some(LockedRow { connection, number, locked_at }));
                    }
                    None => {
                        self.roll_back(connection).await;
                        let (kind, name) = (StatementKind::MakeRow, std::slice::from_ref(&name));
                        self.server.execute(PoolClass::Attempt, kind, &self.make_row, name).await?;
                    }
                },
                Ok(Err(error)) => match self.server.dialect().error_class(&error) {
                    // The transaction does not end by itself: after error 1205 it goes on.
                    ErrorClass::Locked => {
                        self.roll_back(connection).await;
                        if !may_be_in_our_way {
                            return Ok(None);
                        }
                        let message =
                            "a connection broke while the row was being locked, and it is locked now";
                        return Err(Error::new(ErrorKind::Indeterminate, message).with_help(
                            "try again: the server lets go of what a broken connection has locked when it notices",
                        ));
                    }
                    // Possible although no owner has the row locked.
                    ErrorClass::Deadlock | ErrorClass::TooSlow => {
                        self.roll_back(connection).await;
                        return Err(told(self.server.failure(error, StatementKind::Write)));
                    }
                    // The server has ended a connection: nothing is locked by it any more. It may not have noticed a broken one.
                    broke @ (ErrorClass::Broken | ErrorClass::Ended) if connection.was_idle() => {
                        may_be_in_our_way |= has_begun && broke == ErrorClass::Broken;
                        connection.found_dead();
                    }
                    _ => return Err(told(self.server.failure(error, StatementKind::Write))),
                },
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "the row of the name was not there each time after it was made")
            .with_help("`config check` looks for several servers behind the address; or find out who deletes from the table"))
    }

    /// The number of the connection that has the row locked, and the server's time; `None` if there is no such row.
    fn read_locked(&self, answer: &Answer) -> Result<Option<(i64, i64)>> {
        let Some(row) = answer.rows.first() else {
            return Ok(None);
        };
        match row.as_slice() {
            [Value::Int(Some(1)), Value::Int(Some(number)), Value::Int(Some(now))] => {
                Ok(Some((*number, *now)))
            }
            [Value::Int(Some(0)), ..] => {
                let message = "a row was to be locked in a transaction, and there was none";
                Err(Error::new(ErrorKind::Misconfigured, message).with_help(
                    "something in between gives each statement another connection: go around that pooler, or use mode=lease",
                ))
            }
            _ => Err(self.server.unreadable()),
        }
    }

    /// Enters a holder, and answers its token; `None` if its connection does not have the row locked any more. No later holder can replace
    /// the entry while the row is locked.
    pub(super) async fn enter(&self, claim: &Claim, locked: &mut LockedRow) -> Result<Option<FencingToken>> {
        let owner = match claim.mode().is_shared() {
            true => Value::text(&claim.owner().to_hex()),
            false => Value::bytes(claim.owner().to_bytes()),
        };
        // The entry is refused if a larger token is stored: one of a later holder, whose token is at least the time of its grant.
        let (number, mut limit) = (locked.number, Value::int(locked.locked_at));
        for _ in 0..TRIES {
            let (name, holder) = (self.stored(claim.name()), Value::text(claim.holder()));
            let values = [name, owner.clone(), Value::int(number), holder, limit];
            let statement = &self.by_mode(claim.mode()).enter;
            let answer = self.server.write(PoolClass::Renewal, statement, &values).await?;
            let token = answer.first().and_then(Value::as_int).map_or(answer.last_id, i64::cast_unsigned);
            if (1..=USED_UP).contains(&token) {
                return token_of(token).map(Some);
            }
            // A trigger hides the token; or the statement was refused: it was sent twice, a late statement of an earlier holder came
            // before it, the stored token is ahead of the server's clock, or this client is late itself.
            let entered = self.look(ReadFor::Holder, claim.name()).await?;
            let entered = entered.ok_or_else(|| self.server.unreadable())?;
            let is_own = |it: &&Holder| it.is_of(claim.owner()) && it.connection == number;
            if let Some(own) = entered.holders.iter().find(is_own) {
                return token_of(own.token.get()).map(Some);
            }
            // Asked after the look: while the row is locked, what was seen there is no later holder's.
            let question = locked.connection.raw().ask(&self.keep_alive, &[]);
            match self.server.in_time(StatementKind::Write, question).await? {
                Ok(answer) if answer.is_one() => limit = Value::int(entered.token.get()),
                _ => return Ok(None),
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "another entry was written each time before this one"))
    }

    /// Notes that a holder has left. False if its entry may stay.
    pub(super) async fn leave(&self, name: &LockName, mode: LockMode, token: FencingToken) -> bool {
        match mode.is_shared() {
            true => self.remove_sharer(name, &token.get().to_string()).await,
            false => self.remove(&self.exclusive.leave, name, Value::int(token.get())).await,
        }
    }

    /// Removes the reader with this token, or the mark of this owner. False if it may stay.
    pub(super) async fn remove_sharer(&self, name: &LockName, token_or_owner: &str) -> bool {
        self.remove(&self.shared.leave, name, Value::text(token_or_owner)).await
    }

    async fn remove(&self, statement: &Statement, name: &LockName, entry: Value) -> bool {
        let removed = self.server.write(PoolClass::Renewal, statement, &[self.stored(name), entry]).await;
        if let Err(error) = &removed {
            tracing::debug!(target: "leasehold", %name, %error, "an entry stays");
        }
        removed.is_ok()
    }

    /// Ends the transaction of a connection, and gives it back; otherwise it is closed.
    pub(super) async fn roll_back(&self, mut connection: PooledConnection) {
        if matches!(self.end_transaction(&mut connection).await, Ok(true)) {
            connection.give_back();
        }
    }

    /// Rolls a transaction back; false if the server had ended its connection. After an error it may have been rolled back.
    pub(super) async fn end_transaction(&self, connection: &mut PooledConnection) -> Result<bool> {
        match self.server.in_time(StatementKind::End, connection.raw().tell("ROLLBACK")).await? {
            Ok(()) => Ok(true),
            Err(error) if self.server.dialect().error_class(&error) == ErrorClass::Ended => Ok(false),
            Err(error) => Err(self.server.failure(error, StatementKind::End)),
        }
    }

    pub(super) async fn look(&self, reason: ReadFor, name: &LockName) -> Result<Option<HolderRow>> {
        let (class, look) = match reason {
            ReadFor::Attempt => (PoolClass::Attempt, &self.look),
            ReadFor::Holder | ReadFor::Loss => (PoolClass::Renewal, &self.look_where_writes_go),
        };
        let answer = self.server.read(class, look, &[self.stored(name)]).await?;
        let Some(row) = answer.rows.first() else { return Ok(None) };
        HolderRow::read(row).map(Some).ok_or_else(|| foreign_row(name, &self.server.target().table))
    }

    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<HolderRow>> {
        let (first, behind) = range(self.namespace.stored(prefix));
        let values = [Value::bytes(first), Value::bytes(behind)];
        let answer = self.server.read(PoolClass::Attempt, &self.list, &values).await?;
        Ok(answer.rows.iter().filter_map(|row| HolderRow::read(row)).collect())
    }

    pub(super) fn stored(&self, name: &LockName) -> Value {
        Value::bytes(self.namespace.stored(name.as_str()))
    }
}

fn token_of(token: u64) -> Result<FencingToken> {
    if token < USED_UP { Ok(FencingToken::new(token)) } else { Err(Error::tokens_used_up()) }
}
