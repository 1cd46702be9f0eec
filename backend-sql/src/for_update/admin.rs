use super::HeldRow;
use super::holder::Holder;
use crate::server::{PoolClass, Statement, StatementKind, Value};
use async_trait::async_trait;
use leasehold_core::{
    Error, ErrorKind, FencingToken, Finding, LockAdmin, LockName, LockStatus, Purge, Result, Waiter,
};
use std::time::Duration;
use tokio::time::Instant;

/// How often a lock that is about to end is looked at until it is free.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

#[async_trait]
impl LockAdmin for HeldRow {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let holder = self.holder(name).await?;
        Ok(holder.and_then(|holder| holder.status(self.rows.namespace())).into_iter().collect())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let mut held = Vec::new();
        for holder in self.rows.list(prefix).await? {
            // What is entered is only what was; the row says what is.
            let Some(status) = holder.status(self.rows.namespace()) else { continue };
            if self.is_locked(&status.name).await? {
                held.push(status);
            }
        }
        Ok(held)
    }

    async fn waiters(&self, _name: &LockName) -> Result<Vec<Waiter>> {
        Ok(Vec::new())
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let Some(holder) = self.holder(name).await? else {
            return Ok(Vec::new());
        };
        // An entry from before the start of the server does not name the connection that has the row locked.
        let is_another = only_if.is_some_and(|token| token != holder.token);
        if is_another || !self.rows.is_of_this_run(holder.token).await? {
            return Ok(Vec::new());
        }
        self.end_hold(name, &holder).await?;
        Ok(holder.status(self.rows.namespace()).into_iter().collect())
    }

    async fn init(&self) -> Result<()> {
        self.rows.server().init().await
    }

    fn init_script(&self) -> Option<String> {
        Some(self.rows.server().schema())
    }

    async fn purge(&self, idle: Duration, purge: Purge) -> Result<Option<u64>> {
        self.forget_idle(idle, purge).await.map(Some)
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        self.forget_names(names).await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        let findings = self.rows.server().check().await?;
        crate::trial::after(findings, self, self).await
    }
}

impl HeldRow {
    /// The holder that has the row locked now.
    async fn holder(&self, name: &LockName) -> Result<Option<Holder>> {
        let holder = self.rows.look(PoolClass::Attempt, name).await?;
        Ok(if holder.is_some() && self.is_locked(name).await? { holder } else { None })
    }

    async fn is_locked(&self, name: &LockName) -> Result<bool> {
        Ok(self.is_held_here(name) || self.rows.is_locked(name).await?)
    }

    /// Ends the connection that has the row locked.
    async fn end_hold(&self, name: &LockName, holder: &Holder) -> Result<()> {
        let server = self.rows.server();
        let end = server.dialect().texts().for_update.end_connection;
        let end = end.replace("{connection}", &holder.connection.to_string());
        let end = Statement::new(&end, server.dialect(), &server.target().table);
        let values = [Value::int(holder.connection), Value::int(holder.token.get())];
        let ended = server.execute(PoolClass::Attempt, StatementKind::End, &end, &values).await;
        ended.map_err(|error| match error.kind() {
            ErrorKind::Denied => not_ended(name, holder).with_source(error),
            _ => error,
        })?;
        // It may be one of this client's.
        self.forget_grant(name, holder.token);
        self.until_ended(name, holder).await
    }

    /// Waits until it is seen that a hold has ended.
    async fn until_ended(&self, name: &LockName, holder: &Holder) -> Result<()> {
        let server = self.rows.server();
        let deadline = Instant::now() + server.target().timeout;
        while self.rows.is_locked(name).await? {
            let now = self.rows.look(PoolClass::Attempt, name).await?;
            if now.is_some_and(|now| now.token != holder.token) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(not_ended(name, holder));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.rows.leave(name, holder.owner).await;
        Ok(())
    }
}

fn not_ended(name: &LockName, holder: &Holder) -> Error {
    let message = format!("lock {name:?} is still held by connection {}", holder.connection);
    Error::new(ErrorKind::Denied, message)
        .with_help("end that connection as its own user, or as an administrator")
}
