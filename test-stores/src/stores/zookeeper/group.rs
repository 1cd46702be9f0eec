use super::client::AdminClient;
use crate::servers::{ZooKeeperEnsemble, ZooKeeperServer};
use crate::stores::cannot::no_hook;
use crate::stores::connect::{join, loopback};
use crate::stores::members::{MemberGroup, can_meet, covers};
use crate::stores::server_group::{DataServer, Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold::semantics::Fault;
use leasehold_conformance::{Administrator, Case, Counters, Members, Stop, Store};
use std::net::SocketAddr;
use std::time::Duration;

/// Short, for the cases that wait for a session to end; longer than the pauses of a machine under load.
const SHORT_SESSION: &str = "session_timeout=2s";

/// Outlasts an election. Cases of one server measure holds with short sessions.
const SESSION_OF_SEVERAL: &str = "session_timeout=9s";
/// So many servers, with the directory of a case's locks, which no other case uses.
#[derive(Debug)]
pub(in crate::stores) struct ZooKeeperGroup<const SERVERS: usize> {
    ensemble: ZooKeeperEnsemble,
    directory: String,
}

impl<const SERVERS: usize> MemberGroup for ZooKeeperGroup<SERVERS> {
    const INDEPENDENT: bool = false;

    fn leader_of(&mut self, serving: usize) -> Result<usize, Stop> {
        self.ensemble.wait_until_served(serving)
    }
}

impl DataServer for ZooKeeperServer {
    fn port(&self) -> u16 {
        Self::port(self)
    }
}

#[async_trait]
impl<const SERVERS: usize> ServerGroup for ZooKeeperGroup<SERVERS> {
    type Server = ZooKeeperServer;
    type Mode = ();

    const HAS_OBSERVERS: bool = false;

    fn covers((): (), case: &Case) -> Result<(), Stop> {
        covers(SERVERS, case)
    }

    fn can_meet(fault: Fault) -> Result<(), Stop> {
        can_meet(SERVERS, fault)
    }

    fn launch((): (), environment: &Environment) -> Result<Self, Stop> {
        let ensemble = ZooKeeperEnsemble::start_of(SERVERS, environment)?;
        Ok(Self { ensemble, directory: new_directory() })
    }

    fn servers(&mut self) -> &mut [ZooKeeperServer] {
        self.ensemble.members_mut()
    }

    fn settle(&mut self) -> Result<(), Stop> {
        if SERVERS == 1 { Ok(()) } else { self.ensemble.wait_until_served(SERVERS).map(drop) }
    }

    fn sync_all(&mut self) -> Result<(), Stop> {
        self.servers().iter_mut().try_for_each(DataServer::sync)?;
        self.settle()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.ensemble.ports().into_iter().map(loopback).collect()
    }

    fn url_at(&self, addresses: &[SocketAddr]) -> String {
        self.url_with_session(addresses, if SERVERS == 1 { SHORT_SESSION } else { SESSION_OF_SEVERAL })
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
        let (port, directory) = (self.only_server("aliases")?.port(), &self.directory);
        Ok(vec![
            format!("zk://localhost:{port}{directory}"),
            format!("zk://127.0.0.1:{port}{directory}/"),
            format!("zk://127.0.0.1:{port},127.0.0.1:{port}{directory}?timeout=1s"),
        ])
    }

    fn url_with_secret(&self, secret: &str) -> Result<String, Stop> {
        self.only_server("secret")?;
        Ok(self.url_at(&self.addresses()).replace("://", &format!("://locker:{secret}@")))
    }

    fn permit_prefix(&self, _prefix: &str) -> Result<(), Stop> {
        self.only_server("namespaced").map(drop)
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
        store.group().only_server("delete_queue").map(drop)?;
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
        Ok(self.only_server("counters")?.traffic()?)
    }

    /// The clock of the server that orders what is written.
    async fn wall_clocks(store: &ServerStore<Self>) -> Result<Vec<i64>, Stop> {
        Ok(vec![client(store).await?.wall_clock().await?])
    }

    fn members(store: &ServerStore<Self>) -> Result<&dyn Members, Stop> {
        if SERVERS == 1 { Err(no_hook("members")) } else { Ok(store) }
    }
}

impl<const SERVERS: usize> ZooKeeperGroup<SERVERS> {
    /// The server, for a hook that an ensemble does not offer.
    fn only_server(&self, hook: &str) -> Result<&ZooKeeperServer, Stop> {
        if SERVERS == 1 { Ok(&self.ensemble.members()[0]) } else { Err(no_hook(hook)) }
    }

    fn url_with_session(&self, addresses: &[SocketAddr], session: &str) -> String {
        format!("zk://{}{}?{session}", join(addresses), self.directory)
    }
}

async fn client<const N: usize>(store: &ServerStore<ZooKeeperGroup<N>>) -> Result<AdminClient, Stop> {
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
impl<const SERVERS: usize> Administrator for ServerStore<ZooKeeperGroup<SERVERS>> {
    async fn set_clock_ahead(&self, seconds: i64) -> Result<(), Stop> {
        self.step_wall_clock(seconds).await
    }

    async fn fill_disk(&self, full: bool) -> Result<(), Stop> {
        self.set_disks_full(full)
    }
}
