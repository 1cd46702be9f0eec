//! A store whose faults are not made, although every hook says so.

use async_trait::async_trait;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Cannot, Members, Replicas, Store};
use leasehold_core::LockName;
use std::any::Any;
use std::time::Duration;

/// A store with one server, or with several if the store inside has several.
#[derive(Debug)]
pub(crate) struct TameStore(pub(crate) Box<dyn Store>);

#[async_trait]
impl Store for TameStore {
    fn address(&self) -> String {
        self.0.address()
    }

    async fn proxied(&self, patience: Duration) -> Result<(Proxy, String), Cannot> {
        self.0.proxied(patience).await
    }

    async fn pause(&self) -> Result<(), Cannot> {
        Ok(())
    }

    async fn resume(&self) -> Result<(), Cannot> {
        Ok(())
    }

    async fn kill(&self) -> Result<(), Cannot> {
        Ok(())
    }

    async fn restart(&self, _: bool) -> Result<(), Cannot> {
        Ok(())
    }

    async fn sync(&self) -> Result<(), Cannot> {
        Ok(())
    }

    async fn lose_power(&self) -> Result<(), Cannot> {
        Ok(())
    }

    async fn wipe(&self) -> Result<(), Cannot> {
        Ok(())
    }

    fn administrator(&self) -> Result<&dyn Administrator, Cannot> {
        Ok(self)
    }

    fn members(&self) -> Result<&dyn Members, Cannot> {
        self.0.members().map(|_| self as &dyn Members)
    }

    fn replicas(&self) -> Result<&dyn Replicas, Cannot> {
        self.0.replicas().map(|_| self as &dyn Replicas)
    }
}

#[async_trait]
impl Administrator for TameStore {
    async fn behind_pooler(&self) -> Result<(Box<dyn Any + Send>, String), Cannot> {
        Ok((Box::new(()), self.0.address()))
    }

    async fn kill_connections(&self) -> Result<(), Cannot> {
        Ok(())
    }
}

#[async_trait]
impl Members for TameStore {
    fn count(&self) -> usize {
        self.0.members().map_or(0, Members::count)
    }

    async fn leader_of(&self, serving: usize) -> Result<usize, Cannot> {
        self.0.members()?.leader_of(serving).await
    }

    async fn kill(&self, _: usize) -> Result<(), Cannot> {
        Ok(())
    }

    async fn restart(&self, _: usize) -> Result<(), Cannot> {
        Ok(())
    }

    async fn pause(&self, _: usize) -> Result<(), Cannot> {
        Ok(())
    }

    async fn resume(&self, _: usize) -> Result<(), Cannot> {
        Ok(())
    }

    async fn proxied(&self) -> Result<(Vec<Proxy>, String), Cannot> {
        self.0.members()?.proxied().await
    }
}

#[async_trait]
impl Replicas for TameStore {
    async fn catch_up(&self, _: &LockName) -> Result<(), Cannot> {
        Ok(())
    }

    async fn cut_off(&self, _: &LockName) -> Result<(), Cannot> {
        Ok(())
    }

    async fn fail_over(&self, _: &LockName) -> Result<(), Cannot> {
        Ok(())
    }

    async fn supplant(&self, _: &LockName) -> Result<(), Cannot> {
        Ok(())
    }

    async fn revive(&self) -> Result<(), Cannot> {
        Ok(())
    }
}
