//! What the administrator of several Redis servers does, to all of them alike.

use super::commands::{evict_everything, kill_connections};
use crate::servers::RedisServer;
use crate::stores::server_group::ServerGroup;
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold_conformance::{Administrator, Stop};

/// Several Redis servers that are one store.
pub(super) trait RedisGroup: ServerGroup<Server = RedisServer> {}

#[async_trait]
impl<G: RedisGroup> Administrator for ServerStore<G> {
    async fn kill_connections(&self) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.servers().iter().try_for_each(kill_connections))
    }

    async fn set_clock_ahead(&self, seconds: i64) -> Result<(), Stop> {
        self.step_wall_clock(seconds).await
    }

    async fn fill_disk(&self, full: bool) -> Result<(), Stop> {
        self.set_disks_full(full)
    }

    async fn evict_everything(&self) -> Result<(), Stop> {
        self.for_this_case_only(|group| evict_everything(group.servers()))
    }
}
