use crate::EtcdBackend;
use crate::check;
use crate::etcd_error::EtcdError;
use crate::keys::{mode_of, parse_value, token};
use crate::recipe;
use crate::rpc::{KeyValue, LeaseRequest, RANGE, RangeRequest, TIME_TO_LIVE};
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use leasehold_core::{
    FencingToken, Finding, HolderInfo, LockAdmin, LockMode, LockName, LockStatus, Result, Waiter,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most leases that are looked at at once.
const READS_AT_ONCE: usize = 128;

#[async_trait]
impl LockAdmin for EtcdBackend {
    /// A hold of another program is shown like one of ours: its key has a token too, and its value is given as the description.
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let (holders, _) = self.queue(name).await?;
        Ok(self.statuses(holders.into_iter().map(|key| (name.clone(), key)).collect()).await)
    }

    /// Reads all keys of all locks that fit.
    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let mut queues: BTreeMap<LockName, Vec<KeyValue>> = BTreeMap::new();
        for key in self.read(self.names.keys_of(prefix)).await? {
            if let Some(name) = self.names.name_of(&key.key) {
                queues.entry(name).or_default().push(key);
            }
        }
        let held = queues.into_iter().flat_map(|(name, mut queue)| {
            queue.truncate(holders(&queue));
            queue.into_iter().map(move |key| (name.clone(), key))
        });
        Ok(self.statuses(held.collect()).await)
    }

    /// In the order in which they will be served.
    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let (_, waiters) = self.queue(name).await?;
        let waiters = waiters.iter().map(|key| parse_value(&key.value));
        Ok(waiters.map(|(owner, holder)| Waiter::new(owner, HolderInfo::from_json(&holder))).collect())
    }

    /// Deletes the keys of the holders by the revisions at which they were created, so it cannot hit the next holder.
    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let (holders, _) = self.queue(name).await?;
        let mut released = Vec::new();
        for key in holders {
            if only_if.is_none_or(|only| only == token(key.create_revision)) {
                let status = self.status(name.clone(), key.clone()).await;
                let deleted = recipe::delete(&self.members, &key.key, key.create_revision).await;
                released.extend(deleted.map_err(EtcdError::into_error)?.then_some(status));
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
    /// The holders and the waiters of a lock, in their order.
    async fn queue(&self, name: &LockName) -> Result<(Vec<KeyValue>, Vec<KeyValue>)> {
        let mut queue = self.read(self.names.directory_of(name).all()).await?;
        let waiters = queue.split_off(holders(&queue));
        Ok((queue, waiters))
    }

    /// The keys of a range, in the order of their create revisions.
    async fn read(&self, range: RangeRequest) -> Result<Vec<KeyValue>> {
        Ok(self.members.call(&RANGE, range).await.map_err(EtcdError::into_read_error)?.kvs)
    }

    async fn statuses(&self, holds: Vec<(LockName, KeyValue)>) -> Vec<LockStatus> {
        let statuses = stream::iter(holds).map(|(name, key)| self.status(name, key));
        statuses.buffered(READS_AT_ONCE).collect().await
    }

    async fn status(&self, name: LockName, key: KeyValue) -> LockStatus {
        let (owner, holder) = parse_value(&key.value);
        let mut status = LockStatus::new(name);
        status.mode = mode_of(&key);
        status.owner = owner;
        status.token = Some(token(key.create_revision));
        status.holder = HolderInfo::from_json(&holder);
        status.ends_in = self.ends_in(key.lease).await;
        status
    }

    /// The rest of a lease, rounded up to whole seconds. `None` without a lease, and if the server does not say.
    async fn ends_in(&self, lease: i64) -> Option<Duration> {
        let answer = self.members.call(&TIME_TO_LIVE, LeaseRequest { id: lease }).await.ok()?;
        let seconds = (answer.ttl + 1).min(answer.granted_ttl);
        (answer.granted_ttl > 0).then(|| Duration::from_secs(seconds.max(0).unsigned_abs()))
    }
}

/// How many contenders at the beginning of a queue hold the lock: a writer, or all readers in front of the first writer.
fn holders(queue: &[KeyValue]) -> usize {
    let readers = queue.iter().take_while(|key| mode_of(key) == LockMode::Shared).count();
    readers.max(usize::from(!queue.is_empty()))
}
