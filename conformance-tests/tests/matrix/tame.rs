//! A store whose faults are not made, although every hook says so.

use async_trait::async_trait;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Members, Replicas, Stop, Store};
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

    async fn proxied(&self, patience: Duration) -> Result<(Proxy, String), Stop> {
        self.0.proxied(patience).await
    }

    async fn pause(&self) -> Result<(), Stop> {
        Ok(())
    }

    async fn resume(&self) -> Result<(), Stop> {
        Ok(())
    }

    async fn kill(&self) -> Result<(), Stop> {
        Ok(())
    }

    async fn restart(&self, _: bool) -> Result<(), Stop> {
        Ok(())
    }

    async fn sync(&self) -> Result<(), Stop> {
        Ok(())
    }

    async fn lose_power(&self) -> Result<(), Stop> {
        Ok(())
    }

    async fn wipe(&self) -> Result<(), Stop> {
        Ok(())
    }

    fn administrator(&self) -> Result<&dyn Administrator, Stop> {
        Ok(self)
    }

    fn members(&self) -> Result<&dyn Members, Stop> {
        self.0.members().map(|_| self as &dyn Members)
    }

    fn replicas(&self) -> Result<&dyn Replicas, Stop> {
        self.0.replicas().map(|_| self as &dyn Replicas)
    }
}

#[async_trait]
impl Administrator for TameStore {
    async fn behind_pooler(&self) -> Result<(Box<dyn Any + Send>, String), Stop> {
        Ok((Box::new(()), self.0.address()))
    }

    async fn kill_connections(&self) -> Result<(), Stop> {
        Ok(())
    }
}

#[async_trait]
impl Members for TameStore {
    fn count(&self) -> usize {
        self.0.members().map_or(0, Members::count)
    }

    async fn leader_of(&self, serving: usize) -> Result<usize, Stop> {
        self.0.members()?.leader_of(serving).await
    }

    async fn kill(&self, _: usize) -> Result<(), Stop> {
        Ok(())
    }

    async fn restart(&self, _: usize, _: bool) -> Result<(), Stop> {
        Ok(())
    }

    async fn pause(&self, _: usize) -> Result<(), Stop> {
        Ok(())
    }

    async fn resume(&self, _: usize) -> Result<(), Stop> {
        Ok(())
    }

    async fn proxied(&self) -> Result<(Vec<Proxy>, String), Stop> {
        self.0.members()?.proxied().await
    }
}

#[async_trait]
impl Replicas for TameStore {
    async fn catch_up(&self, _: &LockName) -> Result<(), Stop> {
        Ok(())
    }

    async fn cut_off(&self, _: &LockName) -> Result<(), Stop> {
        Ok(())
    }

    async fn fail_over(&self, _: &LockName) -> Result<(), Stop> {
        Ok(())
    }

    async fn supplant(&self, _: &LockName) -> Result<(), Stop> {
        Ok(())
    }

    async fn revive(&self) -> Result<(), Stop> {
        Ok(())
    }
}
