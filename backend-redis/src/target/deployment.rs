//! Which servers are one store: what the scheme of a URL says, and what is to be known of each of them.

use super::{Defaults, Login, Target, Timeouts, unknown_scheme};
use leasehold_core::{Error, Result};
use leasehold_store_url::{Query, Secret, StoreUrl};
use std::time::Duration;

/// The port of a Sentinel.
const SENTINEL_PORT: u16 = 26379;

/// How many replicas one primary can have, as far as this crate is concerned. More are a slip of the pen.
const MOST_REPLICAS: u32 = 64;

/// The servers of one store.
#[derive(Debug)]
pub(crate) enum Deployment {
    /// One server, whose address is known.
    Single(Target),
    /// One primary at a time, and Sentinels that know which.
    Sentinel(Group),
    /// Several primaries, each with some of the names. Some of the cluster's nodes, which know the others.
    Cluster(Vec<Target>),
}

/// A primary that Sentinels watch.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) sentinels: Vec<Target>,
    /// What the Sentinels call it.
    pub(crate) name: String,
    /// How to talk to it. Its address is that of a Sentinel until one has told the right one.
    pub(crate) primary: Target,
}

/// How many replicas must have a grant before it is believed, and how long they have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) within: Duration,
}

impl Deployment {
    /// Reads a URL of one of the [`SCHEMES`](super::SCHEMES).
    pub(crate) fn of(url: &StoreUrl) -> Result<(Self, Option<Replicas>)> {
        let mut all = url.query();
        let query = &mut all;
        let deployment = match url.scheme() {
            "redis+unix" => Self::Single(Target::socket(url, query)?),
            "redis" | "valkey" => Self::Single(Target::server(url, query, false)?),
            "rediss" | "valkeys" => Self::Single(Target::server(url, query, true)?),
            "redis+sentinel" | "valkey+sentinel" => Self::Sentinel(Group::of(url, query, false)?),
            "rediss+sentinel" | "valkeys+sentinel" => Self::Sentinel(Group::of(url, query, true)?),
            "redis+cluster" | "valkey+cluster" => Self::Cluster(seeds(url, query, false)?),
            "rediss+cluster" | "valkeys+cluster" => Self::Cluster(seeds(url, query, true)?),
            other => return Err(unknown_scheme(other)),
        };
        let replicas = Replicas::from_query(query, deployment.timeouts().request)?;
        all.finish()?;
        Ok((deployment, replicas))
    }

    fn timeouts(&self) -> Timeouts {
        match self {
            Self::Single(target) => target.timeouts,
            Self::Sentinel(group) => group.primary.timeouts,
            Self::Cluster(seeds) => seeds.first().map_or(Timeouts::DEFAULT, |seed| seed.timeouts),
        }
    }
}

impl Group {
    /// `redis+sentinel://user:password@s1,s2,s3/name/database`. The login is that of the primary; the Sentinels have
    /// their own, in parameters.
    fn of(url: &StoreUrl, query: &mut Query, encrypted: bool) -> Result<Self> {
        let mut authority = url.authority()?;
        let (name, database) = name_and_database(&authority.path)?;
        authority.path = database;
        let login = sentinel_login(query);
        let defaults = Defaults { port: SENTINEL_PORT, ..Defaults::SERVER };
        let (primary, servers) = Target::servers(url, authority, query, encrypted, defaults)?;
        let sentinel = |server| Target { login: login.clone(), database: 0, ..server };
        let sentinels = servers.into_iter().map(sentinel).collect();
        Ok(Self { sentinels, name, primary })
    }
}

impl Replicas {
    /// The same for leases of this length: a confirmation that comes late is of no use.
    pub(crate) fn for_lease(self, ttl: Duration) -> Self {
        Self { within: self.within.min(ttl / 4), ..self }
    }

    /// A replica has an eighth of the time-out, so that some of these questions fit into one: they wait for each other.
    fn from_query(query: &mut Query, timeout: Duration) -> Result<Option<Self>> {
        let Some(text) = query.take("wait_replicas") else {
            return Ok(None);
        };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(count) if digits && (1..=MOST_REPLICAS).contains(&count) => {
                Ok(Some(Self { count, within: timeout / 8 }))
            }
            _ => {
                let fix = format!("write a number from 1 to {MOST_REPLICAS}, or leave it out");
                Err(Error::invalid("wait_replicas", format_args!("{text:?}"), fix))
            }
        }
    }
}

fn seeds(url: &StoreUrl, query: &mut Query, encrypted: bool) -> Result<Vec<Target>> {
    let (first, seeds) = Target::servers(url, url.authority()?, query, encrypted, Defaults::SERVER)?;
    if first.database != 0 {
        let problem = format_args!("{}, and a cluster has database 0 only", first.database);
        return Err(Error::invalid("database", problem, "leave it out"));
    }
    Ok(seeds)
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

fn sentinel_login(query: &mut Query) -> Option<Login> {
    let user = query.take("sentinel_user").filter(|user| !user.is_empty());
    let password = query.take("sentinel_password").map(Secret::from);
    (user.is_some() || password.is_some()).then_some(Login { user, password })
}
