//! Where the server is and how to talk to it: what a store URL says, checked before anything is opened.

mod deployment;

pub(crate) use deployment::{Deployment, Replicas, SentinelGroup};

use crate::tls::Tls;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Authority, Endpoint, Query, Secret, StoreUrl};
use redis::ProtocolVersion;
use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The schemes of the URLs that [`open`](crate::open) understands.
pub const SCHEMES: &[&str] = &[
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "valkey+sentinel",
    "valkeys+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "valkey+cluster",
    "valkeys+cluster",
    "redlock",
    "redlock+tls",
];

const PORT: u16 = 6379;
const TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: Option<Tls>,
    pub(crate) user: Option<String>,
    /// Read for every connection.
    pub(crate) password: Option<Secret>,
    pub(crate) database: u32,
    /// `None`: the newer one, or the older if the server knows no other.
    pub(crate) protocol: Option<ProtocolVersion>,
    pub(crate) timeouts: Timeouts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For the answer to a request.
    pub(crate) request: Duration,
    /// For a connection that is ready for requests, all steps together.
    pub(crate) connect: Duration,
}

impl Target {
    /// The servers that the URL names: at least one. Login, database and parameters are for each. The port counts where the URL
    /// names none.
    fn servers(
        url: &StoreUrl,
        authority: Authority,
        query: &mut Query,
        (port, timeouts): (u16, Timeouts),
    ) -> Result<Vec<Self>> {
        refuse_twins(&authority.endpoints, port)?;
        let is_encrypted = ["rediss", "valkeys", "redlock+tls"].iter().any(|it| url.scheme().starts_with(it));
        let tls = match is_encrypted {
            true => Some(Tls::from_query(&authority.endpoints, query)?),
            false => refuse_tls(url.scheme(), query)?,
        };
        let (database, protocol) = (database(&authority.path)?, protocol(query)?);
        let server = |Endpoint { host, port: own_port, .. }| Self {
            address: Address::Tcp { host, port: own_port.unwrap_or(port) },
            tls: tls.clone(),
            user: authority.user.clone(),
            password: authority.password.clone(),
            database,
            protocol,
            timeouts,
        };
        Ok(authority.endpoints.into_iter().map(server).collect())
    }

    pub(crate) fn has_login(&self) -> bool {
        self.user.is_some() || self.password.is_some()
    }

    /// The server at `redis+unix:///path/to/socket` or `redis+unix://user:password@/path/to/socket`.
    fn socket(url: &StoreUrl, query: &mut Query, timeouts: Timeouts) -> Result<Self> {
        let text = url.path()?;
        let (login, path) = match text.find("@/") {
            Some(at) if !text.starts_with('/') => (&text[..at], &text[at + 1..]),
            _ => ("", &*text),
        };
        if !Path::new(path).is_absolute() || path == "/" {
            // Not echoed: it may be a login whose path was forgotten.
            let problem = "it names no absolute path of a socket";
            return Err(Error::invalid("store URL", problem, "write it as redis+unix:///run/redis.sock"));
        }
        let (user, password) =
            login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
        Ok(Self {
            address: Address::Unix(path.into()),
            tls: refuse_tls(url.scheme(), query)?,
            user: Some(user.to_owned()).filter(|user| !user.is_empty()),
            password: url.password().cloned().or(password.map(Secret::from)),
            database: database(&query.take("db").unwrap_or_default())?,
            protocol: protocol(query)?,
            timeouts,
        })
    }
}

impl Timeouts {
    fn from_query(query: &mut Query, default: Duration) -> Result<Self> {
        let mut timeout = |key| query.take_duration_within(key, &TIMEOUT_RANGE);
        let request = timeout("timeout")?.unwrap_or(default);
        Ok(Self { request, connect: timeout("connect_timeout")?.unwrap_or(default) })
    }
}

/// A server that is named twice would count twice. That two names mean one server is found out later, from the server.
fn refuse_twins(endpoints: &[Endpoint], default_port: u16) -> Result<()> {
    let mut seen = HashMap::new();
    for (place, endpoint) in (1..).zip(endpoints) {
        let address = (endpoint.host.to_ascii_lowercase(), endpoint.port.unwrap_or(default_port));
        if let Some(first) = seen.insert(address, place) {
            let problem = format_args!("its hosts {first} and {place} are the same, {endpoint}");
            return Err(Error::invalid("store URL", problem, "name each server once"));
        }
    }
    Ok(())
}

fn protocol(query: &mut Query) -> Result<Option<ProtocolVersion>> {
    query.take_choice("protocol", &[("resp2", ProtocolVersion::RESP2), ("resp3", ProtocolVersion::RESP3)])
}

fn database(text: &str) -> Result<u32> {
    match text.parse() {
        _ if text.is_empty() => Ok(0),
        Ok(index) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(index),
        _ => {
            let problem = format_args!("{text:?} is no index");
            Err(Error::invalid("database", problem, "write a number: redis://host:6379/0"))
        }
    }
}

/// Parameters of TLS on a connection without it would be a false sense of security.
fn refuse_tls(scheme: &str, query: &mut Query) -> Result<Option<Tls>> {
    let encrypted = match scheme.split_once('+') {
        _ if scheme == "redlock" => "redlock+tls",
        Some((_, "sentinel")) => "rediss+sentinel",
        Some((_, "cluster")) => "rediss+cluster",
        _ => "rediss",
    };
    for key in ["tls_ca", "tls_cert", "tls_key", "tls_insecure"] {
        if query.take(key).is_some() {
            let problem = format_args!("{scheme}:// is not encrypted");
            return Err(Error::invalid(key, problem, format!("write {encrypted}://, or leave it out")));
        }
    }
    Ok(None)
}

fn unknown_scheme(scheme: &str) -> Error {
    let message = format!("the scheme {scheme:?} of the store URL is none of Redis");
    let help = leasehold_store_url::did_you_mean(scheme, SCHEMES.iter().copied());
    Error::new(ErrorKind::Misconfigured, message).with_help(help)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
