use crate::EtcdBackend;
use crate::check;
use crate::keys::{delete, mode_of, parse_value, token};
use crate::rpc::{KeyValue, LeaseRequest, RANGE, RangeRequest, TIME_TO_LIVE};
use crate::server_error::of_read;
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
        self.statuses(self.names.contenders(name)).await
    }

    /// Reads all keys of all locks that fit.
    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        self.statuses(self.names.keys_of(prefix)).await
    }

    /// In the order in which they will be served.
    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let queue = self.read(self.names.contenders(name)).await?;
        let waiters = queue.iter().skip(count_holders(&queue)).map(|key| parse_value(&key.value));
        Ok(waiters.map(|(owner, holder)| Waiter::new(owner, HolderInfo::from_json(&holder))).collect())
    }

    /// Deletes the keys of the holders by the revisions at which they were created, so it cannot hit the next holder.
    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let mut released = Vec::new();
        for (name, key) in self.holds(self.names.contenders(name)).await? {
            if only_if.is_none_or(|only| only == token(key.create_revision)) {
                let status = self.status(name, key.clone()).await;
                let deleted = self.change(&key.key, key.create_revision, delete(&key.key)).await?;
                released.extend(deleted.then_some(status));
            }
        }
        Ok(released)
    }

    /// Makes nothing, and fails if the cluster cannot be read.
    async fn init(&self) -> Result<()> {
        let one = RangeRequest { limit: 1, ..self.names.keys_of("") };
        self.read(one).await.map(drop)
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
    /// The keys of a range, in the order of their create revisions.
    async fn read(&self, range: RangeRequest) -> Result<Vec<KeyValue>> {
        Ok(self.members.call(&RANGE, range).await.map_err(of_read)?.kvs)
    }

    /// The holders of all locks in a range, in the order of their names.
    async fn holds(&self, range: RangeRequest) -> Result<Vec<(LockName, KeyValue)>> {
        let mut queues: BTreeMap<LockName, Vec<KeyValue>> = BTreeMap::new();
        for key in self.read(range).await? {
            if let Some(name) = self.names.name_of(&key.key) {
                queues.entry(name).or_default().push(key);
            }
        }
        let holds = queues.into_iter().flat_map(|(name, mut queue)| {
            queue.truncate(count_holders(&queue));
            queue.into_iter().map(move |key| (name.clone(), key))
        });
        Ok(holds.collect())
    }

    async fn statuses(&self, range: RangeRequest) -> Result<Vec<LockStatus>> {
        let holds = stream::iter(self.holds(range).await?);
        Ok(holds.map(|(name, key)| self.status(name, key)).buffered(READS_AT_ONCE).collect().await)
    }

    async fn status(&self, name: LockName, key: KeyValue) -> LockStatus {
        let (owner, holder) = parse_value(&key.value);
        let mut status = LockStatus::new(name);
        (status.mode, status.owner, status.token) = (mode_of(&key), owner, Some(token(key.create_revision)));
        status.holder = HolderInfo::from_json(&holder);
        // The rest of the lease, rounded up to whole seconds. `None` without a lease, and if the server does not say.
        let lease = self.members.call(&TIME_TO_LIVE, LeaseRequest { id: key.lease }).await.ok();
        status.ends_in = lease
            .filter(|lease| lease.granted_ttl > 0)
            .map(|lease| Duration::from_secs((lease.ttl + 1).clamp(0, lease.granted_ttl).unsigned_abs()));
        status
    }
}

/// How many contenders at the beginning of a queue hold the lock: a writer, or all readers in front of the first writer.
fn count_holders(queue: &[KeyValue]) -> usize {
    let readers = queue.iter().take_while(|key| mode_of(key) == LockMode::Shared).count();
    readers.max(usize::from(!queue.is_empty()))
}
