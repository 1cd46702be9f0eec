use super::{ATTEMPTS, LeaseRow, READERS, RowLease, RowState};
use async_trait::async_trait;
use leasehold_core::{
    Error, ErrorKind, FencingToken, Finding, LockAdmin, LockName, LockStatus, Purge, Result, Waiter,
};
use std::time::Duration;

#[async_trait]
impl LockAdmin for RowLease {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        for _ in 0..ATTEMPTS {
            match self.table.look(name).await? {
                // The readers may have left since, and the row may be another owner's.
                Some(row) if row.owner == READERS && row.state != RowState::Free => {
                    let readers = self.readers(name).await?;
                    if !readers.is_empty() {
                        return Ok(readers);
                    }
                }
                row => {
                    return Ok(row.and_then(|row| row.status(self.table.namespace())).into_iter().collect());
                }
            }
        }
        Ok(Vec::new())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let mut statuses = Vec::new();
        for row in self.table.list(prefix).await? {
            match row.status(self.table.namespace()) {
                Some(status) if row.owner == READERS => statuses.extend(self.inspect(&status.name).await?),
                status => statuses.extend(status),
            }
        }
        Ok(statuses)
    }

    async fn waiters(&self, _name: &LockName) -> Result<Vec<Waiter>> {
        Ok(Vec::new())
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let readers = self.end_readers(name, only_if).await?;
        if !readers.is_empty() {
            return Ok(readers);
        }
        Ok(self.break_open(name, only_if).await?.into_iter().collect())
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
        let findings = self.table.check().await?;
        match self.table.is_there().await? {
            true => crate::trial::after(findings, self, self).await,
            false => Ok(findings),
        }
    }
}

impl RowLease {
    /// Ends the grant that was read, known by its token, so that the answer describes the grant that was ended. If the lock
    /// has changed hands in between, reads again.
    async fn break_open(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Option<LockStatus>> {
        for _ in 0..ATTEMPTS {
            let row = self.table.look(name).await?;
            let is_meant =
                |row: &LeaseRow| row.owner != READERS && only_if.is_none_or(|only| only == row.token);
            let Some(row) = row.filter(is_meant) else {
                return Ok(None);
            };
            let Some(status) = row.status(self.table.namespace()) else {
                return Ok(None);
            };
            if self.table.end_grant(name, row.token).await? {
                return Ok(Some(status));
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("lock {name:?} changed hands {ATTEMPTS} times while it was to be freed"),
        )
        .with_help("it is in lively use; look at it again"))
    }
}
