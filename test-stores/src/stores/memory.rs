use super::cannot::not_held;
use super::connect::{connect, connect_observed};
use super::kinds::FacadeKinds;
use async_trait::async_trait;
use leasehold::client::Observer;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::{Kinds, Stop, Store, Subject};
use std::sync::Arc;

/// Locks in this process's memory.
#[derive(Debug)]
pub(crate) struct Memory;

/// A namespace of its own, which lives as long as a client that the case keeps.
#[derive(Debug)]
struct Namespace {
    address: String,
    keeper: Arc<dyn DistributedLock>,
}

#[async_trait]
impl Subject for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn kinds(&self) -> &dyn Kinds {
        &FacadeKinds
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        let address = format!("memory:{:016x}", fastrand::u64(..));
        let keeper = connect(&address).await.map_err(Stop::failed)?;
        Ok(Box::new(Namespace { address, keeper }))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }

    async fn connect_observed(
        &self,
        address: &str,
        observer: Arc<dyn Observer>,
    ) -> std::result::Result<Arc<dyn DistributedLock>, Stop> {
        connect_observed(address, observer).await
    }
}

#[async_trait]
impl Store for Namespace {
    fn address(&self) -> String {
        self.address.clone()
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Stop> {
        let admin = self.keeper.admin().ok_or_else(|| Stop::skipped("no way to look"))?;
        let held = admin.force_release(name, None).await.map_err(Stop::failed)?;
        if held.is_empty() { Err(not_held()) } else { Ok(()) }
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Stop> {
        Ok(format!("{} {prefix}", self.address))
    }
}
