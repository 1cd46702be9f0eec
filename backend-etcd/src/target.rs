//! The target of a store URL: the members and how to talk to them, checked before anything is opened.

use crate::tls::Tls;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Authority, Endpoint, Secret, StoreUrl};
use std::ops::RangeInclusive;
use std::time::Duration;
use tonic::transport;

/// The schemes of the URLs that [`open`](crate::open) understands.
pub const SCHEMES: &[&str] = &["etcd", "etcd+tls"];

const PORT: u16 = 2379;
/// The prefix of all keys of locks if the URL has no path.
const BASE: &str = "leasehold";
const TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// A cluster, and how to talk to it.
#[derive(Debug)]
pub(crate) struct Target {
    /// Each with its port.
    pub(crate) members: Vec<Endpoint>,
    /// The prefix of all keys of locks, with a slash at its end.
    pub(crate) base: String,
    pub(crate) tls: Option<Tls>,
    /// The user as whom requests are made, and the password, to be read for every login.
    pub(crate) login: Option<(String, Secret)>,
    /// The time for a request, with all members tried.
    pub(crate) timeout: Duration,
    /// The time for a connection to one member.
    pub(crate) connect_timeout: Duration,
}

impl Target {
    /// Reads a URL of one of the [`SCHEMES`].
    pub(crate) fn from_url(url: &StoreUrl) -> Result<Self> {
        let (mut authority, mut query) = (url.authority()?, url.query());
        let tls = match url.scheme() {
            "etcd" => None,
            "etcd+tls" => Some(Tls::from_query(&mut query)?),
            other => {
                let message = format!("{other:?} is no scheme of etcd");
                let help = leasehold_store_url::did_you_mean(other, SCHEMES.iter().copied());
                return Err(Error::new(ErrorKind::Misconfigured, message).with_help(help));
            }
        };
        let mut time = |key| query.take_duration_within(key, &TIMEOUT_RANGE).map(|it| it.unwrap_or(TIMEOUT));
        let (timeout, connect_timeout) = (time("timeout")?, time("connect_timeout")?);
        query.finish()?;
        authority.endpoints.iter_mut().for_each(|member| member.port = member.port.or(Some(PORT)));
        let (login, base) = (login(&authority)?, base(&authority.path)?);
        let target = Self { members: authority.endpoints, base, tls, login, timeout, connect_timeout };
        // A mistake in an address or a certificate is found when the store is opened.
        target.members.iter().try_for_each(|member| target.endpoint(member).map(drop))?;
        Ok(target)
    }

    /// How to connect to a member.
    pub(crate) fn endpoint(&self, member: &Endpoint) -> Result<transport::Endpoint> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let endpoint = transport::Endpoint::from_shared(format!("{scheme}://{member}"));
        let endpoint = endpoint.map_err(|error| {
            let problem = format_args!("{member} is no address");
            Error::invalid("store URL", problem, "write host:port").with_source(error)
        })?;
        match &self.tls {
            Some(tls) => tls.encrypt(endpoint),
            None => Ok(endpoint),
        }
    }
}

fn login(authority: &Authority) -> Result<Option<(String, Secret)>> {
    let (problem, fix) = match (&authority.user, &authority.password) {
        (None, None) => return Ok(None),
        (Some(user), Some(password)) => return Ok(Some((user.clone(), password.clone()))),
        (None, Some(_)) => ("it has a password and no user", "write it as etcd://user:password@host"),
        (Some(_), None) => ("it has a user and no password", "add the password, best in a file of its own"),
    };
    Err(Error::invalid("store URL", problem, fix))
}

/// The prefix of all keys, from the path of the URL. It always ends with a separator: the keys of another application are never
/// taken for those of locks.
fn base(path: &str) -> Result<String> {
    match path.strip_suffix('/').unwrap_or(path) {
        "" => Ok(format!("{BASE}/")),
        path if path.ends_with('/') => {
            Err(Error::invalid("path of the store URL", "it ends with several slashes", "leave one"))
        }
        path => Ok(format!("{path}/")),
    }
}
