use super::{cannot, connect, directory};
use async_trait::async_trait;
use leasehold::{DistributedLock, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::servers::ZooKeeperEnsemble as Servers;
use leasehold_conformance::{Cannot, Case, Members, Store, Subject};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Three ZooKeeper servers that are one store. Only what needs several servers is asked of them; the rest is asked of
/// one, which is the same code.
#[derive(Debug)]
pub(crate) struct ZooKeeperEnsemble;

/// Exclusion and order across servers, and what happens when some of them fail.
const COVERED: [&str; 8] = ["A01", "A05", "F03", "H01", "J17", "J18", "J19", "J20"];

/// Long enough to survive an election. What a hold is worth is measured with short ones, on one server.
const LONG_SESSION: &str = "session_timeout=9s";

#[derive(Debug)]
struct Nodes {
    servers: Mutex<Servers>,
    ports: Vec<u16>,
    directory: String,
}

impl Nodes {
    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn url(&self, ports: impl IntoIterator<Item = u16>) -> String {
        let hosts: Vec<String> = ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("zk://{}{}?{LONG_SESSION}", hosts.join(","), self.directory)
    }
}

#[async_trait]
impl Subject for ZooKeeperEnsemble {
    fn name(&self) -> &str {
        "zookeeper-ensemble"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let servers = Servers::start().map_err(cannot)?;
        let (ports, directory) = (servers.ports(), directory());
        Ok(Box::new(Nodes { servers: Mutex::new(servers), ports, directory }))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }

    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        let covered = COVERED.contains(&case.id);
        covered.then_some(()).ok_or_else(|| Cannot::new("shown on one server, which is the same code"))
    }
}

#[async_trait]
impl Store for Nodes {
    fn address(&self) -> String {
        self.url(self.ports.iter().copied())
    }

    fn members(&self) -> std::result::Result<&dyn Members, Cannot> {
        Ok(self)
    }
}

#[async_trait]
impl Members for Nodes {
    fn count(&self) -> usize {
        self.ports.len()
    }

    async fn leader_of(&self, serving: usize) -> std::result::Result<usize, Cannot> {
        tokio::task::block_in_place(|| self.servers().wait_until_served(serving)).map_err(cannot)
    }

    async fn kill(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.servers().kill(member);
        Ok(())
    }

    async fn restart(&self, member: usize) -> std::result::Result<(), Cannot> {
        tokio::task::block_in_place(|| self.servers().restart(member, true)).map_err(cannot)
    }

    async fn pause(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.servers().pause(member);
        Ok(())
    }

    async fn resume(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.servers().resume(member);
        Ok(())
    }

    async fn proxied(&self) -> std::result::Result<(Vec<Proxy>, String), Cannot> {
        let mut proxies = Vec::new();
        for port in &self.ports {
            proxies.push(Proxy::to(([127, 0, 0, 1], *port).into()).await.map_err(cannot)?);
        }
        let address = self.url(proxies.iter().map(|proxy| proxy.address().port()));
        Ok((proxies, address))
    }
}
