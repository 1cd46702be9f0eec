use crate::EtcdBackend;
use crate::check;
use crate::claims::token;
use crate::failure::EtcdError;
use crate::keys::{Directory, parse_value};
use crate::release::{self, all, holders, queue};
use crate::wire::{KeyValue, LeaseTimeToLiveRequest};
use async_trait::async_trait;
use futures_util::future::join_all;
use leasehold_core::{FencingToken, Finding, HolderInfo, LockAdmin, LockName, LockStatus, Result, Waiter};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most leases that are looked at at once.
const READS_AT_ONCE: usize = 128;

#[async_trait]
impl LockAdmin for EtcdBackend {
    /// A hold of another program is shown like one of ours: its key has a token too, and its value is given as the description.
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let mut queue = self.queue(name).await?;
        queue.truncate(holders(&queue));
        Ok(self.statuses(queue.into_iter().map(|key| (name.clone(), key)).collect()).await)
    }

    /// Reads all keys of all locks that fit.
    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let keys = all(&self.shared.members, &self.names.keys_of(prefix)).await;
        let mut queues: BTreeMap<LockName, Vec<KeyValue>> = BTreeMap::new();
        for key in keys.map_err(EtcdError::into_read_error)? {
            if let Some(name) = self.names.name_of(&key.key) {
                queues.entry(name).or_default().push(key);
            }
        }
        let held = queues.into_iter().flat_map(|(name, mut queue)| {
            queue.sort_by_key(|key| key.create_revision);
            queue.truncate(holders(&queue));
            queue.into_iter().map(move |key| (name.clone(), key))
        });
        Ok(self.statuses(held.collect()).await)
    }

    /// In the order in which they will be served.
    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let queue = self.queue(name).await?;
        let waiters = queue.iter().skip(holders(&queue)).map(|key| {
            let (owner, holder) = parse_value(&key.value);
            Waiter::new(owner, HolderInfo::from_json(&holder))
        });
        Ok(waiters.collect())
    }

    /// Deletes the keys of the holders by the revisions at which they were created, so it cannot hit the next holder.
    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let mut released = Vec::new();
        for status in self.inspect(name).await? {
            let Some(token) = status.token.filter(|token| only_if.is_none_or(|only| only == *token)) else {
                continue;
            };
            let queue = self.queue(name).await?;
            let key = queue.iter().find(|key| self::token(key.create_revision) == token);
            let Some(key) = key else { continue };
            let deleted = release::delete(&self.shared.members, &key.key, key.create_revision).await;
            if deleted.map_err(EtcdError::into_error)? {
                released.push(status);
            }
        }
        Ok(released)
    }

    /// Nothing is needed.
    async fn init(&self) -> Result<()> {
        Ok(())
    }

    fn init_script(&self) -> Option<String> {
        None
    }

    /// Nothing is kept of a free name.
    async fn forget(&self, _names: &[LockName]) -> Result<()> {
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        check::check(self).await
    }
}

impl EtcdBackend {
    async fn queue(&self, name: &LockName) -> Result<Vec<KeyValue>> {
        let directory = self.names.directory_of(name);
        queue(&self.shared.members, &directory).await.map_err(EtcdError::into_read_error)
    }

    async fn statuses(&self, holds: Vec<(LockName, KeyValue)>) -> Vec<LockStatus> {
        let mut statuses = Vec::with_capacity(holds.len());
        for holds in holds.chunks(READS_AT_ONCE) {
            let ends = join_all(holds.iter().map(|(_, key)| self.ends_in(key.lease))).await;
            for ((name, key), ends_in) in holds.iter().zip(ends) {
                let (owner, holder) = parse_value(&key.value);
                let mut status = LockStatus::new(name.clone());
                status.mode = Directory::mode_of(key);
                status.owner = owner;
                status.token = Some(token(key.create_revision));
                status.holder = HolderInfo::from_json(&holder);
                status.ends_in = ends_in;
                statuses.push(status);
            }
        }
        statuses
    }

    /// The rest of a lease, rounded up to whole seconds. `None` without a lease, and if the server does not say.
    async fn ends_in(&self, lease: i64) -> Option<Duration> {
        if lease == 0 {
            return None;
        }
        let request = LeaseTimeToLiveRequest { id: lease };
        let answer = self.shared.members.ask(|link| async move { link.call(request).await }).await.ok()?;
        let seconds = (answer.ttl + 1).min(answer.granted_ttl);
        (answer.granted_ttl > 0).then(|| Duration::from_secs(seconds.max(0).unsigned_abs()))
    }
}
