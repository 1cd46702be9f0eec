use super::commands::{caught_up, delete, lock_key, records, wall_clocks};
use super::group_administrator::RedisGroup;
use crate::servers::{RedisCluster, RedisServer};
use crate::stores::connect::{join, loopback, with_options};
use crate::stores::server_group::{Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold_conformance::{Case, Replicas, Stop, Store};
use std::net::SocketAddr;

/// A Redis cluster: three primaries with a replica each, which takes two seconds to trust itself.
#[async_trait]
impl ServerGroup for RedisCluster {
    type Server = RedisServer;
    type Mode = ();

    const NAME_EACH_OTHER: bool = true;
    const CRASH_KEEPS_DATA: bool = false;

    fn covers((): (), case: &Case) -> Result<(), Stop> {
        match case.in_a_mode {
            Some(_) => Err(Stop::skipped("its readers and writers are those of one server")),
            None => Ok(()),
        }
    }

    fn launch((): (), environment: &Environment) -> Result<Self, Stop> {
        Self::start_in(environment)
    }

    fn servers(&mut self) -> &mut [RedisServer] {
        self.nodes_mut()
    }

    fn settle(&mut self) -> Result<(), Stop> {
        self.wait_until_whole()
    }

    fn resume_all(&mut self) -> Result<(), Stop> {
        self.nodes().iter().for_each(|node| node.resume());
        self.settle()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes().iter().map(|node| loopback(node.port())).collect()
    }

    fn url_at(&self, addresses: &[SocketAddr]) -> String {
        format!("redis+cluster://{}", join(addresses))
    }

    fn aliases(&self) -> Result<Vec<String>, Stop> {
        let ports: Vec<u16> = self.nodes().iter().map(RedisServer::port).collect();
        Ok(vec![
            format!("redis+cluster://localhost:{}", ports[0]),
            format!("valkey+cluster://127.0.0.1:{}/0?timeout=1s", ports[5]),
            format!("redis+cluster://127.0.0.1:{}?protocol=resp2", ports[1]),
        ])
    }

    fn url_with_secret(&self, secret: &str) -> Result<String, Stop> {
        Ok(format!("redis+cluster://locker:{secret}@127.0.0.1:{}", self.nodes()[0].port()))
    }

    async fn delete(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        let cluster = store.group();
        let owner = cluster.owner_of(&lock_key(name))?;
        delete(&cluster.nodes()[owner], name)
    }

    async fn wipe(store: &ServerStore<Self>) -> Result<(), Stop> {
        for node in store.group().nodes() {
            // A replica refuses, and hears it from its primary.
            node.command(&["FLUSHALL"])?;
        }
        Ok(())
    }

    /// Leaves killed nodes out: another node keeps the same records.
    async fn records(store: &ServerStore<Self>) -> Result<usize, Stop> {
        store.group().nodes().iter().filter(|node| !node.is_killed()).map(records).sum()
    }

    async fn wall_clocks(store: &ServerStore<Self>) -> Result<Vec<i64>, Stop> {
        wall_clocks(store.group().nodes())
    }

    fn replicas(store: &ServerStore<Self>) -> Result<&dyn Replicas, Stop> {
        Ok(store)
    }
}

impl RedisGroup for RedisCluster {}

#[async_trait]
impl Replicas for ServerStore<RedisCluster> {
    fn confirmed_address(&self) -> Result<String, Stop> {
        Ok(with_options(&self.address(), "wait_replicas=1&timeout=8s"))
    }

    async fn catch_up(&self, name: &LockName) -> Result<(), Stop> {
        let (primary, replica) = {
            let cluster = self.group();
            let primary = cluster.owner_of(&lock_key(name))?;
            let replica = RedisCluster::partner_of(primary);
            (cluster.nodes()[primary].port(), cluster.nodes()[replica].port())
        };
        caught_up(primary, replica).await
    }

    async fn cut_off(&self, name: &LockName) -> Result<(), Stop> {
        self.for_this_case_only(|cluster| cluster.cut_replica_off(&lock_key(name)))
    }

    async fn fail_over(&self, name: &LockName) -> Result<(), Stop> {
        self.for_this_case_only(|cluster| cluster.fail_over(&lock_key(name)))
    }

    async fn supplant(&self, name: &LockName) -> Result<(), Stop> {
        self.for_this_case_only(|cluster| cluster.supplant(&lock_key(name))).map(drop)
    }

    async fn revive(&self) -> Result<(), Stop> {
        self.for_this_case_only(|cluster| cluster.nodes().iter().for_each(|node| node.resume()));
        Ok(())
    }
}
