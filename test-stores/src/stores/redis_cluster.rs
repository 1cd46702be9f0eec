use super::kinds::KINDS;
use super::redis::{Servers, delete, records};
use super::{SECRET, cannot, connect, connect_observed, in_time, timeouts};
use crate::servers::{RedisCluster as Nodes, RedisServer};
use async_trait::async_trait;
use leasehold::client::Observer;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Cannot, Kinds, Replicas, ShimmedClock, Store, Subject};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A Redis cluster: three primaries with a replica each.
///
/// A cluster takes two seconds to trust itself. Most cases do it no harm, and leave it to the next one.
#[derive(Debug, Default)]
pub(crate) struct RedisCluster {
    idle: Arc<Mutex<Vec<Nodes>>>,
}

#[derive(Debug)]
pub(super) struct Cluster {
    /// `None` only when it is being dropped.
    nodes: Mutex<Option<Nodes>>,
    url: String,
    idle: Arc<Mutex<Vec<Nodes>>>,
    harmed: AtomicBool,
    /// The primary that was stopped.
    stopped: Mutex<Option<usize>>,
    clock: Mutex<Option<ShimmedClock>>,
}

impl Cluster {
    fn with<T>(
        &self,
        act: impl FnOnce(&mut Nodes) -> std::result::Result<T, Cannot>,
    ) -> std::result::Result<T, Cannot> {
        match &mut *lock(&self.nodes) {
            Some(nodes) => act(nodes),
            None => Err(Cannot::failed("it has ended")),
        }
    }

    /// The same, after which it is no good for another case.
    fn harm<T>(
        &self,
        act: impl FnOnce(&mut Nodes) -> std::result::Result<T, Cannot>,
    ) -> std::result::Result<T, Cannot> {
        self.harmed.store(true, Ordering::SeqCst);
        self.with(act)
    }

