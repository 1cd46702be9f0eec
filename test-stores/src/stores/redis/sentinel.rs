use super::commands::{caught_up, delete, records, refuse_scripts, tell, wall_clocks};
use super::group_administrator::RedisGroup;
use crate::servers::{RedisSentinelGroup, RedisServer};
use crate::stores::connect::{loopback, with_options};
use crate::stores::server_group::{Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold_conformance::{Case, Replicas, Stop, Store};
use std::net::SocketAddr;

/// A Redis with a replica, and three Sentinels that watch them.
#[async_trait]
impl ServerGroup for RedisSentinelGroup {
    type Server = RedisServer;
    type Mode = ();

    const NAME_EACH_OTHER: bool = true;
    const CRASH_KEEPS_DATA: bool = false;

    fn covers((): (), case: &Case) -> Result<(), Stop> {
        match case.id {
            "D16" => Err(Stop::skipped("the primary is one server, and renewals are those of one")),
            _ if case.in_a_mode.is_some() => {
                Err(Stop::skipped("its readers and writers are those of one server"))
            }
            _ => Ok(()),
        }
    }

    fn launch((): (), environment: &Environment) -> Result<Self, Stop> {
        Self::start_in(environment)
    }

    fn servers(&mut self) -> &mut [RedisServer] {
        self.servers_mut()
    }

    fn settle(&mut self) -> Result<(), Stop> {
        self.wait_until_whole()
    }

    fn pause_all(&mut self) {
        self.pause();
    }

    fn resume_all(&mut self) -> Result<(), Stop> {
        self.resume();
        Ok(())
    }

    fn kill_all(&mut self) {
        self.kill();
    }

    fn restart_all(&mut self, keep_data: bool) -> Result<(), Stop> {
        self.restart(keep_data)
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

    fn url_with_secret(&self, secret: &str) -> Result<String, Stop> {
        Ok(with_options(&self.url(), &format!("sentinel_password={secret}")))
    }

    async fn reset(store: &ServerStore<Self>) -> Result<(), Stop> {
        Self::wipe(store).await
    }

    async fn refuse(store: &ServerStore<Self>, refuse: bool) -> Result<(), Stop> {
        refuse_scripts(store.group().servers(), refuse)
    }

    async fn delete(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        delete(primary(&store.group())?, name)
    }

    async fn wipe(store: &ServerStore<Self>) -> Result<(), Stop> {
        tell(primary(&store.group())?, &["FLUSHALL"])
    }

    /// Counts only on the primary: a replaced primary keeps its records until it is told.
    async fn records(store: &ServerStore<Self>) -> Result<usize, Stop> {
        records(primary(&store.group())?)
    }

    async fn wall_clocks(store: &ServerStore<Self>) -> Result<Vec<i64>, Stop> {
        wall_clocks(store.group().servers())
    }

    fn replicas(store: &ServerStore<Self>) -> Result<&dyn Replicas, Stop> {
        Ok(store)
    }
}

impl RedisGroup for RedisSentinelGroup {}

fn primary(group: &RedisSentinelGroup) -> Result<&RedisServer, Stop> {
    let primary = group.primary().ok_or_else(|| Stop::failed("no Sentinel names a primary"))?;
    Ok(group.server(primary))
}

#[async_trait]
impl Replicas for ServerStore<RedisSentinelGroup> {
    fn confirmed_address(&self) -> Result<String, Stop> {
        Ok(with_options(&self.address(), "wait_replicas=1&timeout=8s"))
    }

    async fn catch_up(&self, _: &LockName) -> Result<(), Stop> {
        let (primary, replica) = self.for_this_case_only(|group| {
            let primary = primary(group)?.port();
            let both = [0, 1].map(|server| group.server(server).port());
            Ok::<_, Stop>((primary, both[usize::from(both[0] == primary)]))
        })?;
        caught_up(primary, replica).await
    }

    async fn cut_off(&self, _: &LockName) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.cut_replica_off())
    }

    async fn fail_over(&self, _: &LockName) -> Result<(), Stop> {
        self.for_this_case_only(RedisSentinelGroup::fail_over)
    }

    async fn supplant(&self, _: &LockName) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.supplant()).map(drop)
    }

    async fn revive(&self) -> Result<(), Stop> {
        self.for_this_case_only(RedisSentinelGroup::resume_all)
    }
}
