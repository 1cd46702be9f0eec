use crate::subject::cannot;
use async_trait::async_trait;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Members, Stop, Store};
use leasehold_core::LockName;
use leasehold_test_stores::servers::RedisServer;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Servers that know nothing of each other.
#[derive(Debug)]
struct Nodes {
    servers: Vec<Mutex<RedisServer>>,
    ports: Vec<u16>,
}

pub(crate) fn four() -> Result<Box<dyn Store>, Stop> {
    start(4)
}

pub(crate) fn five() -> Result<Box<dyn Store>, Stop> {
    start(5)
}

fn start(nodes: usize) -> Result<Box<dyn Store>, Stop> {
    let start = |_| RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "no"]);
    let servers = (0..nodes).map(start).collect::<Result<Vec<_>, _>>().map_err(cannot)?;
    let ports = servers.iter().map(RedisServer::port).collect();
    Ok(Box::new(Nodes { servers: servers.into_iter().map(Mutex::new).collect(), ports }))
}

impl Nodes {
    fn server(&self, node: usize) -> MutexGuard<'_, RedisServer> {
        self.servers[node].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Patience is for the lock to choose: it is one of the things that are done wrong.
fn address(ports: impl IntoIterator<Item = u16>) -> String {
    let servers: Vec<String> = ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("{} 0", servers.join(","))
}

#[async_trait]
impl Store for Nodes {
    fn address(&self) -> String {
        address(self.ports.iter().copied())
    }

    fn members(&self) -> Result<&dyn Members, Stop> {
        Ok(self)
    }
}

#[async_trait]
impl Members for Nodes {
    fn count(&self) -> usize {
        self.ports.len()
    }

    async fn leader_of(&self, _serving: usize) -> Result<usize, Stop> {
        Ok(0)
    }

    async fn kill(&self, member: usize) -> Result<(), Stop> {
        self.server(member).kill();
        Ok(())
    }

    async fn restart(&self, member: usize, keep_data: bool) -> Result<(), Stop> {
        self.server(member).restart(keep_data).map_err(cannot)
    }

    async fn pause(&self, member: usize) -> Result<(), Stop> {
        self.server(member).pause();
        Ok(())
    }

    async fn resume(&self, member: usize) -> Result<(), Stop> {
        self.server(member).resume();
        Ok(())
    }

    async fn proxied(&self) -> Result<(Vec<Proxy>, String), Stop> {
        let mut proxies = Vec::new();
        for port in &self.ports {
            proxies.push(Proxy::to(([127, 0, 0, 1], *port).into()).await.map_err(cannot)?);
        }
        let through = address(proxies.iter().map(|proxy| proxy.address().port()));
        Ok((proxies, through))
    }

    async fn holds(&self, member: usize, name: &LockName) -> Result<bool, Stop> {
        let held = self.server(member).command(&["EXISTS", name.as_str()]).map_err(cannot)?;
        Ok(held == ":1")
    }

    async fn end_lease(&self, member: usize, name: &LockName) -> Result<(), Stop> {
        self.server(member).command(&["DEL", name.as_str()]).map(drop).map_err(cannot)
    }
}
