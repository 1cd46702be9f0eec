use super::commands::{caught_up, delete, records, tell, wall_clocks};
use super::group_administrator::RedisGroup;
use crate::servers::{RedisSentinelGroup, RedisServer};
use crate::stores::connect::{loopback, with_options};
use crate::stores::server_group::{Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold_conformance::{Cannot, Case, Replicas, Store};
use std::net::SocketAddr;

/// A Redis with a replica, and three Sentinels that watch them.
#[async_trait]
impl ServerGroup for RedisSentinelGroup {
    type Server = RedisServer;
    type Mode = ();

    const NAME_EACH_OTHER: bool = true;
    const CRASH_KEEPS_DATA: bool = false;

    fn covers((): (), case: &Case) -> Result<(), Cannot> {
        match case.id {
            "D16" => Err(Cannot::new("the primary is one server, and renewals are those of one")),
            _ if case.in_a_mode.is_some() => {
                Err(Cannot::new("its readers and writers are those of one server"))
            }
            _ => Ok(()),
        }
    }

    fn launch((): (), environment: &Environment) -> Result<Self, Cannot> {
        Self::start_in(environment).map_err(Cannot::failed)
    }

    fn servers(&mut self) -> &mut [RedisServer] {
        self.servers_mut()
    }

    fn settle(&mut self) -> Result<(), Cannot> {
        self.wait_until_whole().map_err(Cannot::failed)
    }

    fn pause_all(&mut self) {
        self.pause();
    }

    fn resume_all(&mut self) -> Result<(), Cannot> {
        self.resume();
        Ok(())
    }

    fn kill_all(&mut self) {
        self.kill();
    }

    fn restart_all(&mut self, keep_data: bool) -> Result<(), Cannot> {
        self.restart(keep_data).map_err(Cannot::failed)
    }

    /// The Sentinels come first, and alone are in the URL.
    fn addresses(&self) -> Vec<SocketAddr> {
        let servers = [0, 1].map(|server| self.server(server).port());
        self.sentinel_ports().into_iter().chain(servers).map(loopback).collect()
    }

    fn url_at(&self, addresses: &[SocketAddr]) -> String {
        let sentinels = &addresses[..self.sentinel_ports().len()];
        Self::url_with(sentinels.iter().map(SocketAddr::port))
    }

    fn url_with_secret(&self, secret: &str) -> Result<String, Cannot> {
        Ok(with_options(&self.url(), &format!("sentinel_password={secret}")))
    }

    async fn reset(store: &ServerStore<Self>) -> Result<(), Cannot> {
        Self::wipe(store).await
    }

    async fn delete(store: &ServerStore<Self>, name: &LockName) -> Result<(), Cannot> {
        delete(primary(&store.group())?, name)
    }

    async fn wipe(store: &ServerStore<Self>) -> Result<(), Cannot> {
        tell(primary(&store.group())?, &["FLUSHALL"])
    }

    /// Counts only on the primary: a replaced primary keeps its records until it is told.
    async fn records(store: &ServerStore<Self>) -> Result<usize, Cannot> {
        records(primary(&store.group())?)
    }

    async fn wall_clocks(store: &ServerStore<Self>) -> Result<Vec<i64>, Cannot> {
        wall_clocks(store.group().servers())
    }

    fn replicas(store: &ServerStore<Self>) -> Result<&dyn Replicas, Cannot> {
        Ok(store)
    }
}

impl RedisGroup for RedisSentinelGroup {}

fn primary(group: &RedisSentinelGroup) -> Result<&RedisServer, Cannot> {
    let primary = group.primary().ok_or_else(|| Cannot::failed("no Sentinel names a primary"))?;
    Ok(group.server(primary))
}

#[async_trait]
impl Replicas for ServerStore<RedisSentinelGroup> {
    fn confirmed_address(&self) -> Result<String, Cannot> {
        Ok(with_options(&self.address(), "wait_replicas=1&timeout=8s"))
    }

    async fn catch_up(&self, _: &LockName) -> Result<(), Cannot> {
        let (primary, replica) = self.for_this_case_only(|group| {
            let primary = primary(group)?.port();
            let both = [0, 1].map(|server| group.server(server).port());
            Ok::<_, Cannot>((primary, both[usize::from(both[0] == primary)]))
        })?;
        caught_up(primary, replica).await
    }

    async fn cut_off(&self, _: &LockName) -> Result<(), Cannot> {
        self.for_this_case_only(|group| group.cut_replica_off()).map_err(Cannot::failed)
    }

    async fn fail_over(&self, _: &LockName) -> Result<(), Cannot> {
        self.for_this_case_only(RedisSentinelGroup::fail_over).map_err(Cannot::failed)
    }

    async fn supplant(&self, _: &LockName) -> Result<(), Cannot> {
        self.for_this_case_only(|group| group.supplant()).map(drop).map_err(Cannot::failed)
    }

    async fn revive(&self) -> Result<(), Cannot> {
        self.for_this_case_only(RedisSentinelGroup::resume_all)
    }
}
