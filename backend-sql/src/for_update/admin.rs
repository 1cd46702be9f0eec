use super::HeldRow;
use super::holder::{Holder, HolderRow};
use super::rows::Rows;
use crate::lease::ReadFor;
use crate::names::range;
use crate::server::{PoolClass, Statement, StatementKind, Value, name_the_right};
use async_trait::async_trait;
use leasehold_core::{
    Error, ErrorKind, FencingToken, Finding, LockAdmin, LockName, LockStatus, Purge, Result,
};
use std::time::Duration;
use tokio::time::Instant;

/// The pause between two looks at a lock that is about to end.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

#[async_trait]
impl LockAdmin for HeldRow {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        Ok(self.holders(name).await?.iter().map(|holder| holder.status(name)).collect())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        self.rows.server.check_writes().await?;
        let mut held = Vec::new();
        for entered in self.rows.list(prefix).await? {
            let Some(name) = self.rows.namespace.name(&entered.stored_name) else { continue };
            held.extend(self.present(&name, Some(entered)).await?.iter().map(|holder| holder.status(&name)));
        }
        Ok(held)
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let (mut ended, mut failure) = (Vec::new(), None);
        let is_checked_by_itself =
            !self.rows.server.dialect().texts().end_connection.contains("{connection}");
        for holder in self.holders(name).await? {
            let is_meant = only_if.is_none_or(|token| token == holder.token);
            // After a restart of MySQL, the number in an entry may be that of another session.
            if is_meant && (is_checked_by_itself || self.rows.entry_may_hold(&holder).await?) {
                match self.end_hold(name, &holder).await {
                    Ok(()) => ended.push(holder.status(name)),
                    // The other readers end nevertheless.
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        failure.map_or(Ok(ended), Err)
    }

    async fn init(&self) -> Result<()> {
        self.rows.server.init().await
    }

    fn init_script(&self) -> Option<String> {
        Some(self.rows.server.init_script())
    }

    async fn purge(&self, idle: Duration, purge: Purge) -> Result<Option<u64>> {
        self.forget_idle(idle, purge).await.map(Some)
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        for name in names {
            let name = self.rows.namespace.stored(name.as_str());
            self.rows.forget(name.as_bytes(), &Value::int(0), Purge::Delete).await?;
        }
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        let findings = self.rows.server.check().await?;
        crate::trial::after(findings, self, self).await
    }
}

impl HeldRow {
    /// The holders of the lock now: writers that have the row locked, and readers whose connection lives.
    async fn holders(&self, name: &LockName) -> Result<Vec<Holder>> {
        self.rows.server.check_writes().await?;
        let entered = self.rows.look(ReadFor::Attempt, name).await?;
        let present = self.present(name, entered).await?;
        if !present.is_empty() {
            return Ok(present);
        }
        self.present(name, self.read_entry(name).await?).await
    }

    /// Read on the primary: a replica that is behind, and is asked by a proxy, shows a held lock as free. If that fails, because the
    /// entry is locked or the right to lock it is missing, a plain read is believed.
    async fn read_entry(&self, name: &LockName) -> Result<Option<HolderRow>> {
        match self.rows.look(ReadFor::Loss, name).await {
            Err(_) => self.rows.look(ReadFor::Attempt, name).await,
            entered => entered,
        }
    }

    /// The holders that hold now: an entry may outlive its hold.
    async fn present(&self, name: &LockName, entered: Option<HolderRow>) -> Result<Vec<Holder>> {
        let mut present = Vec::new();
        for holder in entered.into_iter().flat_map(|entered| entered.holders) {
            if self.still_holds(name, &holder).await? {
                present.push(holder);
            }
        }
        Ok(present)
    }

    /// False if the hold is known to have ended.
    async fn still_holds(&self, name: &LockName, holder: &Holder) -> Result<bool> {
        if holder.mode.is_shared() {
            return self.rows.entry_may_hold(holder).await;
        }
        if self.has_hold(|hold| hold.name == *name && hold.token == holder.token) {
            return Ok(true);
        }
        if !self.rows.is_locked_exclusively(name).await? {
            return Ok(false);
        }
        let entered = self.read_entry(name).await?;
        Ok(entered.is_none_or(|entered| entered.token == holder.token))
    }

    /// Ends the connection that has the row locked, and waits until that is seen.
    async fn end_hold(&self, name: &LockName, holder: &Holder) -> Result<()> {
        let server = &self.rows.server;
        let end = server.dialect().texts().end_connection;
        let end = end.replace("{connection}", &holder.connection.to_string());
        let end = Statement::new(&end, server.dialect().texts(), &server.target().table);
        let values = [Value::int(holder.connection), Value::int(holder.token.get())];
        let ended = server.execute(PoolClass::Attempt, StatementKind::End, &end, &values).await;
        ended.map_err(|error| match error.kind() {
            ErrorKind::Denied => not_ended(name, holder).with_source(error),
            _ => error,
        })?;
        // It may be one of this client's.
        self.claims.forget_grant(name, holder.token);
        let deadline = Instant::now() + server.target().timeout;
        while self.still_holds(name, holder).await? {
            if Instant::now() >= deadline {
                return Err(not_ended(name, holder));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.rows.leave(name, holder.mode, holder.token).await;
        Ok(())
    }

    async fn forget_idle(&self, idle: Duration, purge: Purge) -> Result<u64> {
        Purge::check_idle(idle)?;
        let idle = Value::int(idle.as_micros());
        let (mut from, behind) = range(self.rows.namespace.stored(""));
        let mut forgotten = 0;
        loop {
            let values = [Value::bytes(from.clone()), Value::bytes(behind.clone()), idle.clone()];
            let names = self.rows.server.read(PoolClass::Attempt, &self.rows.idle, &values).await?;
            let names: Vec<&[u8]> = names.rows.iter().filter_map(|row| row.first()?.as_bytes()).collect();
            let Some(last) = names.last() else {
                return Ok(forgotten);
            };
            from = [last, [0].as_slice()].concat();
            for name in names {
                let gone = self.rows.forget(name, &idle, purge).await;
                forgotten += u64::from(gone.map_err(name_the_right)?);
            }
        }
    }
}

impl Rows {
    /// Forgets one name, in a transaction that locks its row; false if another has it. A waiter then makes the row anew.
    async fn forget(&self, name: &[u8], idle: &Value, purge: Purge) -> Result<bool> {
        let (within, lock) = (self.server.target().timeout, &self.exclusive.lock_now);
        let Some(mut locked) = self.locked(Value::bytes(name), within, lock, within).await? else {
            return Ok(false);
        };
        if purge != Purge::Delete {
            self.roll_back(locked.connection).await;
            return Ok(true);
        }
        let values = [Value::bytes(name), idle.clone()];
        let connection = locked.connection.raw();
        let deleted = self.server.in_time(StatementKind::Write, async {
            let is_idle = connection.ask(&self.purge, &values).await?.changed > 0;
            if is_idle {
                connection.ask(&self.purge_row, &values[..1]).await?;
            }
            connection.tell("COMMIT").await?;
            Ok(is_idle)
        });
        let is_idle = deleted.await?.map_err(|error| self.server.failure(error, StatementKind::Write))?;
        locked.connection.give_back();
        Ok(is_idle)
    }
}

fn not_ended(name: &LockName, holder: &Holder) -> Error {
    let message = format!("lock {name:?} is still held by connection {}", holder.connection);
    Error::new(ErrorKind::Denied, message)
        .with_help("end that connection as its own user, or as an administrator")
}
