//! Which servers are one store: what the scheme of a URL says, and what is to be known of each of them.

use super::{PORT, SCHEMES, TIMEOUT, Target, Timeouts, unknown_scheme};
use leasehold_core::{Error, Result};
use leasehold_store_url::{Query, Secret, StoreUrl};
use std::time::Duration;

const SENTINEL_PORT: u16 = 26379;
/// How many replicas one primary can have, as far as this crate is concerned. More are a slip of the pen.
const MOST_REPLICAS: u32 = 64;
/// Fewer nodes cannot lose one and still be a majority.
const FEWEST_NODES: usize = 3;
/// Far below any usual ttl: a node that is slow must not use up what is left of a lease that others have granted.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) enum Deployment {
    /// One server, whose address is known.
    Single(Target),
    /// One primary at a time, and Sentinels that know which.
    Sentinel(SentinelGroup),
    /// Several primaries, each with some of the names. Some of the cluster's nodes, which know the others.
    Cluster(Vec<Target>),
}

#[derive(Debug)]
pub(crate) struct SentinelGroup {
    pub(crate) sentinels: Vec<Target>,
    /// What the Sentinels call it.
    pub(crate) name: String,
    /// How to talk to it. The address is that of a Sentinel.
    pub(crate) primary: Target,
}

/// How many replicas must have a grant before it is believed, and how long they have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) within: Duration,
}

impl Deployment {
    /// Reads a URL of one of the [`SCHEMES`].
    pub(crate) fn from_url(url: &StoreUrl) -> Result<(Self, Option<Replicas>)> {
        let (scheme, mut query) = (url.scheme(), url.query());
        if !SCHEMES.contains(&scheme) || scheme.starts_with("redlock") {
            return Err(unknown_scheme(scheme));
        }
        let timeouts = Timeouts::from_query(&mut query, TIMEOUT)?;
        let deployment = match scheme.split_once('+').map(|(_, servers)| servers) {
            Some("unix") => Self::Single(Target::socket(url, &mut query, timeouts)?),
            Some("sentinel") => Self::Sentinel(SentinelGroup::from_url(url, &mut query, timeouts)?),
            Some("cluster") => Self::Cluster(seeds(url, &mut query, timeouts)?),
            _ => {
                let authority = url.authority()?;
                authority.only_endpoint()?;
                let mut only = Target::servers(url, authority, &mut query, (PORT, timeouts))?;
                Self::Single(only.swap_remove(0))
            }
        };
        let replicas = Replicas::from_query(&mut query, timeouts.request)?;
        query.finish()?;
        Ok((deployment, replicas))
    }
}

impl SentinelGroup {
    /// `redis+sentinel://user:password@s1,s2,s3/name/database`. The login is that of the primary; the Sentinels have
    /// their own, in parameters.
    fn from_url(url: &StoreUrl, query: &mut Query, timeouts: Timeouts) -> Result<Self> {
        let mut authority = url.authority()?;
        let (name, database) = name_and_database(&authority.path)?;
        authority.path = database;
        let user = query.take("sentinel_user").filter(|user| !user.is_empty());
        let password = query.take("sentinel_password").map(Secret::from);
        let servers = Target::servers(url, authority, query, (SENTINEL_PORT, timeouts))?;
        let primary = servers[0].clone();
        let sentinel =
            |server| Target { user: user.clone(), password: password.clone(), database: 0, ..server };
        Ok(Self { sentinels: servers.into_iter().map(sentinel).collect(), name, primary })
    }
}

impl Target {
    /// Reads a URL of independent servers, `redlock://` or `redlock+tls://`. Login, database and parameters are for all of
    /// them.
    pub(crate) fn nodes(url: &StoreUrl) -> Result<Vec<Self>> {
        if !["redlock", "redlock+tls"].contains(&url.scheme()) {
            return Err(unknown_scheme(url.scheme()));
        }
        let (authority, mut query) = (url.authority()?, url.query());
        let number = authority.endpoints.len();
        if number < FEWEST_NODES {
            let problem = format_args!("{number} of the {FEWEST_NODES} nodes that a majority needs at least");
            let fix = "name three independent servers, or five; for one server write redis://";
            return Err(Error::invalid("store URL", problem, fix));
        }
        let timeouts = Timeouts::from_query(&mut query, NODE_TIMEOUT)?;
        let nodes = Self::servers(url, authority, &mut query, (PORT, timeouts))?;
        query.finish()?;
        Ok(nodes)
    }
}

