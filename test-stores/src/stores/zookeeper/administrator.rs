//! What becomes of a ZooKeeper's host: its wall clock, and its disk.

use super::ensemble::Nodes;
use super::{Node, Pooled, cannot};
use crate::servers::{ZooKeeperEnsemble, ZooKeeperServer};
use crate::stores::wall_clock::ensure_ahead;
use async_trait::async_trait;
use leasehold_conformance::{Administrator, Cannot, ShimmedClock, Store};
use std::sync::{Mutex, PoisonError};

type Environment = [(String, String)];

#[async_trait]
impl Administrator for Node {
    async fn step_clock(&self, seconds: i64) -> Result<(), Cannot> {
        step(&self.clock, seconds, |environment| {
            *self.server() = Pooled::apart(ZooKeeperServer::start_within(environment).map_err(cannot)?);
            Ok(())
        })?;
        ensure_ahead(self.admin().await?.wall_clock().await?, seconds)
    }

    async fn fill_disk(&self, full: bool) -> Result<(), Cannot> {
        let mut server = self.harmed();
        if full { server.fill_disk() } else { server.restart(true) }.map_err(cannot)
    }
}

/// Acts on all servers at once, because an ensemble works on without one of them.
#[async_trait]
impl Administrator for Nodes {
    async fn step_clock(&self, seconds: i64) -> Result<(), Cannot> {
        step(&self.clock, seconds, |environment| {
            *self.servers() = Pooled::apart(ZooKeeperEnsemble::start_within(environment).map_err(cannot)?);
            Ok(())
        })?;
        ensure_ahead(self.admin().await?.wall_clock().await?, seconds)
    }

    async fn fill_disk(&self, full: bool) -> Result<(), Cannot> {
        match full {
            true => self.harmed().fill_disks().map_err(cannot),
            false => Store::restart(self, true).await,
        }
    }
}

/// Steps the clock; the first time, `start` starts what runs by it.
fn step(
    clock: &Mutex<Option<ShimmedClock>>,
    seconds: i64,
    start: impl FnOnce(&Environment) -> Result<(), Cannot>,
) -> Result<(), Cannot> {
    let mut clock = clock.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(clock) = &*clock {
        return clock.step_to(seconds).map_err(Cannot::from);
    }
    let new = ShimmedClock::ahead(seconds)?;
    tokio::task::block_in_place(|| start(&new.environment()))?;
    *clock = Some(new);
    Ok(())
}
