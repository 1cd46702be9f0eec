//! The target of a store URL: the servers and how to talk to them, checked before anything is opened.

mod base;

use crate::acl::Access;
use crate::tls::{self, Tls};
use base::base_path;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Authority, Endpoint, Query, Secret, StoreUrl};
use secrecy::ExposeSecret;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;
use zookeeper_client::SaslOptions;

/// The schemes of the URLs that [`open`](crate::open) understands.
pub const SCHEMES: &[&str] = &["zk", "zk+tls"];

const PORT: u16 = 2181;
const SESSION: Duration = Duration::from_secs(10);
const SESSION_RANGE: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(60 * 60);
const REQUEST: Duration = Duration::from_secs(2);
const CONNECT: Duration = Duration::from_secs(5);
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) servers: Servers,
    /// The directory of the locks.
    pub(crate) base: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) login: Option<Login>,
    pub(crate) access: Access,
    pub(crate) timeouts: Timeouts,
}

/// The servers of an ensemble, in the order of the URL.
#[derive(Clone, Debug)]
pub(crate) struct Servers(Vec<Endpoint>);

/// The identity that we prove to the servers.
#[derive(Debug)]
pub(crate) struct Login {
    user: String,
    /// Read for every session. Its `Debug` shows no password.
    password: Secret,
    pub(crate) method: LoginMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginMethod {
    /// The password is sent. The servers take any user: it is the key to the nodes that were made with it.
    Digest,
    /// SASL with DIGEST-MD5: the servers know their users, and the password is not sent.
    Sasl,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// The session timeout that the servers are asked for.
    pub(crate) session: Duration,
    /// The time for all requests of one call.
    pub(crate) request: Duration,
    /// The time to get a session, with all servers tried.
    pub(crate) connect: Duration,
}

impl Target {
    /// Reads a URL of one of the [`SCHEMES`].
    pub(crate) fn from_url(url: &StoreUrl) -> Result<Self> {
        let authority = url.authority()?;
        let mut query = url.query();
        let tls = match url.scheme() {
            "zk" => tls::refuse(&mut query).map(|()| None)?,
            "zk+tls" => Some(Tls::from_query(&authority.endpoints, &mut query)?),
            other => {
                let message = format!("{other:?} is no scheme of ZooKeeper");
                let help = leasehold_store_url::did_you_mean(other, SCHEMES.iter().copied());
                return Err(Error::new(ErrorKind::Misconfigured, message).with_help(help));
            }
        };
        let login = Login::new(&authority, &mut query)?;
        let target = Self {
            base: base_path(&authority.path)?,
            access: access(&mut query, login.is_some() || tls.as_ref().is_some_and(Tls::has_identity))?,
            login,
            tls,
            servers: Servers(authority.endpoints),
            timeouts: Timeouts::from_query(&mut query)?,
        };
        query.finish()?;
        Ok(target)
    }
}

impl Servers {
    pub(crate) fn each(&self) -> impl Iterator<Item = (&str, u16)> {
        self.0.iter().map(|server| (server.host.as_str(), server.port.unwrap_or(PORT)))
    }
}

/// `host:port,host:port`, as clients of ZooKeeper take it.
impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |(host, port): (&str, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        f.write_str(&self.each().map(address).collect::<Vec<_>>().join(","))
    }
}

impl Login {
    fn new(authority: &Authority, query: &mut Query) -> Result<Option<Self>> {
        let methods = [("digest", LoginMethod::Digest), ("sasl", LoginMethod::Sasl)];
        let method = query.take_choice("login", &methods)?;
        let (field, problem, fix) = match (&authority.user, &authority.password) {
            (None, None) if method.is_none() => return Ok(None),
            (None, None) => {
                ("login", "the URL names no user", "write it as zk://user:password@host, or leave login out")
            }
            (Some(user), Some(password)) if !user.contains(':') => {
                let method = method.unwrap_or(LoginMethod::Digest);
                return Ok(Some(Self { user: user.clone(), password: password.clone(), method }));
            }
            (Some(_), Some(_)) => {
                ("user", "it has a colon, which ends a user of ZooKeeper", "use another user")
            }
            (None, Some(_)) => {
                ("store URL", "it has a password and no user", "write it as zk://user:password@host")
            }
            (Some(_), None) => {
                ("store URL", "it has a user and no password", "add the password, best in a file of its own")
            }
        };
        Err(Error::invalid(field, problem, fix))
    }

    /// The form in which [`LoginMethod::Digest`] sends it.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok([self.user.as_bytes(), b":", self.password.read()?.expose_secret().as_bytes()].concat())
    }

    /// The answer of [`LoginMethod::Sasl`] to a challenge of the servers.
    pub(crate) fn to_sasl(&self) -> Result<SaslOptions> {
        let password = self.password.read()?.expose_secret().to_owned();
        Ok(SaslOptions::digest_md5(self.user.clone(), password).into())
    }
}

impl Timeouts {
    fn from_query(query: &mut Query) -> Result<Self> {
        let mut time =
            |key, default, range| query.take_duration_within(key, range).map(|time| time.unwrap_or(default));
        Ok(Self {
            session: time("session_timeout", SESSION, &SESSION_RANGE)?,
            request: time("timeout", REQUEST, &TIMEOUT_RANGE)?,
            connect: time("connect_timeout", CONNECT, &TIMEOUT_RANGE)?,
        })
    }
}

/// Nodes belong to the user of the URL, and to anyone if it names none.
fn access(query: &mut Query, known: bool) -> Result<Access> {
    let asked = query.take_choice("acl", &[("creator", Access::Creator), ("anyone", Access::Anyone)])?;
    match asked {
        Some(Access::Creator) if !known => Err(Error::invalid(
            "acl",
            "\"creator\", and the URL names no user",
            "write it as zk://user:password@host, or leave acl out",
        )),
        Some(asked) => Ok(asked),
        None if known => Ok(Access::Creator),
        None => Ok(Access::Anyone),
    }
}

#[cfg(test)]
mod tests;
