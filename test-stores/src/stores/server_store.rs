//! The store of a case: servers that the case has to itself. They are used again for another case, because to start them takes
//! longer than most cases, unless this one has harmed them.

use super::cannot::no_hook;
use super::connect::{SECRET, connect, connect_observed, timeouts, with_options};
use super::kinds::FacadeKinds;
use super::pool::{Pooled, ServerPool};
use super::server_group::{DataServer, ServerGroup};
use super::wall_clock::ensure_ahead;
use crate::locked;
use async_trait::async_trait;
use leasehold::client::Observer;
use leasehold::semantics::Fault;
use leasehold::{DistributedLock, LockName};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{
    Administrator, Case, Counters, Kinds, Members, ProcessClock, Replicas, Stop, Store, Subject,
};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// How many groups of servers start at once. With more, they make each other late, and the cases beside them.
static STARTS: Semaphore = Semaphore::const_new(6);

/// A backend in one mode, on servers of this host.
#[derive(Debug)]
pub(super) struct ServerSubject<G: ServerGroup> {
    name: &'static str,
    mode: G::Mode,
    pool: Arc<ServerPool<G>>,
}

/// The servers that a case has.
#[derive(Debug)]
pub(super) struct ServerStore<G: ServerGroup> {
    group: Mutex<Pooled<G>>,
    mode: G::Mode,
    /// The clock that the servers run by, if it is not the host's.
    clock: Mutex<Option<ProcessClock>>,
}

impl<G: ServerGroup> ServerSubject<G> {
    pub(super) fn new(name: &'static str, mode: G::Mode) -> Self {
        Self { name, mode, pool: Arc::default() }
    }
}

#[async_trait]
impl<G: ServerGroup> Subject for ServerSubject<G>
where
    ServerStore<G>: Administrator,
{
    fn name(&self) -> &str {
        self.name
    }

    fn kinds(&self) -> &dyn Kinds {
        &FacadeKinds
    }

    async fn start(&self) -> Result<Box<dyn Store>, Stop> {
        let of = |group| ServerStore { group: Mutex::new(group), mode: self.mode, clock: Mutex::default() };
        let (store, ready) = match self.pool.take() {
            Some(used) => {
                let store = of(used);
                let ready = G::reset(&store).await;
                (store, ready)
            }
            None => {
                let _permit = STARTS.acquire().await;
                let store = of(self.pool.lend(block_in_place(|| G::launch(self.mode, &[]))?));
                let ready = G::set_up(&store).await;
                (store, ready)
            }
        };
        ready.inspect_err(|_| store.group().discard_after_use())?;
        Ok(Box::new(store))
    }

    async fn connect(&self, address: &str) -> leasehold::Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }

    async fn connect_observed(
        &self,
        address: &str,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<dyn DistributedLock>, Stop> {
        match G::HAS_OBSERVERS {
            true => connect_observed(address, observer).await,
            false => Err(no_hook("connect_observed")),
        }
    }

    fn lease(&self, ttl: Duration) -> Duration {
        G::lease(ttl)
    }

    fn covers(&self, case: &Case) -> Result<(), Stop> {
        G::covers(self.mode, case)
    }

    fn can_meet(&self, fault: Fault) -> Result<(), Stop> {
        G::can_meet(fault)
    }
}

impl<G: ServerGroup> ServerStore<G> {
    pub(super) fn group(&self) -> MutexGuard<'_, Pooled<G>> {
        locked(&self.group)
    }

    /// Does something after which no other case gets the servers. `act` may block.
    pub(super) fn for_this_case_only<T>(&self, act: impl FnOnce(&mut G) -> T) -> T {
        block_in_place(|| {
            let mut group = self.group();
            group.discard_after_use();
            act(&mut group)
        })
    }

    /// Puts other servers in their place, at other addresses.
    pub(super) fn replace(&self, group: G, clock: Option<ProcessClock>) {
        *self.group() = Pooled::apart(group);
        *locked(&self.clock) = clock;
    }

    /// Steps the wall clock of the servers. The first step starts new servers, with nothing.
    pub(super) async fn step_wall_clock(&self, seconds: i64) -> Result<(), Stop> {
        let stepped = locked(&self.clock).as_ref().map(|clock| clock.set_ahead(seconds));
        if let Some(stepped) = stepped {
            stepped?;
        } else {
            let clock = ProcessClock::ahead(seconds)?;
            let group = block_in_place(|| G::launch(self.mode, &clock.environment()))?;
            self.replace(group, Some(clock));
            G::set_up(self).await?;
        }
        let shown = G::wall_clocks(self).await?;
        shown.into_iter().try_for_each(|shown| ensure_ahead(shown, seconds))
    }

    /// Leaves no server room for what it writes; or starts all again with room, because some have died.
    pub(super) fn set_disks_full(&self, full: bool) -> Result<(), Stop> {
        self.for_this_case_only(|group| {
            let mut servers = group.servers().iter_mut();
            match full {
                true => servers.try_for_each(|server| server.fill_disk()),
                false => {
                    servers.try_for_each(|server| server.restart(true))?;
                    group.settle()
                }
            }
        })
    }
}

