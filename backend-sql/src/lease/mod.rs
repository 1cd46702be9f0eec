//! Leases in rows: attempts, renewals and releases on any database.
//!
//! Each write is one atomic statement of a [`LeaseTable`]. Where a claim needs the reason of a refusal, a plain read finds it.

mod admin;
#[cfg(feature = "_server")]
mod poller;
mod row;
mod semantics;
#[cfg(feature = "_server")]
mod server_table;
mod shared;
mod sharers;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use row::{LeaseRow, foreign_row};
pub(crate) use semantics::lease_semantics;
#[cfg(feature = "_server")]
pub(crate) use server_table::ServerTable;
pub(crate) use sharers::{NextRow, READERS};
pub(crate) use table::{Granting, LeaseTable, ReadFor};

use crate::lock_mutex;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, KnownServers, LockAdmin, LockBackend,
    LockName, OwnerId, Release, Renewal, Result, Semantics,
};
use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Mutex;
use std::time::Duration;

/// The number of tries of one attempt, the first included. The row may have changed since the refusal. Enough to take a lease that has ended; a
/// lock that changes hands faster is busy.
const ATTEMPTS: usize = 3;

/// The limit of a look for which a holder waits: for the cause of a loss, and in `for-update` also after a failed release.
pub(crate) const REASONS_WITHIN: Duration = Duration::from_millis(250);

/// The most names that are remembered as busy. A forgotten one costs a write in place of a read.
const MOST_BUSY: usize = 1024;

/// The number of turns of tasks that change readers. Tasks of different names may share one.
const TURNS: usize = 16;

/// In how many calls at most the readers of one client are renewed at a time.
const READER_GROUPS: u64 = 16;

/// Locks as leases, one row per name. Rows stay until they are [purged](LockAdmin::purge): the next token is made from the last.
#[derive(Debug)]
pub(crate) struct RowLease {
    table: Box<dyn LeaseTable>,
    /// The names that were busy when this process last asked, and that it has not released since. They decide only what an attempt costs.
    busy_names: Mutex<HashSet<LockName>>,
    /// The turns of the tasks that change readers: see `shared.rs`.
    turns: [tokio::sync::Mutex<()>; TURNS],
}

/// The error of a claim that may hold the lock already.
pub(crate) fn perhaps_held(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unavailable => error.with_kind(ErrorKind::Indeterminate),
        _ => error,
    }
}

impl RowLease {
    pub(crate) fn new(table: impl LeaseTable + 'static) -> Self {
        Self { table: Box::new(table), busy_names: Mutex::default(), turns: Default::default() }
    }
}

#[async_trait]
impl LockBackend for RowLease {
    fn semantics(&self) -> Semantics {
        self.table.semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if claim.mode().is_shared() {
            return self.acquire_by_version(claim).await;
        }
        if claim.waits() && self.table.keep_polling_if_held(claim) {
            return Ok(Attempt::Busy(Busy::new()));
        }
        if self.table.is_optimistic() {
            return self.acquire_by_version(claim).await;
        }
        // A row that was busy a moment ago is read before it is written. A write locks the row, or in SQLite the whole database, also if
        // it changes no row, and the holder's release would wait for it.
        if lock_mutex(&self.busy_names).contains(claim.name())
            && let Some(row) = self.table.look(claim.name(), ReadFor::Attempt).await?
            && let Some(busy) = self.busy_for(claim, &row).await?
        {
            return Ok(Attempt::Busy(busy));
        }
        for _ in 0..ATTEMPTS {
            let row = match self.table.grant(claim).await? {
                Granting::Granted(token) => return Ok(self.granted(claim.name(), token)),
                Granting::Held => return Ok(self.refused(claim.name(), Busy::new())),
                Granting::Refused(row) => row,
            };
            let Some(row) = row else { continue };
            if let Some(busy) = self.busy_for(claim, &row).await? {
                return Ok(self.refused(claim.name(), busy));
            }
            // If the claim holds the row, the reply to an earlier attempt was lost.
            if row.ends_in().is_some() {
                let renewed = self.table.renew(std::slice::from_ref(claim)).await.pop().transpose();
                if renewed.map_err(perhaps_held)? == Some(Renewal::Renewed) {
                    return Ok(self.granted(claim.name(), row.token));
                }
            }
        }
        Ok(Attempt::Busy(Busy::new()))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let (shared, exclusive): (Vec<_>, Vec<_>) = claims.iter().partition(|claim| claim.mode().is_shared());
        let exclusive: Vec<Claim> = exclusive.into_iter().cloned().collect();
        let renew_exclusive = async {
            match exclusive.is_empty() {
                true => Vec::new(),
                false => self.table.renew(&exclusive).await,
            }
        };
        let (mut answers, renewed) = tokio::join!(self.renew_shared(shared), renew_exclusive);
        answers.extend(exclusive.iter().map(Claim::owner).zip(renewed));
        claims.iter().map(|claim| answers[&claim.owner()].clone()).collect()
    }

    /// Readers of one name are renewed together, and apart from others: a row that many change delays the renewal of no other.
    fn renewal_group(&self, claim: &Claim) -> u64 {
        match claim.mode().is_shared() {
            true => 1 + hash_of(claim.name()) % READER_GROUPS,
            false => 0,
        }
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        if claim.mode().is_shared() {
            return self.release_shared(claim, linger).await;
        }
        let was_held = self.table.release(claim, linger).await?;
        if linger.is_zero() {
            lock_mutex(&self.busy_names).remove(claim.name());
        }
        if was_held {
            return Ok(Release::Released);
        }
        self.remove_mark(claim).await;
        Ok(Release::NotHeld)
    }

    async fn changed(&self, claim: &Claim) {
        self.table.changed(claim).await;
        lock_mutex(&self.busy_names).remove(claim.name());
    }

    /// Never ends: a holder learns of a loss by its next renewal.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn servers(&self) -> Option<&KnownServers> {
        self.table.servers()
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.table.close().await;
        Ok(())
    }
}

impl RowLease {
    /// The refusal for a claim; `None` if the row is free, or the claim's. A writer that waits for readers leaves its mark.
    async fn busy_for(&self, claim: &Claim, row: &LeaseRow) -> Result<Option<Busy>> {
        row.check_tokens()?;
        let busy = row.busy_for(claim.owner());
        if busy.is_none() || row.owner != Some(READERS) || !claim.waits() {
            return Ok(busy);
        }
        // Without a mark the writer waits as long as there are readers; its next attempt leaves one. Whether the mark was left may be
        // unknown, so a release removes it in any case.
        self.leave_mark(claim).await;
        Ok(busy.map(Busy::with_place_in_queue))
    }

    fn granted(&self, name: &LockName, token: FencingToken) -> Attempt {
        lock_mutex(&self.busy_names).remove(name);
        Attempt::Granted(Grant::new(token))
    }

    fn refused(&self, name: &LockName, busy: Busy) -> Attempt {
        let mut names = lock_mutex(&self.busy_names);
        if names.len() >= MOST_BUSY {
            names.clear();
        }
        names.insert(name.clone());
        Attempt::Busy(busy)
    }
}

pub(crate) fn hash_of(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
