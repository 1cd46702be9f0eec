use super::commands::{APPEND_ONLY, ask_number, clear, delete, lock_key, refuse_scripts, tell, wall_clocks};
use super::group_administrator::RedisGroup;
use crate::servers::RedisServer;
use crate::stores::cannot::not_held;
use crate::stores::connect::{join, loopback, with_options};
use crate::stores::members::MemberGroup;
use crate::stores::server_group::{Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold_conformance::{Case, Members, Stop};
use std::net::SocketAddr;
use std::time::Duration;

const SERVERS: usize = 5;

/// Five Redis servers that know nothing of each other, and write to disk what they have acknowledged, as far as a crash of the
/// process goes.
#[derive(Debug)]
pub(in crate::stores) struct RedlockServers(Vec<RedisServer>);

#[async_trait]
impl ServerGroup for RedlockServers {
    type Server = RedisServer;
    type Mode = ();

    const CRASH_KEEPS_DATA: bool = false;
    const HAS_OBSERVERS: bool = false;

    fn covers((): (), case: &Case) -> Result<(), Stop> {
        match case.id {
            "P04" => Err(Stop::skipped("of many who try at once and do not wait, none may get a majority")),
            _ => Ok(()),
        }
    }

    /// Starts all at once, which takes less time.
    fn launch((): (), environment: &Environment) -> Result<Self, Stop> {
        let start = || RedisServer::start_in(&APPEND_ONLY, environment);
        let servers: Result<_, _> = std::thread::scope(|scope| {
            let starting: Vec<_> = (0..SERVERS).map(|_| scope.spawn(start)).collect();
            let started = starting.into_iter().map(|server| server.join());
            started.map(|server| server.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        servers.map(Self)
    }

    fn servers(&mut self) -> &mut [RedisServer] {
        &mut self.0
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|server| loopback(server.port())).collect()
    }

    fn url_at(&self, addresses: &[SocketAddr]) -> String {
        format!("redlock://{}", join(addresses))
    }

    fn aliases(&self) -> Result<Vec<String>, Stop> {
        let mut addresses = self.addresses();
        let url = self.url_at(&addresses);
        addresses.reverse();
        Ok(vec![
            url.replace("127.0.0.1", "localhost"),
            format!("{}/0", self.url_at(&addresses)),
            with_options(&url, "timeout=1s"),
            with_options(&url, "protocol=resp2"),
        ])
    }

    fn url_with_secret(&self, secret: &str) -> Result<String, Stop> {
        Ok(self.url_at(&self.addresses()).replace("://", &format!("://locker:{secret}@")))
    }

    async fn reset(store: &ServerStore<Self>) -> Result<(), Stop> {
        store.group().0.iter().try_for_each(clear)
    }

    /// Deletes the key on each server that has it: a majority is enough to hold the lock.
    async fn refuse(store: &ServerStore<Self>, refuse: bool) -> Result<(), Stop> {
        refuse_scripts(store.group().servers(), refuse)
    }

    async fn delete(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        let mut deleted = Err(not_held());
        for server in &store.group().0 {
            match delete(server, name) {
                Err(Stop::Absent(_)) => {}
                here => deleted = Ok(here?),
            }
        }
        deleted
    }

    async fn wipe(store: &ServerStore<Self>) -> Result<(), Stop> {
        store.group().0.iter().try_for_each(|server| tell(server, &["FLUSHALL"]))
    }

    /// The largest number of records on one server. A server that answered too late for a grant or a release follows the others a
    /// moment later, so all servers are counted until nothing changes.
    async fn records(store: &ServerStore<Self>) -> Result<usize, Stop> {
        let mut before = None;
        loop {
            let now = (0..SERVERS).map(|member| ask_number(&store.group().0[member], &["DBSIZE"]));
            let now = now.collect::<Result<Vec<_>, _>>()?;
            if before.as_ref() == Some(&now) {
                return Ok(now.into_iter().max().unwrap_or_default());
            }
            before = Some(now);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn wall_clocks(store: &ServerStore<Self>) -> Result<Vec<i64>, Stop> {
        wall_clocks(&store.group().0)
    }

    fn members(store: &ServerStore<Self>) -> Result<&dyn Members, Stop> {
        Ok(store)
    }
}

impl RedisGroup for RedlockServers {}

impl MemberGroup for RedlockServers {
    const INDEPENDENT: bool = true;

    fn leader_of(&mut self, _serving: usize) -> Result<usize, Stop> {
        Ok(0)
    }

    fn holds(&self, member: usize, name: &LockName) -> Result<bool, Stop> {
        Ok(ask_number(&self.0[member], &["EXISTS", &lock_key(name)])? == 1)
    }

    fn end_lease(&self, member: usize, name: &LockName) -> Result<(), Stop> {
        let holder = format!("{{{}}}:holder", lock_key(name));
        tell(&self.0[member], &["DEL", &lock_key(name), &holder])
    }
}
