//! Databases on servers, each in every mode, used with exactly the rights that the manual asks for.

mod administrator;
mod mariadb;
mod pool;
mod postgres;

use super::{cannot, connect};
use async_trait::async_trait;
use leasehold::{Config, DistributedLock, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::servers::{MariaDbServer, MySqlServer, PostgresServer, ServerProcess};
use leasehold_conformance::{Administrator, Cannot, SteppedClock, Store, Subject};
use pool::{Pool, Pooled};
use std::any::Any;
use std::error::Error;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) type MariaDb = Sql<MariaDbServer>;
pub(crate) type MySql = Sql<MySqlServer>;
pub(crate) type Postgres = Sql<PostgresServer>;

/// Who uses the tables, and has no other right.
const LOCKER: &str = "locker:sesame";

/// A database server, and the suite's own hands in it: not by the code under test.
#[async_trait]
pub(crate) trait SqlServer: Debug + Send + Sync + Sized + 'static {
    const SCHEME: &'static str;
    const ALIAS: &'static str;
    const DATABASE: &'static str;
    const ADMINISTRATOR: &'static str;
    /// What else stands in its URLs.
    const OPTIONS: &'static str = "";
    /// Counts the connections of clients.
    const CONNECTIONS: &'static str;
    /// Counts the transactions that clients have open.
    const TRANSACTIONS: &'static str;

    /// Starts one in this environment.
    async fn launch(environment: Vec<(String, String)>) -> std::result::Result<Self, Cannot>;
    fn port(&self) -> u16;
    fn process(&mut self) -> &mut ServerProcess;

    /// Runs a statement as the administrator; how many rows it changed.
    async fn run(port: u16, statement: &str) -> std::result::Result<u64, Cannot>;
    async fn count(port: u16, statement: &str) -> std::result::Result<usize, Cannot>;
    async fn delete(port: u16, table: &str, name: &[u8]) -> std::result::Result<u64, Cannot>;
    /// Ends the connections of clients.
    async fn kill_clients(port: u16) -> std::result::Result<(), Cannot>;
    /// A connection of somebody who is no administrator.
    async fn stranger(port: u16) -> std::result::Result<Box<dyn Any + Send>, Cannot>;

    /// A pooler in front of the server that lends sessions for one transaction at a time, and its port.
    async fn pooler(_port: u16) -> std::result::Result<(Box<dyn Any + Send>, u16), Cannot> {
        Err(Cannot::new("there is no pooler for it here"))
    }

    /// The statements that let `locker` use a table and nothing else.
    fn grants(table: &str) -> Vec<String>;

    /// Makes the server one that changes nothing, or one that does again; then this statement makes it so.
    fn read_only(&mut self, read_only: bool) -> std::result::Result<String, Cannot>;

    // The statements that change a setting for the sessions that come, if they do not choose their own.
    fn time_zone(offset: &str) -> String;
    fn isolation(level: &str) -> String;
    fn idle_limit(limit: Duration) -> String;
}

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

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let (mode, tables) = (self.mode, self.tables);
        let running = |server| Running { server: Mutex::new(server), clock: Mutex::new(None), mode, tables };
        if let Some(used) = self.pool.take() {
            // What the last case has left to itself.
            Server::kill_clients(used.port()).await?;
            return Ok(Box::new(running(used)));
        }
        let new = running(self.pool.start().await?);
        new.furnish().await?;
        Ok(Box::new(new))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }
}

impl<Server: SqlServer> Running<Server> {
    fn server(&self) -> MutexGuard<'_, Pooled<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server, which no other case is to have after this one.
    fn harmed(&self) -> MutexGuard<'_, Pooled<Server>> {
        let mut server = self.server();
        server.keep_from_others();
        server
    }

    fn clock(&self) -> MutexGuard<'_, Option<SteppedClock>> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, server: Server, clock: SteppedClock) {
        *self.server() = Pooled::apart(server);
        *self.clock() = Some(clock);
    }

    fn port(&self) -> u16 {
        self.server().port()
    }

    fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port())
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
        made.map_err(|error| Cannot::new(format!("{error}: {:?}", error.source())))?;
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
        let proxy = Proxy::to(([127, 0, 0, 1], self.port()).into()).await.map_err(cannot)?;
        let patience = patience.as_millis();
        let more = format!("&timeout={patience}ms&connect_timeout={patience}ms");
        let address = self.url(LOCKER, &proxy.address().to_string(), &more);
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

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        if self.tables.len() > 1 {
            return Err(Cannot::new("the row of a held lock is locked: nobody can delete it"));
        }
        match Server::delete(self.port(), self.tables[0], name.as_str().as_bytes()).await? {
            1 => Ok(()),
            _ => Err(Cannot::new(format!("there is no row {name:?}"))),
        }
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        for table in self.tables {
            Server::run(self.port(), &format!("DELETE FROM {table}")).await?;
        }
        Ok(())
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
        let secret = "S3CR3T-CANARY".to_owned();
        Ok((self.address().replace("sesame", &secret), secret))
    }
}
