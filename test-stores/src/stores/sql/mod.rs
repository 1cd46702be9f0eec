//! Databases on servers, each in every mode, used with exactly the rights that the manual asks for.

mod administrator;
mod mariadb;
mod postgres;
mod replica;
mod server;

use super::kinds::KINDS;
use super::pool::{Pool, Pooled};
use super::{NOBODY, SECRET, cannot, connect, connect_observed, ensure_disk, in_time, timeouts};
use crate::servers::{MariaDbServer, MySqlServer, PostgresServer};
use async_trait::async_trait;
use leasehold::client::Observer;
use leasehold::{Config, DistributedLock, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Cannot, Case, Kinds, Replicas, SteppedClock, Store, Subject};
use replica::Follower;
use server::SqlServer;
use std::error::Error;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) type MariaDb = Sql<MariaDbServer>;
pub(crate) type MySql = Sql<MySqlServer>;
pub(crate) type Postgres = Sql<PostgresServer>;

/// The user of the tables. It has no other right.
const LOCKER: &str = "locker:sesame";

/// A server in one mode. A case has it to itself; it is used again for another case unless this one has harmed it.
#[derive(Debug)]
pub(crate) struct Sql<Server> {
    name: &'static str,
    mode: &'static str,
    tables: &'static [&'static str],
    pool: Arc<Pool<Server>>,
}

#[derive(Debug)]
struct Running<Server> {
    server: Mutex<Pooled<Server>>,
    /// The clock that the server runs by, if it is one of its own.
    clock: Mutex<Option<SteppedClock>>,
    /// What follows it, if it was asked to be followed; and when that has taken over, what it followed.
    follower: Mutex<Option<Follower<Server>>>,
    mode: &'static str,
    tables: &'static [&'static str],
}

impl<Server> Sql<Server> {
    pub(crate) fn lease(name: &'static str) -> Self {
        Self { name, mode: "lease", tables: &["leasehold"], pool: Arc::default() }
    }

    pub(crate) fn optimistic(name: &'static str) -> Self {
        Self { name, mode: "optimistic", tables: &["leasehold"], pool: Arc::default() }
    }

    pub(crate) fn for_update(name: &'static str) -> Self {
        const TABLES: &[&str] = &["leasehold_held", "leasehold_held_rows"];
        Self { name, mode: "for-update", tables: TABLES, pool: Arc::default() }
    }
}

#[async_trait]
impl<Server: SqlServer> Subject for Sql<Server> {
    fn name(&self) -> &str {
        self.name
    }

    fn kinds(&self) -> &dyn Kinds {
        &KINDS
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let (mode, tables) = (self.mode, self.tables);
        let running = |server| Running {
            server: Mutex::new(server),
            clock: Mutex::default(),
            follower: Mutex::default(),
            mode,
            tables,
        };
        if let Some(used) = self.pool.take() {
            // What the last case has left to itself.
            kill_clients::<Server>(used.port()).await?;
            return Ok(Box::new(running(used)));
        }
        let new = running(self.pool.lend(Server::launch(Vec::new()).await?));
        new.furnish().await?;
        Ok(Box::new(new))
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

    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        match (self.mode, case.id) {
            ("optimistic", "D16") => {
                Err(Cannot::new("its renewals are those of the leases, by the same statement"))
            }
            ("optimistic", "J05" | "J26" | "J27") => Err(Cannot::new("its rows are those of the leases")),
            ("for-update", "J26") => Err(Cannot::new("a hold that is a connection's ends with the primary")),
            (_, "J04" | "J28") => {
                Err(Cannot::new("the matrix makes it, and shows more: fail over, split brain"))
            }
            (_, "J25") => Err(Cannot::new("clients cannot ask whether a replica has what the primary has")),
            _ => Ok(()),
        }
    }
}

