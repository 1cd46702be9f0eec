//! Where the database is and how to talk to it: what a store URL says, checked before anything is opened.

mod encryption;
#[cfg(feature = "tls")]
mod pem;

pub(crate) use encryption::{Encryption, SslMode};

use super::headroom::Headroom;
use crate::names::TableName;
use leasehold_core::{Error, KnownServers, Result};
use leasehold_store_url::{Query, Secret, StoreUrl};
use secrecy::SecretString;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// PostgreSQL cuts names longer than 63 short, without an error; `_rows` must fit behind.
const TABLE_BYTES: usize = 58;
/// The longest name of a schema of PostgreSQL.
const SCHEMA_BYTES: usize = 63;
const TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
const CONNECTIONS: usize = 8;
const CONNECTIONS_RANGE: RangeInclusive<usize> = 1..=1000;
/// Each is a connection. Less than what servers take by default: 100 in all for PostgreSQL, 151 for MySQL.
const HOLDS: usize = 48;

/// One database, and how to talk to it.
#[derive(Debug)]
pub(crate) struct Target {
    /// What the store is called: its scheme, spelled in one way.
    pub(crate) name: &'static str,
    /// Its URL without secrets, for messages.
    pub(crate) url: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) user: String,
    /// Read for every connection.
    pub(crate) password: Option<Secret>,
    pub(crate) database: String,
    pub(crate) encryption: Encryption,
    pub(crate) mode: Mode,
    pub(crate) table: TableName,
    /// How long one statement may take, and how long it may wait for a connection.
    pub(crate) timeout: Duration,
    /// How long connecting may take, all steps together.
    pub(crate) connect_timeout: Duration,
    /// The most connections for statements.
    pub(crate) connections: usize,
    /// The most connections that hold or await a lock; in the mode where a hold is a connection.
    pub(crate) holds: usize,
    /// What the user knows better than `check`: that all clients write to one node of a Galera cluster.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "Galera is MySQL's"))]
    pub(crate) galera_single_writer: bool,
    pub(crate) headroom: Headroom,
    pub(crate) servers: KnownServers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Lease,
    ForUpdate,
    Optimistic,
}

impl Mode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::ForUpdate => "for-update",
            Self::Optimistic => "optimistic",
        }
    }
}

impl Target {
    pub(crate) fn from_url(url: &StoreUrl, name: &'static str, default_port: u16) -> Result<Self> {
        let authority = url.authority()?;
        let endpoint = authority.only_endpoint()?;
        let mut query = url.query();
        let socket = query.take("socket").map(PathBuf::from);
        if let Some(path) = socket.as_ref().filter(|path| !path.is_absolute()) {
            let problem = format_args!("{:?} is not absolute", path.display().to_string());
            return Err(Error::invalid("socket", problem, "name its whole path"));
        }
        let modes = [Mode::Lease, Mode::ForUpdate, Mode::Optimistic].map(|mode| (mode.as_str(), mode));
        let mode = query.take_choice("mode", &modes)?.unwrap_or(Mode::Lease);
        let encryption = Encryption::from_query(&endpoint.host, socket.is_some(), &mut query)?;
        // Rows of `for-update` mean something else, and have a table of their own.
        let default = if mode == Mode::ForUpdate { "leasehold_held" } else { TableName::DEFAULT };
        let table = TableName::parse(query.take("table"), default, TABLE_BYTES)?;
        let schema = if name == "postgres" { query.take("schema") } else { None };
        let table = table.in_schema(schema, SCHEMA_BYTES)?;
        let connections = count(&mut query, "connections", CONNECTIONS)?;
        let holds = count(&mut query, "holds", HOLDS)?;
        let mut timeout =
            |key| Ok::<_, Error>(query.take_duration_within(key, &TIMEOUT_RANGE)?.unwrap_or(TIMEOUT));
        let target = Self {
            name,
            url: url.to_string(),
            host: endpoint.host.clone(),
            port: endpoint.port.unwrap_or(default_port),
            encryption,
            socket,
            user: authority.user.clone().ok_or_else(|| {
                let fix = format!("write it as {name}://USER@host/database");
                Error::invalid("store URL", "it names no user", fix)
            })?,
            password: authority.password.clone(),
            database: check_database(&authority.path, name)?,
            mode,
            table,
            timeout: timeout("timeout")?,
            connect_timeout: timeout("connect_timeout")?,
            connections,
            holds,
            galera_single_writer: query
                .take_choice("galera", &[("refuse", false), ("single-writer", true)])?
                .unwrap_or(false),
            headroom: Headroom::default(),
            servers: KnownServers::default(),
        };
        query.finish()?;
        Ok(target)
    }

    /// The password as it is now. Its error stands in the driver's, from which the pool takes it.
    pub(crate) fn read_password(&self) -> sqlx::Result<Option<SecretString>> {
        let password = self.password.as_ref().map(Secret::read).transpose();
        password.map_err(|error| sqlx::Error::Configuration(error.into()))
    }

    /// The addresses behind the name of the host. Empty if there is a socket, or if they cannot be looked up.
    pub(crate) async fn addresses(&self) -> Vec<IpAddr> {
        if self.socket.is_some() {
            return Vec::new();
        }
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
    }

    pub(crate) fn note_server(&self, said: Option<String>) {
        if let Some(server) = said {
            self.servers.note(&self.address(), &server);
        }
    }

    pub(crate) fn address(&self) -> String {
        let name = self.name;
        match &self.socket {
            Some(socket) => format!("{name} at {}", socket.display()),
            None if self.host.contains(':') => format!("{name} at [{}]:{}", self.host, self.port),
            None => format!("{name} at {}:{}", self.host, self.port),
        }
    }
}

fn check_database(path: &str, name: &str) -> Result<String> {
    let fix = format!("write it as {name}://user@host/DATABASE");
    match path {
        "" => Err(Error::invalid("store URL", "it names no database", fix)),
        path if path.contains('/') => {
            Err(Error::invalid("store URL", format_args!("its database {path:?} has a slash"), fix))
        }
        path => Ok(path.to_owned()),
    }
}

fn count(query: &mut Query, key: &'static str, default: usize) -> Result<usize> {
    let Some(text) = query.take(key) else {
        return Ok(default);
    };
    let number = text.parse().ok().filter(|number| CONNECTIONS_RANGE.contains(number));
    number.ok_or_else(|| {
        let (least, most) = (CONNECTIONS_RANGE.start(), CONNECTIONS_RANGE.end());
        Error::invalid(key, format_args!("{text:?}"), format!("write a number from {least} to {most}"))
    })
}

#[cfg(test)]
mod tests;
