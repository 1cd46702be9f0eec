//! The target of a store URL: the members and how to talk to them, checked before anything is opened.

use crate::tls::Tls;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Authority, Endpoint, Secret, StoreUrl};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;
use tonic::transport;

/// The schemes of the URLs that [`open`](crate::open) understands.
pub const SCHEMES: &[&str] = &["etcd", "etcd+tls"];

const PORT: u16 = 2379;
/// The prefix of all keys of locks if the URL has no path.
const BASE: &str = "leasehold";
const MAX_BASE_BYTES: usize = 1024;
const TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// A cluster, and how to talk to it.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) members: Vec<Endpoint>,
    /// The prefix of all keys of locks, with a slash at its end.
    pub(crate) base: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) login: Option<Login>,
    /// The time for all requests of one call, with all members tried.
    pub(crate) timeout: Duration,
    /// The time for a connection to one member.
    pub(crate) connect_timeout: Duration,
}

/// The user as whom requests are made.
pub(crate) struct Login {
    pub(crate) user: String,
    /// Read for every login.
    pub(crate) password: Secret,
}

impl Target {
    /// Reads a URL of one of the [`SCHEMES`].
    pub(crate) fn from_url(url: &StoreUrl) -> Result<Self> {
        let (authority, mut query) = (url.authority()?, url.query());
        let tls = match url.scheme() {
            "etcd" => Tls::refuse(&mut query).map(|()| None)?,
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
        let (login, base) = (login(&authority)?, base(&authority.path)?);
        let target = Self { members: authority.endpoints, base, tls, login, timeout, connect_timeout };
        // A mistake in an address or a certificate is found when the store is opened.
        (0..target.members.len())
            .try_for_each(|member| target.endpoint(&target.address(member)).map(drop))?;
        Ok(target)
    }

    /// The address of a member, as host and port.
    pub(crate) fn address(&self, member: usize) -> String {
        let Endpoint { host, port, .. } = &self.members[member];
        let port = port.unwrap_or(PORT);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// How to connect to an address.
    pub(crate) fn endpoint(&self, address: &str) -> Result<transport::Endpoint> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let endpoint =
            transport::Endpoint::from_shared(format!("{scheme}://{address}")).map_err(|error| {
                let problem = format_args!("{address:?} is no address");
                Error::invalid("store URL", problem, "write host:port").with_source(error)
            })?;
        match &self.tls {
            Some(tls) => tls.encrypt(endpoint),
            None => Ok(endpoint),
        }
    }
}

fn login(authority: &Authority) -> Result<Option<Login>> {
    let (problem, fix) = match (&authority.user, &authority.password) {
        (None, None) => return Ok(None),
        (Some(user), Some(password)) => {
            return Ok(Some(Login { user: user.clone(), password: password.clone() }));
        }
        (None, Some(_)) => ("it has a password and no user", "write it as etcd://user:password@host"),
        (Some(_), None) => ("it has a user and no password", "add the password, best in a file of its own"),
    };
    Err(Error::invalid("store URL", problem, fix))
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The prefix of all keys, from the path of the URL. It always ends with a separator: the keys of another application are never
/// taken for those of locks.
fn base(path: &str) -> Result<String> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let (problem, fix) = match path {
        "" => return Ok(format!("{BASE}/")),
        _ if path.len() > MAX_BASE_BYTES => {
            (format!("{} bytes, limit {MAX_BASE_BYTES}", path.len()), "shorten it")
        }
        _ if path.ends_with('/') => ("it ends with several slashes".to_owned(), "leave one"),
        _ if path.chars().any(char::is_control) => ("it has a control character".to_owned(), "take it out"),
        _ => return Ok(format!("{path}/")),
    };
    Err(Error::invalid("path of the store URL", problem, fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target> {
        Target::from_url(&StoreUrl::parse(url)?)
    }

    #[test]
    fn url_names_members_prefix_and_timeout() {
        let found = target("etcd://ada:pw@e1,e2:2300,[::1]/shop/locks?timeout=3s").unwrap();
        let addresses: Vec<String> = (0..3).map(|member| found.address(member)).collect();
        assert_eq!(addresses, ["e1:2379", "e2:2300", "[::1]:2379"]);
        assert_eq!((&*found.base, found.timeout), ("shop/locks/", Duration::from_secs(3)));
        assert_eq!(found.login.unwrap().user, "ada");
        for path in ["", "/"] {
            assert_eq!(target(&format!("etcd://e1{path}")).unwrap().base, "leasehold/");
        }
    }

    #[test]
    fn url_that_cannot_be_meant_is_refused_with_its_fix() {
        for (url, message) in [
            ("etcd://e1/a//", "invalid path of the store URL: it ends with several slashes"),
            ("etcd://e1?timeout=5ms", "invalid timeout: 5ms, at least 10ms"),
            ("etcd://e1?timeout=2h", "invalid timeout: 7200s, at most 60s"),
            ("etcd://ada@e1", "invalid store URL: it has a user and no password"),
            ("etcd://e1?tls_ca=ca.pem", "invalid tls_ca: etcd:// is not encrypted"),
            ("etcds://e1", "\"etcds\" is no scheme of etcd"),
        ] {
            let error = target(url).unwrap_err();
            assert_eq!(error.to_string(), message, "{url}");
            assert!(error.help().is_some_and(|help| !help.is_empty()), "{url}");
        }
        assert!(target("etcd://e1?timout=1s").unwrap_err().help().unwrap().contains("timeout"));
        let long = format!("etcd://e1/{}", "x".repeat(1025));
        assert!(target(&long).unwrap_err().to_string().ends_with("1025 bytes, limit 1024"));
    }
}