impl<Server: SqlServer> Running<Server> {
    fn server(&self) -> MutexGuard<'_, Pooled<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server, which no other case is to have after this one.
    fn harmed(&self) -> MutexGuard<'_, Pooled<Server>> {
        let server = self.server();
        server.keep_from_others();
        server
    }

    fn clock(&self) -> MutexGuard<'_, Option<SteppedClock>> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, server: Server) {
        *self.server() = Pooled::apart(server);
    }

    fn port(&self) -> u16 {
        self.server().port()
    }

    /// Where the primary is, whichever that is.
    fn place(&self) -> String {
        self.followed_at().unwrap_or_else(|| format!("127.0.0.1:{}", self.port()))
    }

    fn url(&self, login: &str, place: &str, more: &str) -> String {
        let (scheme, database, options) = (Server::SCHEME, Server::DATABASE, Server::OPTIONS);
        format!("{scheme}://{login}@{place}/{database}?mode={}{options}{more}", self.mode)
    }

    /// The tables, made by `leasehold init` as an administrator runs it, and the rights of who uses them.
    async fn furnish(&self) -> std::result::Result<(), Cannot> {
        let url = self.url(Server::ADMINISTRATOR, &self.place(), "");
        let client = leasehold::connect_with(&Config::new(&url).map_err(cannot)?).await.map_err(cannot)?;
        let admin = client.admin().ok_or_else(|| Cannot::new("no administration"))?;
        let made = admin.init().await;
        made.map_err(|error| Cannot::failed(format!("{error}: {:?}", error.source())))?;
        client.close().await.map_err(cannot)?;
        for grant in self.tables.iter().flat_map(|table| Server::grants(table)) {
            Server::run(self.port(), &grant).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl<Server: SqlServer> Store for Running<Server> {
    fn address(&self) -> String {
        self.url(LOCKER, &self.place(), "")
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let proxy = Proxy::to(self.place().parse().map_err(cannot)?).await.map_err(cannot)?;
        let timeouts = format!("&{}", timeouts(patience));
        let address = self.url(LOCKER, &proxy.address().to_string(), &timeouts);
        Ok((proxy, address))
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        self.harmed().process().pause();
        Ok(())
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        self.harmed().process().resume();
        Ok(())
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        self.harmed().process().kill();
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        self.harmed().process().restart(keep_data).map_err(cannot)?;
        if keep_data { Ok(()) } else { self.furnish().await }
    }

    async fn sync(&self) -> std::result::Result<(), Cannot> {
        ensure_disk()?;
        self.harmed().process().sync_to_own_disk().map_err(cannot)
    }

    async fn lose_power(&self) -> std::result::Result<(), Cannot> {
        self.harmed().process().lose_power().map_err(cannot)?;
        self.restart(true).await
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        if self.tables.len() > 1 {
            return Err(Cannot::new("the row of a held lock is locked: nobody can delete it"));
        }
        match Server::delete(self.port(), self.tables[0], name.as_str().as_bytes()).await? {
            1 => Ok(()),
            _ => Err(Cannot::absent(NOBODY)),
        }
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        for table in self.tables {
            Server::run(self.port(), &format!("DELETE FROM {table}")).await?;
        }
        Ok(())
    }

    /// Rows that are locked cannot be deleted; disks can be lost.
    async fn lose_data(&self) -> std::result::Result<(), Cannot> {
        if self.tables.len() > 1 { self.restart(false).await } else { self.wipe().await }
    }

    async fn records(&self) -> std::result::Result<usize, Cannot> {
        let mut records = 0;
        for table in self.tables {
            records += Server::count(self.port(), &format!("SELECT count(*) FROM {table}")).await?;
        }
        Ok(records)
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Cannot> {
        Ok(self)
    }

    async fn replicate(&self, behind: Duration) -> std::result::Result<(), Cannot> {
        self.be_followed(behind).await
    }

    fn replicas(&self) -> std::result::Result<&dyn Replicas, Cannot> {
        match self.followed_at() {
            Some(_) => Ok(self),
            None => Err(Cannot::new("the store has no replica that takes over")),
        }
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        Ok(format!("{} {prefix}", self.address()))
    }

    async fn aliases(&self) -> std::result::Result<Vec<String>, Cannot> {
        let (address, port) = (self.address(), self.port());
        Ok(vec![
            address.replace("127.0.0.1", "localhost"),
            address.replacen(Server::SCHEME, Server::ALIAS, 1),
            format!("{address}&timeout=1s&connections=3"),
            address.replace(&format!("127.0.0.1:{port}"), &format!("[::ffff:127.0.0.1]:{port}")),
        ])
    }

    async fn secret(&self) -> std::result::Result<(String, String), Cannot> {
        let secret = SECRET.to_owned();
        Ok((self.address().replace("sesame", &secret), secret))
    }
}

async fn kill_clients<Server: SqlServer>(port: u16) -> std::result::Result<(), Cannot> {
    in_time("clients are still connected", Server::kill_clients(port)).await
}
