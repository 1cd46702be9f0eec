use super::sharers::Reader;
use super::{ATTEMPTS, LeaseRow, READERS, ReadFor, RowLease};
use async_trait::async_trait;
use leasehold_core::{
    Error, ErrorKind, FencingToken, Finding, LockAdmin, LockName, LockStatus, Purge, Result,
};
use std::time::Duration;

#[async_trait]
impl LockAdmin for RowLease {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        self.table.check_writes().await?;
        let mut row = self.table.look(name, ReadFor::Attempt).await?;
        if row.as_ref().is_none_or(|row| row.ends_in().is_none()) {
            // A replica that is behind, and is asked by a proxy, shows a held row as free. Without the right to lock it, that is believed.
            row = self.table.look(name, ReadFor::Loss).await.unwrap_or(row);
        }
        let statuses = row.map_or(Some(Vec::new()), |row| row.statuses(name));
        statuses.ok_or_else(|| self.table.foreign(name))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let statuses = |row: LeaseRow| {
            let name = self.table.namespace().name(&row.stored_name)?;
            row.statuses(&name)
        };
        Ok(self.table.list(prefix).await?.into_iter().filter_map(statuses).flatten().collect())
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let is_meant = |reader: &Reader| only_if.is_none_or(|token| token.get() == reader.token);
        let readers = self.end_readers(name, ReadFor::Loss, Duration::ZERO, is_meant).await?;
        if !readers.is_empty() {
            return Ok(readers);
        }
        self.break_open(name, only_if).await
    }

    async fn init(&self) -> Result<()> {
        self.table.init().await
    }

    fn init_script(&self) -> Option<String> {
        Some(self.table.init_script())
    }

    async fn purge(&self, idle: Duration, purge: Purge) -> Result<Option<u64>> {
        Purge::check_idle(idle)?;
        self.table.purge(idle, purge).await.map(Some)
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        self.table.forget(names).await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        match self.table.check().await? {
            (findings, true) => crate::trial::after(findings, self, self).await,
            (findings, false) => Ok(findings),
        }
    }
}

impl RowLease {
    /// Ends the grant that was read, known by its token, so that the answer describes the grant that was ended. If the lock
    /// has changed hands in between, reads again.
    async fn break_open(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        for _ in 0..ATTEMPTS {
            let row = self.table.look(name, ReadFor::Loss).await?;
            let is_meant =
                |row: &LeaseRow| row.owner != Some(READERS) && only_if.is_none_or(|only| only == row.token);
            let Some(row) = row.filter(is_meant) else {
                return Ok(Vec::new());
            };
            let statuses = row.statuses(name).unwrap_or_default();
            if statuses.is_empty() || self.table.end_grant(name, row.token).await? {
                return Ok(statuses);
            }
        }
        let message = format!("lock {name:?} changed hands {ATTEMPTS} times while it was to be freed");
        Err(Error::new(ErrorKind::Unavailable, message).with_help("it is in lively use; look at it again"))
    }
}