#[async_trait]
impl<G: ServerGroup> Store for ServerStore<G>
where
    Self: Administrator,
{
    fn address(&self) -> String {
        let group = self.group();
        group.url_at(&group.addresses())
    }

    fn address_for_holds_of(&self, time: Duration) -> String {
        let group = self.group();
        group.url_for_holds_of(time, &group.addresses())
    }

    async fn proxied(&self, patience: Duration) -> Result<(Proxy, String), Stop> {
        let addresses = self.group().addresses();
        let proxy = Proxy::to_all(addresses, G::NAME_EACH_OTHER).await?;
        let url = self.group().url_through_proxy(proxy.addresses());
        Ok((proxy, with_options(&url, &timeouts(patience))))
    }

    async fn pause(&self) -> Result<(), Stop> {
        self.for_this_case_only(G::pause_all);
        Ok(())
    }

    async fn resume(&self) -> Result<(), Stop> {
        self.for_this_case_only(G::resume_all)
    }

    async fn kill(&self) -> Result<(), Stop> {
        self.for_this_case_only(G::kill_all);
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.restart_all(keep_data))?;
        if keep_data { Ok(()) } else { G::set_up(self).await }
    }

    async fn crash(&self) -> Result<(), Stop> {
        self.restart(G::CRASH_KEEPS_DATA).await
    }

    async fn sync(&self) -> Result<(), Stop> {
        self.for_this_case_only(G::sync_all)
    }

    /// All servers lose their power at once.
    async fn lose_power(&self) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.servers().iter_mut().try_for_each(DataServer::lose_power))?;
        self.restart(true).await
    }

    async fn refuse(&self, refuse: bool) -> Result<(), Stop> {
        self.group().discard_after_use();
        G::refuse(self, refuse).await
    }

    async fn delete(&self, name: &LockName) -> Result<(), Stop> {
        G::delete(self, name).await
    }

    async fn delete_queue(&self, name: &LockName) -> Result<(), Stop> {
        G::delete_queue(self, name).await
    }

    async fn wipe(&self) -> Result<(), Stop> {
        G::wipe(self).await
    }

    async fn lose_data(&self) -> Result<(), Stop> {
        G::lose_data(self).await
    }

    async fn records(&self) -> Result<usize, Stop> {
        G::records(self).await
    }

    fn administrator(&self) -> Result<&dyn Administrator, Stop> {
        Ok(self)
    }

    async fn counters(&self) -> Result<Counters, Stop> {
        self.group().counters()
    }

    fn members(&self) -> Result<&dyn Members, Stop> {
        G::members(self)
    }

    async fn replicate(&self, behind: Duration) -> Result<(), Stop> {
        G::replicate(self, behind).await
    }

    fn replicas(&self) -> Result<&dyn Replicas, Stop> {
        G::replicas(self)
    }

    async fn namespaced(&self, prefix: &str) -> Result<String, Stop> {
        self.group().permit_prefix(prefix)?;
        Ok(format!("{} {prefix}", self.address()))
    }

    async fn aliases(&self) -> Result<Vec<String>, Stop> {
        self.group().aliases()
    }

    async fn secret(&self) -> Result<(String, String), Stop> {
        Ok((self.group().url_with_secret(SECRET)?, SECRET.to_owned()))
    }
}
