use super::replica::Replica;
use super::server::{SqlServer, kill_clients};
use crate::stores::cannot::not_held;
use crate::stores::connect::{loopback, with_options};
use crate::stores::server_group::{Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::{Config, LockName};
use leasehold_conformance::{Case, Replicas, Stop, Store};
use std::error::Error;
use std::net::SocketAddr;
use std::slice::from_mut;
use std::time::Duration;

/// The user of the tables. It has no other right.
const LOCKER: &str = "locker:sesame";

/// How the locks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stores) enum Mode {
    Lease,
    ForUpdate,
    Optimistic,
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::ForUpdate => "for-update",
            Self::Optimistic => "optimistic",
        }
    }

    fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Lease | Self::Optimistic => &["leasehold"],
            Self::ForUpdate => &["leasehold_held", "leasehold_held_rows"],
        }
    }
}

/// A database server in one mode, with a replica once a case has asked for one.
#[derive(Debug)]
pub(in crate::stores) struct SqlGroup<S> {
    pub(super) primary: S,
    pub(super) replica: Option<Replica<S>>,
    pub(super) mode: Mode,
}

impl<S: SqlServer> SqlGroup<S> {
    pub(super) fn url(&self, login: &str, address: SocketAddr) -> String {
        let (scheme, database, options) = (S::SCHEME, S::DATABASE, S::OPTIONS);
        format!("{scheme}://{login}@{address}/{database}?mode={}{options}", self.mode.word())
    }

    /// Where the primary is, whichever server that is.
    pub(super) fn address(&self) -> SocketAddr {
        let moving = self.replica.as_ref().map(|replica| replica.primary_address.address());
        moving.unwrap_or_else(|| loopback(self.primary.port()))
    }
}

#[async_trait]
impl<S: SqlServer> ServerGroup for SqlGroup<S> {
    type Server = S;
    type Mode = Mode;

    fn covers(mode: Mode, case: &Case) -> Result<(), Stop> {
        let reason = match (mode, case.id) {
            (Mode::Optimistic, "D16") => "its renewals are those of the leases, by the same statement",
            (Mode::Optimistic, "J05" | "J27") => "its rows are those of the leases",
            (Mode::ForUpdate, "T76") => {
                "a writer that readers keep out is not told of their release: it asks"
            }
            (_, "J04" | "J28") => "the matrix makes it, and shows more: fail over, split brain",
            (_, "J25") => "clients cannot ask whether a replica has what the primary has",
            (Mode::Optimistic, _) if case.in_a_mode.is_some() => {
                "its readers and writers are those of the leases"
            }
            _ => return Ok(()),
        };
        Err(Stop::skipped(reason))
    }

    fn launch(mode: Mode, environment: &Environment) -> Result<Self, Stop> {
        Ok(Self { primary: S::launch(environment)?, replica: None, mode })
    }

    fn servers(&mut self) -> &mut [S] {
        from_mut(&mut self.primary)
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address()]
    }

    fn url_at(&self, addresses: &[SocketAddr]) -> String {
        self.url(LOCKER, addresses[0])
    }

    fn aliases(&self) -> Result<Vec<String>, Stop> {
        let (address, port) = (self.url_at(&self.addresses()), self.primary.port());
        Ok(vec![
            address.replace("127.0.0.1", "localhost"),
            address.replacen(S::SCHEME, S::ALIAS, 1),
            with_options(&address, "timeout=1s&connections=3"),
            address.replace(&format!("127.0.0.1:{port}"), &format!("[::ffff:127.0.0.1]:{port}")),
        ])
    }

    fn url_with_secret(&self, secret: &str) -> Result<String, Stop> {
        Ok(self.url_at(&self.addresses()).replace("sesame", secret))
    }

    /// Makes the tables, by `leasehold init` as an administrator runs it, and gives their user its rights.
    async fn set_up(store: &ServerStore<Self>) -> Result<(), Stop> {
        let (url, port, mode) = {
            let group = store.group();
            (group.url(S::ADMINISTRATOR, group.address()), group.primary.port(), group.mode)
        };
        let config = Config::new(&url).map_err(Stop::failed)?;
        let client = leasehold::connect_with(&config).await.map_err(Stop::failed)?;
        let admin = client.admin().ok_or_else(|| Stop::skipped("no administration"))?;
        let made = admin.init().await;
        made.map_err(|error| Stop::failed(format!("{error}: {:?}", error.source())))?;
        client.close().await.map_err(Stop::failed)?;
        for grant in mode.tables().iter().flat_map(|table| S::grants(table)) {
            S::run(port, &grant).await?;
        }
        Ok(())
    }

    /// Ends what the last case has left to itself.
    async fn reset(store: &ServerStore<Self>) -> Result<(), Stop> {
        let port = store.group().primary.port();
        kill_clients::<S>(port).await
    }

    /// Takes the rights on the tables away, or gives them back.
    async fn refuse(store: &ServerStore<Self>, refuse: bool) -> Result<(), Stop> {
        let (port, mode) = port_and_mode(store);
        let grants = mode.tables().iter().flat_map(|table| S::grants(table));
        for grant in grants.filter(|statement| statement.starts_with("GRANT")) {
            let revoke = grant.replacen("GRANT", "REVOKE", 1).replacen(" TO ", " FROM ", 1);
            S::run(port, if refuse { &revoke } else { &grant }).await?;
        }
        Ok(())
    }

    async fn delete(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        let (port, mode) = port_and_mode(store);
        if mode == Mode::ForUpdate {
            return Err(Stop::skipped("the row of a held lock is locked: nobody can delete it"));
        }
        match S::delete(port, mode.tables()[0], name.as_str().as_bytes()).await? {
            1 => Ok(()),
            _ => Err(not_held()),
        }
    }

    async fn wipe(store: &ServerStore<Self>) -> Result<(), Stop> {
        let (port, mode) = port_and_mode(store);
        for table in mode.tables() {
            S::run(port, &format!("DELETE FROM {table}")).await?;
        }
        Ok(())
    }

    /// Rows that are locked cannot be deleted; disks can be lost.
    async fn lose_data(store: &ServerStore<Self>) -> Result<(), Stop> {
        match port_and_mode(store).1 {
            Mode::ForUpdate => store.restart(false).await,
            Mode::Lease | Mode::Optimistic => store.wipe().await,
        }
    }

    async fn records(store: &ServerStore<Self>) -> Result<usize, Stop> {
        let ((port, mode), mut records) = (port_and_mode(store), 0);
        for table in mode.tables() {
            records += S::count(port, &format!("SELECT count(*) FROM {table}")).await?;
        }
        Ok(records)
    }

    async fn wall_clocks(store: &ServerStore<Self>) -> Result<Vec<i64>, Stop> {
        let seconds = S::count(port_and_mode(store).0, S::WALL_CLOCK).await?;
        Ok(vec![i64::try_from(seconds * 1_000).map_err(Stop::failed)?])
    }

    async fn replicate(store: &ServerStore<Self>, behind: Duration) -> Result<(), Stop> {
        store.start_with_replica(behind).await
    }

    fn replicas(store: &ServerStore<Self>) -> Result<&dyn Replicas, Stop> {
        match store.group().replica {
            Some(_) => Ok(store),
            None => Err(Stop::skipped("the store has no replica that takes over")),
        }
    }
}

fn port_and_mode<S: SqlServer>(store: &ServerStore<SqlGroup<S>>) -> (u16, Mode) {
    let group = store.group();
    (group.primary.port(), group.mode)
}
