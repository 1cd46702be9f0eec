//! The store of a semaphore of one, and its operator's view: the slot has a name of its own.

use super::AdapterClient;
use async_trait::async_trait;
use leasehold::admin::{Finding, LockAdmin, LockStatus, Purge, Waiter};
use leasehold::{Error, ErrorKind, FencingToken, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Stop, Store};
use std::time::Duration;

/// The name of a semaphore, from that name or from the name of its slot, which is a guard's.
pub(super) fn semaphore_name(name: &LockName) -> &str {
    name.semaphore().unwrap_or(name.as_str())
}

fn slot(name: &LockName) -> Result<LockName> {
    LockName::from_store(format!("{}::slot:0", semaphore_name(name)))
}

/// A store in which the lock of a name is the slot of the semaphore of that name. It has the hooks of the families A to G.
#[derive(Debug)]
pub(super) struct SlotStore(pub(super) Box<dyn Store>);

#[async_trait]
impl Store for SlotStore {
    fn address(&self) -> String {
        self.0.address()
    }

    fn address_for_holds_of(&self, time: Duration) -> String {
        self.0.address_for_holds_of(time)
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Stop> {
        self.0.proxied(patience).await
    }

    async fn kill(&self) -> std::result::Result<(), Stop> {
        self.0.kill().await
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Stop> {
        self.0.restart(keep_data).await
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Stop> {
        self.0.delete(&slot(name).map_err(Stop::failed)?).await
    }

    async fn delete_queue(&self, name: &LockName) -> std::result::Result<(), Stop> {
        self.0.delete_queue(&slot(name).map_err(Stop::failed)?).await
    }

    async fn wipe(&self) -> std::result::Result<(), Stop> {
        self.0.wipe().await
    }

    async fn records(&self) -> std::result::Result<usize, Stop> {
        self.0.records().await
    }
}

impl AdapterClient {
    fn slots(&self) -> Result<&dyn LockAdmin> {
        self.inner.admin().ok_or_else(|| Error::new(ErrorKind::Unsupported, "the store cannot look"))
    }
}

/// Permits are shown under the names of their semaphores.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockAdmin for AdapterClient {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        Ok(permits(self.slots()?.inspect(&slot(name)?).await?))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let mut permits = permits(self.slots()?.list(prefix).await?);
        permits.sort_by(|one, next| one.name.cmp(&next.name));
        Ok(permits)
    }

    async fn list_reachable(&self, prefix: &str) -> Result<(Vec<LockStatus>, Vec<Error>)> {
        Ok((self.list(prefix).await?, Vec::new()))
    }

    /// The owner of the gate waits for the slot, and the others for the gate.
    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let gate = LockName::from_store(format!("{}::gate", semaphore_name(name)))?;
        let mut waiters = self.slots()?.waiters(&slot(name)?).await?;
        waiters.extend(self.slots()?.waiters(&gate).await?);
        Ok(waiters)
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        let slots = names.iter().map(slot);
        let gates = names.iter().map(|name| LockName::from_store(format!("{}::gate", semaphore_name(name))));
        self.slots()?.forget(&slots.chain(gates).collect::<Result<Vec<_>>>()?).await
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        Ok(permits(self.slots()?.force_release(&slot(name)?, only_if).await?))
    }

    async fn purge(&self, idle: Duration, purge: Purge) -> Result<Option<u64>> {
        self.slots()?.purge(idle, purge).await
    }

    async fn init(&self) -> Result<()> {
        self.slots()?.init().await
    }

    fn init_script(&self) -> Option<String> {
        self.inner.admin()?.init_script()
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.slots()?.check().await
    }
}

/// The holders of slots, and not those of a gate, which may still be under release after the grant of a slot.
fn permits(holders: Vec<LockStatus>) -> Vec<LockStatus> {
    let permit = |mut holder: LockStatus| {
        holder.name.slot()?;
        holder.name = LockName::new(semaphore_name(&holder.name)).ok()?;
        Some(holder)
    };
    holders.into_iter().filter_map(permit).collect()
}
