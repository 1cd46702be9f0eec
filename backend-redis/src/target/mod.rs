//! Where the server is and how to talk to it: what a store URL says, checked before anything is opened.

mod deployment;
mod nodes;

pub(crate) use deployment::{Deployment, Group, Replicas};

use crate::connection::Tls;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Authority, Endpoint, Query, Secret, StoreUrl};
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

/// One server, and how to talk to it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: Option<Tls>,
    pub(crate) login: Option<Login>,
    pub(crate) database: u32,
    /// `None`: the newer one, or the older if the server knows no other.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) timeouts: Timeouts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// The user of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    /// Read for every connection.
    pub(crate) password: Option<Secret>,
}

/// The version of the wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp2,
    Resp3,
}

/// How long to wait for the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For the answer to a request.
    pub(crate) request: Duration,
    /// For a connection that is ready for requests, all steps together.
    pub(crate) connect: Duration,
}

/// What counts where the URL says nothing.
#[derive(Clone, Copy, Debug)]
struct Defaults {
    port: u16,
    timeout: Duration,
}

impl Defaults {
    const SERVER: Self = Self { port: PORT, timeout: TIMEOUT };
}

impl Target {
    /// The same way to talk, to another server.
    ///
    /// # Errors
    ///
    /// [`Invalid`](leasehold_core::ErrorKind::Invalid) for a host that no certificate can name, where one is asked for.
    pub(crate) fn at(&self, host: &str, port: u16) -> Result<Self> {
        let address = Address::Tcp { host: host.to_owned(), port };
        let tls = self.tls.as_ref().map(|tls| tls.for_host(host)).transpose()?;
        Ok(Self { address, tls, ..self.clone() })
    }

    fn server(url: &StoreUrl, query: &mut Query, encrypted: bool) -> Result<Self> {
        let authority = url.authority()?;
        authority.only_endpoint()?;
        Self::first_server(url, authority, query, encrypted, Defaults::SERVER)
    }

    /// The first of the servers that the URL names, and all of them. Login, database and parameters are for each.
    fn servers(
        url: &StoreUrl,
        authority: Authority,
        query: &mut Query,
        encrypted: bool,
        defaults: Defaults,
    ) -> Result<(Self, Vec<Self>)> {
        refuse_twins(&authority.endpoints, defaults.port)?;
        let endpoints = authority.endpoints.clone();
        let first = Self::first_server(url, authority, query, encrypted, defaults)?;
        let each = |endpoint: &Endpoint| first.at(&endpoint.host, endpoint.port.unwrap_or(defaults.port));
        let all = endpoints.iter().map(each).collect::<Result<_>>()?;
        Ok((first, all))
    }

    fn first_server(
        url: &StoreUrl,
        authority: Authority,
        query: &mut Query,
        encrypted: bool,
        defaults: Defaults,
    ) -> Result<Self> {
        let [endpoint, ..] = authority.endpoints.as_slice() else {
            return Err(Error::invalid("store URL", "it names no host", "name at least one"));
        };
        let tls = match encrypted {
            true => Some(Tls::from_query(&endpoint.host, query)?),
            false => refuse_tls(url.scheme(), query)?,
        };
        Ok(Self {
            address: Address::Tcp {
                host: endpoint.host.clone(),
                port: endpoint.port.unwrap_or(defaults.port),
            },
            tls,
            database: database(&authority.path)?,
            login: Login::of(authority),
            protocol: protocol(query)?,
            timeouts: Timeouts::from_query(query, defaults.timeout)?,
        })
    }

    fn socket(url: &StoreUrl, query: &mut Query) -> Result<Self> {
        let (login, path) = socket_path(&url.path()?)?;
        Ok(Self {
            address: Address::Unix(path),
            tls: refuse_tls(url.scheme(), query)?,
            login: with_password(login, url.password()),
            database: database(&query.take("db").unwrap_or_default())?,
            protocol: protocol(query)?,
            timeouts: Timeouts::from_query(query, TIMEOUT)?,
        })
    }
}

