use super::kinds::KINDS;
use super::pool::{Pool, Pooled};
use super::redis::{APPEND_ONLY, Servers, clear, delete, tell};
use super::{NOBODY, SECRET, cannot, connect, timeouts};
use crate::servers::RedisServer;
use async_trait::async_trait;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::server::StartError;
use leasehold_conformance::{Administrator, Cannot, Case, Kinds, Members, ShimmedClock, Store, Subject};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Five Redis nodes that know nothing of each other, and write to disk what they have acknowledged, as far as a crash of
/// the process goes. A case has them to itself; they are cleared and used again for another case unless this one has
/// harmed one of them.
#[derive(Debug, Default)]
pub(crate) struct Redlock {
    pool: Arc<Pool<Vec<Mutex<RedisServer>>>>,
}

const NODES: usize = 5;

#[derive(Debug)]
pub(super) struct Nodes {
    servers: Pooled<Vec<Mutex<RedisServer>>>,
    ports: Vec<u16>,
    clock: Mutex<Option<ShimmedClock>>,
}

impl Nodes {
    fn new(servers: Pooled<Vec<Mutex<RedisServer>>>) -> Self {
        let ports = servers.iter().map(|server| lock(server).port()).collect();
        Self { servers, ports, clock: Mutex::default() }
    }

    fn start() -> std::result::Result<Vec<Mutex<RedisServer>>, StartError> {
        let start = || RedisServer::start_with(&APPEND_ONLY);
        let servers = std::thread::scope(|scope| {
            let starting: Vec<_> = (0..NODES).map(|_| scope.spawn(start)).collect();
            starting
                .into_iter()
                .map(|server| server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<std::result::Result<Vec<_>, _>>()
        })?;
        Ok(servers.into_iter().map(Mutex::new).collect())
    }

    fn server(&self, node: usize) -> MutexGuard<'_, RedisServer> {
        lock(&self.servers[node])
    }

    /// A server, which no other case is to have after this one.
    fn harmed(&self, node: usize) -> MutexGuard<'_, RedisServer> {
        self.servers.keep_from_others();
        self.server(node)
    }

    fn command(&self, node: usize, words: &[&str]) -> std::result::Result<String, Cannot> {
        self.server(node).command(words).map_err(cannot)
    }

    fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.ports.iter().map(|port| ([127, 0, 0, 1], *port).into())
    }
}

fn lock(server: &Mutex<RedisServer>) -> MutexGuard<'_, RedisServer> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

fn url(addresses: impl IntoIterator<Item = SocketAddr>) -> String {
    let hosts: Vec<String> = addresses.into_iter().map(|address| address.to_string()).collect();
    format!("redlock://{}", hosts.join(","))
}

fn patient(url: &str, patience: Duration) -> String {
    format!("{url}?{}", timeouts(patience))
}

impl Servers for Nodes {
    fn each(
        &self,
        act: &mut dyn FnMut(&mut RedisServer) -> std::result::Result<(), Cannot>,
    ) -> std::result::Result<(), Cannot> {
        (0..NODES).try_for_each(|node| act(&mut self.harmed(node)))
    }

    fn settle(&self) -> std::result::Result<(), Cannot> {
        Ok(())
    }

    fn clock(&self) -> &Mutex<Option<ShimmedClock>> {
        &self.clock
    }
}

#[async_trait]
impl Subject for Redlock {
    fn name(&self) -> &str {
        "redlock"
    }