    fn owner(nodes: &Nodes, name: &LockName) -> std::result::Result<usize, Cannot> {
        nodes.owner_of(&format!("leasehold:{name}")).map_err(cannot)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let nodes = lock(&self.nodes).take();
        if !self.harmed.load(Ordering::SeqCst) {
            lock(&self.idle).extend(nodes);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Servers for Cluster {
    fn each(
        &self,
        act: &mut dyn FnMut(&mut RedisServer) -> std::result::Result<(), Cannot>,
    ) -> std::result::Result<(), Cannot> {
        self.harm(|nodes| nodes.nodes_mut().iter_mut().try_for_each(act))
    }

    fn settle(&self) -> std::result::Result<(), Cannot> {
        self.harm(|nodes| nodes.wait_until_whole().map_err(cannot))
    }

    fn clock(&self) -> &Mutex<Option<ShimmedClock>> {
        &self.clock
    }
}

#[async_trait]
impl Subject for RedisCluster {
    fn name(&self) -> &str {
        "redis-cluster"
    }

    fn kinds(&self) -> &dyn Kinds {
        &KINDS
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let idle = lock(&self.idle).pop();
        let nodes = idle.map_or_else(|| Nodes::start(true).map_err(cannot), Ok)?;
        let url = nodes.url();
        Ok(Box::new(Cluster {
            nodes: Mutex::new(Some(nodes)),
            url,
            idle: Arc::clone(&self.idle),
            harmed: AtomicBool::new(false),
            stopped: Mutex::default(),
            clock: Mutex::default(),
        }))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }

    async fn connect_observed(
        &self,
        address: &str,
        observer: Arc<dyn Observer>,
    ) -> std::result::Result<Arc<dyn DistributedLock>, Cannot> {
        connect_observed(address, observer).await.map_err(cannot)
    }
}

#[async_trait]
impl Store for Cluster {
    fn address(&self) -> String {
        self.url.clone()
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let ports = self.with(|nodes| Ok(nodes.nodes().iter().map(RedisServer::port).collect::<Vec<_>>()))?;
        let nodes = ports.into_iter().map(|port| ([127, 0, 0, 1], port).into());
        let proxy = Proxy::to_all_that_name_each_other(nodes).await.map_err(cannot)?;
        let hosts: Vec<String> = proxy.addresses().iter().map(ToString::to_string).collect();
        Ok((proxy, format!("redis+cluster://{}?{}", hosts.join(","), timeouts(patience))))
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        self.harm(|nodes| {
            nodes.nodes().iter().for_each(|node| node.pause());
            Ok(())
        })
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        self.harm(|nodes| {
            nodes.nodes().iter().for_each(|node| node.resume());
            nodes.wait_until_whole().map_err(cannot)
        })
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        self.harm(|nodes| {
            nodes.nodes_mut().iter_mut().for_each(|node| node.kill());
            Ok(())
        })
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        self.harm(|nodes| {
            nodes.nodes_mut().iter_mut().for_each(|node| node.kill());
            nodes.nodes_mut().iter_mut().try_for_each(|node| node.restart(keep_data)).map_err(cannot)?;
            nodes.wait_until_whole().map_err(cannot)
        })
    }

    /// As they are shipped, they write nothing but a snapshot after an hour.
    async fn crash(&self) -> std::result::Result<(), Cannot> {
        self.restart(false).await
    }

    async fn sync(&self) -> std::result::Result<(), Cannot> {
        self.each(&mut |server| server.sync().map_err(cannot))
    }

    /// All nodes lose it at once.
    async fn lose_power(&self) -> std::result::Result<(), Cannot> {
        self.each(&mut |server| server.lose_power().map_err(cannot))?;
        self.restart(true).await
    }

    async fn records(&self) -> std::result::Result<usize, Cannot> {
        // What a dead one has kept, another one keeps.
        self.with(|nodes| nodes.nodes().iter().filter(|node| !node.is_killed()).map(records).sum())
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Cannot> {
        Ok(self)
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        self.with(|nodes| delete(&nodes.nodes()[Self::owner(nodes, name)?], name))
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        self.with(|nodes| {
            for node in nodes.nodes() {
                // A replica refuses, and hears it from its primary.
                node.command(&["FLUSHALL"]).map_err(cannot)?;
            }
            Ok(())
        })
    }

    fn replicas(&self) -> std::result::Result<&dyn Replicas, Cannot> {
        Ok(self)
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        Ok(format!("{} {prefix}", self.url))
    }

    async fn aliases(&self) -> std::result::Result<Vec<String>, Cannot> {
        let ports =
            self.with(|nodes| Ok(nodes.nodes().iter().map(|node| node.port()).collect::<Vec<_>>()))?;
        Ok(vec![
            format!("redis+cluster://localhost:{}", ports[0]),
            format!("valkey+cluster://127.0.0.1:{}/0?timeout=1s", ports[5]),
            format!("redis+cluster://127.0.0.1:{}?protocol=resp2", ports[1]),
        ])
    }

    async fn secret(&self) -> std::result::Result<(String, String), Cannot> {
        let secret = SECRET.to_owned();
        let seed = self.with(|nodes| Ok(nodes.nodes()[0].port()))?;
        Ok((format!("redis+cluster://locker:{secret}@127.0.0.1:{seed}"), secret))
    }
}

#[async_trait]
impl Replicas for Cluster {
    fn confirmed_address(&self) -> std::result::Result<String, Cannot> {
        Ok(format!("{}?wait_replicas=1&timeout=8s", self.url))
    }

    async fn catch_up(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        // On a connection that has written nothing, this waits for nothing; so it writes.
        let key = format!("{{leasehold:{name}}}:mark");
        let (primary, replica) = self.with(|nodes| {
            let primary = Self::owner(nodes, name)?;
            nodes.nodes()[primary].command(&["SET", &key, "1"]).map_err(cannot)?;
            let port = |node: usize| nodes.nodes()[node].port();
            Ok((port(primary), port((primary + 3) % 6)))
        })?;
        let written = |port| {
            let info = crate::servers::ask_redis(port, &["INFO", "replication"]).unwrap_or_default();
            let field = |name: &str| {
                info.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap_or_default()
            };
            field("master_repl_offset:")
        };
        let told = written(primary);
        in_time("the replica does not catch up", async {
            while written(replica) < told {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        })
        .await
    }

    async fn cut_off(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        self.harm(|nodes| nodes.cut_replica_off(&format!("leasehold:{name}")).map_err(cannot))
    }

    async fn fail_over(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        self.harm(|nodes| nodes.fail_over(&format!("leasehold:{name}")).map_err(cannot))
    }

    async fn supplant(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let primary = self.harm(|nodes| nodes.supplant(&format!("leasehold:{name}")).map_err(cannot))?;
        *lock(&self.stopped) = Some(primary);
        Ok(())
    }

    async fn revive(&self) -> std::result::Result<(), Cannot> {
        let stopped = lock(&self.stopped).take();
        self.harm(|nodes| {
            stopped.into_iter().for_each(|node| nodes.nodes()[node].resume());
            Ok(())
        })
    }
}