impl Timeouts {
    const DEFAULT: Self = Self { request: TIMEOUT, connect: TIMEOUT };

    fn from_query(query: &mut Query, default: Duration) -> Result<Self> {
        let request = timeout(query, "timeout")?.unwrap_or(default);
        Ok(Self { request, connect: timeout(query, "connect_timeout")?.unwrap_or(default) })
    }
}

impl Login {
    fn of(authority: Authority) -> Option<Self> {
        let login = Self { user: authority.user, password: authority.password };
        (login.user.is_some() || login.password.is_some()).then_some(login)
    }
}

/// Named twice, a server would have two voices. That two names mean one server is found out later, from the server.
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

fn protocol(query: &mut Query) -> Result<Option<Protocol>> {
    query.take_choice("protocol", &[("resp2", Protocol::Resp2), ("resp3", Protocol::Resp3)])
}

fn timeout(query: &mut Query, key: &'static str) -> Result<Option<Duration>> {
    let Some(timeout) = query.take_duration(key)? else { return Ok(None) };
    let (least, most) = (TIMEOUT_RANGE.start(), TIMEOUT_RANGE.end());
    match timeout {
        short if short < *least => {
            let problem = format_args!("{short:?}, at least {least:?}");
            Err(Error::invalid(key, problem, "lengthen it"))
        }
        long if long > *most => {
            let problem = format_args!("{long:?}, at most {most:?}");
            Err(Error::invalid(key, problem, "shorten it"))
        }
        timeout => Ok(Some(timeout)),
    }
}

fn database(text: &str) -> Result<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if text.is_empty() {
        return Ok(0);
    }
    match text.parse() {
        Ok(index) if digits => Ok(index),
        _ => {
            let problem = format_args!("{text:?} is no index");
            Err(Error::invalid("database", problem, "write a number: redis://host:6379/0"))
        }
    }
}

/// Splits `/path/to/socket` or `user:password@/path/to/socket`, both decoded.
fn socket_path(text: &str) -> Result<(Option<Login>, PathBuf)> {
    let (login, path) = match text.find("@/") {
        Some(at) if !text.starts_with('/') => (Some(&text[..at]), &text[at + 1..]),
        _ => (None, text),
    };
    if !Path::new(path).is_absolute() || path == "/" {
        // Not echoed: it may be a login whose path was forgotten.
        return Err(Error::invalid(
            "store URL",
            "it names no absolute path of a socket",
            "write it as redis+unix:///run/redis.sock",
        ));
    }
    Ok((login.map(parse_login), path.into()))
}

fn parse_login(login: &str) -> Login {
    let (user, password) =
        login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    Login {
        user: Some(user.to_owned()).filter(|user| !user.is_empty()),
        password: password.map(Secret::from),
    }
}

/// The login, with the password that was given beside the URL.
fn with_password(login: Option<Login>, password: Option<&Secret>) -> Option<Login> {
    let Some(password) = password else { return login };
    Some(Login { user: login.and_then(|login| login.user), password: Some(password.clone()) })
}

/// Parameters of TLS on a connection without it would be a false sense of security.
fn refuse_tls(scheme: &str, query: &mut Query) -> Result<Option<Tls>> {
    for key in Tls::PARAMETERS {
        if query.take(key).is_some() {
            let problem = format_args!("{scheme}:// is not encrypted");
            return Err(Error::invalid(key, problem, encrypted_form(scheme)));
        }
    }
    Ok(None)
}

fn encrypted_form(scheme: &str) -> &'static str {
    match scheme {
        "redlock" => "write redlock+tls://, or leave it out",
        _ if scheme.ends_with("+sentinel") => "write rediss+sentinel://, or leave it out",
        _ if scheme.ends_with("+cluster") => "write rediss+cluster://, or leave it out",
        _ => "write rediss://, or leave it out",
    }
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
