use super::client::AdminClient;
use crate::servers::ZooKeeperServer;
use crate::stores::cannot::no_hook;
use crate::stores::connect::{join, loopback};
use crate::stores::server_group::{DataServer, Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold::semantics::Fault;
use leasehold_conformance::{Administrator, Case, Counters, Members, Stop, Store};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;

/// Short, for the cases that wait for a session to end; longer than the pauses of a machine under load.
pub(super) const SHORT_SESSION: &str = "session_timeout=2s";

/// One server or several, with the directory of a case's locks, which no other case uses.
#[derive(Debug)]
pub(in crate::stores) struct ZooKeeperGroup<S> {
    pub(super) servers: S,
    pub(super) directory: String,
}

/// What differs between one server and an ensemble.
pub(in crate::stores) trait ZooKeeperServers: Debug + Send + Sized + 'static {
    /// The option of the usual URL.
    const SESSION: &str;

    fn covers(_case: &Case) -> Result<(), Stop> {
        Ok(())
    }

    fn can_meet(_fault: Fault) -> Result<(), Stop> {
        Ok(())
    }

    fn launch(environment: &Environment) -> Result<Self, Stop>;

    fn each(&mut self) -> &mut [ZooKeeperServer];

    fn ports(&self) -> Vec<u16>;

    /// Waits until all servers serve.
    fn settle(&self) -> Result<(), Stop> {
        Ok(())
    }

    /// The server, for a hook that an ensemble does not offer.
    fn only_server(&self, hook: &str) -> Result<&ZooKeeperServer, Stop> {
        Err(no_hook(hook))
    }

    fn members(_store: &ServerStore<ZooKeeperGroup<Self>>) -> Result<&dyn Members, Stop> {
        Err(no_hook("members"))
    }
}

impl DataServer for ZooKeeperServer {
    fn port(&self) -> u16 {
        Self::port(self)
    }
}

#[async_trait]
impl<S: ZooKeeperServers> ServerGroup for ZooKeeperGroup<S> {
    type Server = ZooKeeperServer;
    type Mode = ();

    const HAS_OBSERVERS: bool = false;

    fn covers((): (), case: &Case) -> Result<(), Stop> {
        S::covers(case)
    }

    fn can_meet(fault: Fault) -> Result<(), Stop> {
        S::can_meet(fault)
    }

    fn launch((): (), environment: &Environment) -> Result<Self, Stop> {
        let servers = S::launch(environment)?;
        Ok(Self { servers, directory: new_directory() })
    }

    fn servers(&mut self) -> &mut [ZooKeeperServer] {
        self.servers.each()
    }

    fn settle(&mut self) -> Result<(), Stop> {
        self.servers.settle()
    }

    fn sync_all(&mut self) -> Result<(), Stop> {
        self.servers().iter_mut().try_for_each(DataServer::sync)?;
        self.settle()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.ports().into_iter().map(loopback).collect()
    }

    fn url_at(&self, addresses: &[SocketAddr]) -> String {
        self.url_with_session(addresses, S::SESSION)
    }

    /// A client believes in a hold for three quarters of its session.
    fn url_for_holds_of(&self, time: Duration, addresses: &[SocketAddr]) -> String {
        let session = format!("session_timeout={}ms", (time * 4 / 3).as_millis());
        self.url_with_session(addresses, &session)
    }

    fn url_through_proxy(&self, addresses: &[SocketAddr]) -> String {
        self.url_with_session(addresses, SHORT_SESSION)
    }

    fn aliases(&self) -> Result<Vec<String>, Stop> {
        let (port, directory) = (self.servers.only_server("aliases")?.port(), &self.directory);
        Ok(vec![
            format!("zk://localhost:{port}{directory}"),
            format!("zk://127.0.0.1:{port}{directory}/"),
            format!("zk://127.0.0.1:{port},127.0.0.1:{port}{directory}?timeout=1s"),
        ])
    }

    fn url_with_secret(&self, secret: &str) -> Result<String, Stop> {
        self.servers.only_server("secret")?;
        Ok(self.url_at(&self.addresses()).replace("://", &format!("://locker:{secret}@")))
    }

    fn permit_prefix(&self, _prefix: &str) -> Result<(), Stop> {
        self.servers.only_server("namespaced").map(drop)
    }

    async fn reset(store: &ServerStore<Self>) -> Result<(), Stop> {
        store.group().directory = new_directory();
        Ok(())
    }

    async fn refuse(store: &ServerStore<Self>, refuse: bool) -> Result<(), Stop> {
        client(store).await?.refuse(refuse).await
    }

    async fn delete(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        client(store).await?.delete_holders(name).await
    }

    async fn delete_queue(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        store.group().servers.only_server("delete_queue").map(drop)?;
        client(store).await?.delete_queue(name).await
    }

    async fn wipe(store: &ServerStore<Self>) -> Result<(), Stop> {
        client(store).await?.delete_all().await
    }

    /// The worst way is to lose the disks, and with them the count of transactions.
    async fn lose_data(store: &ServerStore<Self>) -> Result<(), Stop> {
        Store::restart(store, false).await
    }

    async fn records(store: &ServerStore<Self>) -> Result<usize, Stop> {
        client(store).await?.places().await
    }

    fn counters(&self) -> Result<Counters, Stop> {
        Ok(self.servers.only_server("counters")?.traffic()?)
    }

    /// The clock of the server that orders what is written.
    async fn wall_clocks(store: &ServerStore<Self>) -> Result<Vec<i64>, Stop> {
        Ok(vec![client(store).await?.wall_clock().await?])
    }

    fn members(store: &ServerStore<Self>) -> Result<&dyn Members, Stop> {
        S::members(store)
    }
}

impl<S: ZooKeeperServers> ZooKeeperGroup<S> {
    fn url_with_session(&self, addresses: &[SocketAddr], session: &str) -> String {
        format!("zk://{}{}?{session}", join(addresses), self.directory)
    }
}

async fn client<S: ZooKeeperServers>(store: &ServerStore<ZooKeeperGroup<S>>) -> Result<AdminClient, Stop> {
    let (servers, directory) = {
        let group = store.group();
        (join(&group.addresses()), group.directory.clone())
    };
    AdminClient::connect(&servers, directory).await
}

fn new_directory() -> String {
    format!("/case-{:08x}", fastrand::u32(..))
}

/// Only the host has an administrator: its wall clock, and its disk.
#[async_trait]
impl<S: ZooKeeperServers> Administrator for ServerStore<ZooKeeperGroup<S>> {
    async fn set_clock_ahead(&self, seconds: i64) -> Result<(), Stop> {
        self.step_wall_clock(seconds).await
    }

    async fn fill_disk(&self, full: bool) -> Result<(), Stop> {
        self.set_disks_full(full)
    }
}