impl Replicas {
    /// A replica has an eighth of the time-out, so that some of these questions fit into one: they wait for each other.
    fn from_query(query: &mut Query, timeout: Duration) -> Result<Option<Self>> {
        let Some(text) = query.take("wait_replicas") else {
            return Ok(None);
        };
        match text.parse() {
            Ok(count) if (1..=MOST_REPLICAS).contains(&count) && !text.starts_with('+') => {
                Ok(Some(Self { count, within: timeout / 8 }))
            }
            _ => {
                let fix = format!("write a number from 1 to {MOST_REPLICAS}, or leave it out");
                Err(Error::invalid("wait_replicas", format_args!("{text:?}"), fix))
            }
        }
    }
}

fn seeds(url: &StoreUrl, query: &mut Query, timeouts: Timeouts) -> Result<Vec<Target>> {
    let seeds = Target::servers(url, url.authority()?, query, (PORT, timeouts))?;
    match seeds[0].database {
        0 => Ok(seeds),
        database => {
            let problem = format_args!("{database}, and a cluster has database 0 only");
            Err(Error::invalid("database", problem, "leave it out"))
        }
    }
}

/// Splits `name/database`, of which the second may be absent.
fn name_and_database(path: &str) -> Result<(String, String)> {
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Error::invalid(
            "store URL",
            "it does not name what the Sentinels watch",
            "write the name behind the hosts: redis+sentinel://s1:26379,s2:26379/mymaster",
        ));
    }
    Ok((name.to_owned(), database.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::ErrorKind;

    fn nodes(url: &str) -> Result<Vec<Target>> {
        Target::nodes(&StoreUrl::parse(url).unwrap())
    }

    fn problem(url: &str) -> String {
        let error = nodes(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        format!("{error}; {}", error.help().unwrap_or_default())
    }

    #[test]
    fn login_database_and_parameters_are_for_all_nodes() {
        let nodes = nodes("redlock://ada:pw@a:1,b,[::1]:3/2?timeout=50ms&protocol=resp2").unwrap();
        let addresses: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
        assert_eq!(addresses, ["a:1", "b:6379", "[::1]:3"]);
        for node in nodes {
            assert_eq!(node.user.as_deref(), Some("ada"));
            assert_eq!((node.database, node.timeouts.request), (2, Duration::from_millis(50)));
            assert_eq!(node.timeouts.connect, NODE_TIMEOUT);
            assert!(node.protocol.is_some() && node.tls.is_none());
        }
    }

    #[test]
    fn too_few_nodes_and_twins_are_refused_before_anything_is_asked() {
        let few = |n| {
            format!(
                "invalid store URL: {n} of the 3 nodes that a majority needs at least; \
                 name three independent servers, or five; for one server write redis://"
            )
        };
        assert_eq!(problem("redlock://a"), few(1));
        assert_eq!(problem("redlock://a,b"), few(2));
        let twins = "invalid store URL: its hosts 1 and 3 are the same, A; name each server once";
        assert_eq!(problem("redlock://a:6379,b,A"), twins);
        assert!(nodes("redlock://a:1,a:2,a:3,b").is_ok());
    }

    #[test]
    fn mistakes_are_named_with_the_way_out() {
        assert!(problem("redlock://a,b,c?timout=1s").contains("did you mean \"timeout\"?"));
        assert!(problem("redlock://a,b,c/x").contains("\"x\" is no index"));
        let tls = "invalid tls_ca: redlock:// is not encrypted; write redlock+tls://, or leave it out";
        assert_eq!(problem("redlock://a,b,c?tls_ca=/ca.pem"), tls);
    }
}
