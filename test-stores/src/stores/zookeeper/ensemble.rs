use super::super::kinds::KINDS;
use super::admin::Admin;
use super::{Pool, Pooled, cannot, connect, directory, ensure_disk, session_for, timeouts};
use crate::servers::ZooKeeperEnsemble as Servers;
use async_trait::async_trait;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Cannot, Case, Kinds, Members, ShimmedClock, Store, Subject};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Three ZooKeeper servers that are one store. Only what needs several servers is asked of them; the rest is asked of
/// one, which is the same code. An ensemble is used again for another case unless this one has harmed it.
#[derive(Debug, Default)]
pub(crate) struct ZooKeeperEnsemble {
    pool: Arc<Pool<Servers>>,
}

/// Exclusion and order across servers, and what happens when some of them fail.
const COVERED: [&str; 8] = ["A01", "A05", "F03", "H01", "J17", "J18", "J19", "J20"];

/// Long enough to survive an election. What a hold is worth is measured with short ones, on one server.
const LONG_SESSION: &str = "session_timeout=9s";

#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) servers: Mutex<Pooled<Servers>>,
    /// The clock that they run by, if it is one of their own.
    pub(super) clock: Mutex<Option<ShimmedClock>>,
    directory: String,
}

impl Nodes {
    pub(super) fn servers(&self) -> MutexGuard<'_, Pooled<Servers>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers, which no other case is to have after this one.
    pub(super) fn harmed(&self) -> MutexGuard<'_, Pooled<Servers>> {
        let servers = self.servers();
        servers.keep_from_others();
        servers
    }

    fn ports(&self) -> Vec<u16> {
        self.servers().ports()
    }

    pub(super) async fn admin(&self) -> std::result::Result<Admin, Cannot> {
        let hosts: Vec<String> = self.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        Admin::connect(&hosts.join(","), &self.directory).await
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

    fn kinds(&self) -> &dyn Kinds {
        &KINDS
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let start = || Servers::start().map(|servers| self.pool.lend(servers));
        let servers = self.pool.take().map_or_else(start, Ok).map_err(cannot)?;
        Ok(Box::new(Nodes { servers: Mutex::new(servers), clock: Mutex::default(), directory: directory() }))
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
        self.url(self.ports())
    }

    /// Belief is three quarters of the session.
    fn address_for_holds_of(&self, time: Duration) -> String {
        self.address().replace(LONG_SESSION, &session_for(time))
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let servers = self.ports().into_iter().map(|port| ([127, 0, 0, 1], port).into());
        let proxy = Proxy::to_all(servers).await.map_err(cannot)?;
        let url = self.url(proxy.addresses().iter().map(std::net::SocketAddr::port));
        let short = format!("session_timeout=2s&{}", timeouts(patience));
        Ok((proxy, url.replace(LONG_SESSION, &short)))
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        (0..self.ports().len()).for_each(|member| self.harmed().pause(member));
        Ok(())
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        (0..self.ports().len()).for_each(|member| self.harmed().resume(member));
        Ok(())
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        (0..self.ports().len()).for_each(|member| self.harmed().kill(member));
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        tokio::task::block_in_place(|| {
            let mut servers = self.harmed();
            let all = servers.ports().len();
            (0..all).for_each(|member| servers.kill(member));
            (0..all).try_for_each(|member| servers.restart(member, keep_data))?;
            servers.wait_until_served(all).map(drop)
        })
        .map_err(cannot)
    }

    async fn sync(&self) -> std::result::Result<(), Cannot> {
        ensure_disk()?;
        tokio::task::block_in_place(|| self.harmed().sync_to_own_disks()).map_err(cannot)
    }

    async fn lose_power(&self) -> std::result::Result<(), Cannot> {
        self.harmed().lose_power().map_err(cannot)?;
        Store::restart(self, true).await
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        self.admin().await?.delete_holder(name).await
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        self.admin().await?.delete_all().await
    }

    /// The disks, and with them the count of transactions.
    async fn lose_data(&self) -> std::result::Result<(), Cannot> {
        Store::restart(self, false).await
    }

    async fn records(&self) -> std::result::Result<usize, Cannot> {
        self.admin().await?.places().await
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Cannot> {
        Ok(self)
    }

    fn members(&self) -> std::result::Result<&dyn Members, Cannot> {
        Ok(self)
    }
}

#[async_trait]
impl Members for Nodes {
    fn count(&self) -> usize {
        self.ports().len()
    }

    async fn leader_of(&self, serving: usize) -> std::result::Result<usize, Cannot> {
        tokio::task::block_in_place(|| self.servers().wait_until_served(serving)).map_err(cannot)
    }

    async fn kill(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.harmed().kill(member);
        Ok(())
    }

    async fn restart(&self, member: usize) -> std::result::Result<(), Cannot> {
        tokio::task::block_in_place(|| self.harmed().restart(member, true)).map_err(cannot)
    }

    async fn pause(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.harmed().pause(member);
        Ok(())
    }

    async fn resume(&self, member: usize) -> std::result::Result<(), Cannot> {
        self.harmed().resume(member);
        Ok(())
    }

    async fn proxied(&self) -> std::result::Result<(Vec<Proxy>, String), Cannot> {
        let mut proxies = Vec::new();
        for port in self.ports() {
            proxies.push(Proxy::to(([127, 0, 0, 1], port).into()).await.map_err(cannot)?);
        }
        let address = self.url(proxies.iter().map(|proxy| proxy.address().port()));
        Ok((proxies, address))
    }
}