    fn kinds(&self) -> &dyn Kinds {
        &KINDS
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let servers = match self.pool.take() {
            Some(used) => {
                let cleared = used.iter().try_for_each(|server| clear(&lock(server)));
                cleared.inspect_err(|_| used.keep_from_others())?;
                used
            }
            None => self.pool.lend(tokio::task::block_in_place(Nodes::start).map_err(cannot)?),
        };
        Ok(Box::new(Nodes::new(servers)))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }

    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        match case.id {
            "P04" => Err(Cannot::new("of many who try at once and do not wait, none may get a majority")),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Nodes {
    fn address(&self) -> String {
        url(self.addresses())
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let proxy = Proxy::to_all(self.addresses()).await.map_err(cannot)?;
        let address = patient(&url(proxy.addresses().iter().copied()), patience);
        Ok((proxy, address))
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        (0..NODES).for_each(|node| self.harmed(node).pause());
        Ok(())
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        (0..NODES).for_each(|node| self.harmed(node).resume());
        Ok(())
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        (0..NODES).for_each(|node| self.harmed(node).kill());
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        (0..NODES).try_for_each(|node| self.harmed(node).restart(keep_data)).map_err(cannot)
    }

    /// As they are shipped, they write nothing but a snapshot after an hour.
    async fn crash(&self) -> std::result::Result<(), Cannot> {
        Store::restart(self, false).await
    }

    async fn sync(&self) -> std::result::Result<(), Cannot> {
        self.each(&mut |server| server.sync().map_err(cannot))
    }

    /// All nodes lose it at once.
    async fn lose_power(&self) -> std::result::Result<(), Cannot> {
        self.each(&mut |server| server.lose_power().map_err(cannot))?;
        Store::restart(self, true).await
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Cannot> {
        Ok(self)
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let mut deleted = Err(Cannot::absent(NOBODY));
        for node in 0..NODES {
            match delete(&self.server(node), name) {
                // A majority is enough to hold it.
                Err(nobody) if nobody.is_absent() => {}
                here => deleted = Ok(here?),
            }
        }
        deleted
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        (0..NODES).try_for_each(|node| tell(&self.server(node), &["FLUSHALL"]))
    }

    /// The largest number of records on one node. A node that answered too late for a grant or a release follows the others a
    /// moment later, so all nodes are counted until nothing changes.
    async fn records(&self) -> std::result::Result<usize, Cannot> {
        let mut before = None;
        loop {
            let mut now = Vec::new();
            for node in 0..NODES {
                now.push(self.records_of(node).await?);
            }
            if before.as_ref() == Some(&now) {
                return Ok(now.into_iter().max().unwrap_or_default());
            }
            before = Some(now);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn members(&self) -> std::result::Result<&dyn Members, Cannot> {
        Ok(self)
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        Ok(format!("{} {prefix}", self.address()))
    }

    async fn aliases(&self) -> std::result::Result<Vec<String>, Cannot> {
        let backwards: Vec<SocketAddr> = self.addresses().collect();
        let backwards = url(backwards.into_iter().rev());
        let by_name = self.address().replace("127.0.0.1", "localhost");
        Ok(vec![
            by_name,
            format!("{backwards}/0"),
            format!("{}?timeout=1s", self.address()),
            format!("{}?protocol=resp2", self.address()),
        ])
    }

    async fn secret(&self) -> std::result::Result<(String, String), Cannot> {
        let secret = SECRET.to_owned();
        Ok((self.address().replace("://", &format!("://locker:{secret}@")), secret))
    }
}

#[async_trait]
impl Members for Nodes {
    fn count(&self) -> usize {
        NODES
    }

    /// None of them leads, so any will do.
    async fn leader_of(&self, _serving: usize) -> std::result::Result<usize, Cannot> {
        Ok(0)
    }

    fn has_leader(&self) -> bool {
        false
    }

    async fn kill(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.harmed(member).kill();
        Ok(())
    }

    async fn restart(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.harmed(member).restart(true).map_err(cannot)
    }

    async fn restart_empty(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.harmed(member).restart(false).map_err(cannot)
    }

    async fn pause(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.harmed(member).pause();
        Ok(())
    }

    async fn resume(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.harmed(member).resume();
        Ok(())
    }

    async fn proxied(&self) -> std::result::Result<(Vec<Proxy>, String), Cannot> {
        let mut proxies = Vec::new();
        for address in self.addresses() {
            proxies.push(Proxy::to(address).await.map_err(cannot)?);
        }
        let address = url(proxies.iter().map(Proxy::address));
        Ok((proxies, address))
    }

    async fn records_of(&self, member: usize) -> std::result::Result<usize, Cannot> {
        self.command(member, &["DBSIZE"])?.trim_start_matches(':').parse().map_err(cannot)
    }

    async fn holds(&self, member: usize, name: &LockName) -> std::result::Result<bool, Cannot> {
        Ok(self.command(member, &["EXISTS", &format!("leasehold:{name}")])? == ":1")
    }

    async fn end_lease(&self, member: usize, name: &LockName) -> std::result::Result<(), Cannot> {
        let (lock, holder) = (format!("leasehold:{name}"), format!("{{leasehold:{name}}}:holder"));
        tell(&self.server(member), &["DEL", &lock, &holder])
    }
}
