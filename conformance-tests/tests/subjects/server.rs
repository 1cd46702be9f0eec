//! What the subjects on database servers have in common.

use super::{cannot, connect};
use async_trait::async_trait;
use leasehold::{Config, DistributedLock, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::servers::ServerProcess;
use leasehold_conformance::{Cannot, Store, Subject};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A database server, and the suite's own hands in it.
#[async_trait]
pub(crate) trait SqlServer: Debug + Send + Sync + Sized + 'static {
    const SCHEME: &'static str;
    const ALIAS: &'static str;
    const DATABASE: &'static str;
    const ADMINISTRATOR: &'static str;

    fn launch() -> std::result::Result<Self, Cannot>;
    fn port_of(&self) -> u16;
    fn process(&mut self) -> &mut ServerProcess;

    /// Runs a statement as the administrator; how many rows it changed.
    async fn run(port: u16, statement: &str) -> std::result::Result<u64, Cannot>;
    async fn count(port: u16, table: &str) -> std::result::Result<i64, Cannot>;
    async fn delete(port: u16, table: &str, name: &[u8]) -> std::result::Result<u64, Cannot>;

    /// The statements that let `locker` use a table and nothing else.
    fn grants(table: &str) -> Vec<String>;
}

/// A server in one mode, with one setting of the URL.
#[derive(Debug)]
pub(crate) struct Sql<Server> {
    name: &'static str,
    /// What stands in the query of its URL: the mode, the number of connections.
    query: &'static str,
    tables: &'static [&'static str],
    server: PhantomData<fn() -> Server>,
}

#[derive(Debug)]
struct Running<Server> {
    server: Mutex<Server>,
    port: u16,
    query: &'static str,
    tables: &'static [&'static str],
}

impl<Server> Sql<Server> {
    pub(crate) const fn lease(name: &'static str) -> Self {
        Self { name, query: "mode=lease", tables: &["leasehold"], server: PhantomData }
    }

    pub(crate) const fn optimistic(name: &'static str) -> Self {
        Self { name, query: "mode=optimistic", tables: &["leasehold"], server: PhantomData }
    }

    pub(crate) const fn for_update(name: &'static str) -> Self {
        const TABLES: &[&str] = &["leasehold_held", "leasehold_held_rows"];
        Self { name, query: "mode=for-update", tables: TABLES, server: PhantomData }
    }
}

#[async_trait]
impl<Server: SqlServer> Subject for Sql<Server> {
    fn name(&self) -> &str {
        self.name
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let server = tokio::task::spawn_blocking(Server::launch).await.map_err(cannot)??;
        let (port, query, tables) = (server.port_of(), self.query, self.tables);
        let running = Running { server: Mutex::new(server), port, query, tables };
        running.furnish().await?;
        Ok(Box::new(running))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }
}

impl<Server: SqlServer> Running<Server> {
    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn url(&self, login: &str, at: &str, more: &str) -> String {
        format!("{}://{login}@{at}/{}?{}{more}", Server::SCHEME, Server::DATABASE, self.query)
    }

    /// The tables, made by `leasehold init` as an administrator runs it, and the rights of who uses them.
    async fn furnish(&self) -> std::result::Result<(), Cannot> {
        let url = self.url(Server::ADMINISTRATOR, &format!("127.0.0.1:{}", self.port), "");
        let client = leasehold::connect_with(&Config::new(&url).map_err(cannot)?).await.map_err(cannot)?;
        let admin = client.admin().ok_or_else(|| Cannot::new("no administration"))?;
        admin
            .init()
            .await
            .map_err(|error| Cannot::new(format!("{error}: {:?}", std::error::Error::source(&error))))?;
        client.close().await.map_err(cannot)?;
        for table in self.tables {
            for grant in Server::grants(table) {
                Server::run(self.port, &grant).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl<Server: SqlServer> Store for Running<Server> {
    fn address(&self) -> String {
        self.url("locker:sesame", &format!("127.0.0.1:{}", self.port), "")
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let proxy = Proxy::to(([127, 0, 0, 1], self.port).into()).await.map_err(cannot)?;
        let patience = patience.as_millis();
        let more = format!("&timeout={patience}ms&connect_timeout={patience}ms");
        let address = self.url("locker:sesame", &proxy.address().to_string(), &more);
        Ok((proxy, address))
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        self.server().process().pause();
        Ok(())
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        self.server().process().resume();
        Ok(())
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        self.server().process().kill();
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        self.server().process().restart(keep_data).map_err(cannot)?;
        if keep_data { Ok(()) } else { self.furnish().await }
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        if self.tables.len() > 1 {
            return Err(Cannot::new("the row of a held lock is locked: nobody can delete it"));
        }
        match Server::delete(self.port, self.tables[0], name.as_str().as_bytes()).await? {
            1 => Ok(()),
            _ => Err(Cannot::new(format!("there is no row {name:?}"))),
        }
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        for table in self.tables {
            Server::run(self.port, &format!("DELETE FROM {table}")).await?;
        }
        Ok(())
    }

    async fn records(&self) -> std::result::Result<usize, Cannot> {
        let mut records = 0;
        for table in self.tables {
            records += usize::try_from(Server::count(self.port, table).await?).map_err(cannot)?;
        }
        Ok(records)
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        Ok(format!("{} {prefix}", self.address()))
    }

    async fn aliases(&self) -> std::result::Result<Vec<String>, Cannot> {
        let (address, port) = (self.address(), self.port);
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
