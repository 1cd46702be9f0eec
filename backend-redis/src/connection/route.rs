//! Where a link leads: to one server, or to whichever is the primary now.

use super::failover::FailoverMonitor;
use super::handshake::ServerFacts;
use crate::target::{Address, Target};
use crate::topology::sentinel::{Epoch, Sentinels};
use leasehold_core::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// Where a link leads.
#[derive(Debug)]
pub(crate) enum Route {
    /// To this server.
    Server(Target),
    /// To this node of a cluster.
    Node(Target),
    /// To the server that the Sentinels name when it connects, for as long as they name no other.
    Primary(Sentinels, FailoverMonitor),
}

impl Route {
    /// How long to wait for an answer.
    pub(super) fn request_timeout(&self) -> Duration {
        self.terms().timeouts.request
    }

    /// How long connecting may take.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.terms().timeouts.connect
    }

    /// True if a password is sent to it unencrypted, over a network.
    pub(super) fn shows_password(&self) -> bool {
        let Target { address, tls, login, .. } = self.terms();
        let password = login.as_ref().and_then(|login| login.password.as_ref());
        password.is_some() && tls.is_none() && matches!(address, Address::Tcp { .. })
    }

    /// The addresses behind the host name of one server. Empty for any other route, and if they cannot be looked up.
    pub(super) async fn addresses(&self) -> Vec<IpAddr> {
        let Self::Server(Target { address: Address::Tcp { host, port }, .. }) = self else {
            return Vec::new();
        };
        let found = tokio::net::lookup_host((host.as_str(), *port)).await;
        found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
    }

    /// The server to connect to now, and how new that is if it may be another one later.
    pub(super) async fn lead(&self) -> Result<(Cow<'_, Target>, Option<Epoch>)> {
        match self {
            Self::Server(target) | Self::Node(target) => Ok((Cow::Borrowed(target), None)),
            Self::Primary(sentinels, _) => {
                let (target, epoch) = sentinels.primary().await?;
                Ok((Cow::Owned(target), Some(epoch)))
            }
        }
    }

    /// Refuses a server that is not what the route should lead to. A server without facts is believed: a proxy
    /// may stand before it, and what it cannot do it refuses when it is asked.
    pub(super) fn check(&self, facts: &ServerFacts) -> Result<()> {
        facts.check()?;
        match self {
            Self::Server(_) | Self::Primary(..) if facts.mode == "cluster" => Err(node_of_cluster()),
            Self::Node(_) if facts.mode == "standalone" => Err(no_cluster()),
            Self::Primary(..) if !facts.role.is_empty() && facts.role != "master" => Err(no_primary()),
            _ => Ok(()),
        }
    }

    fn terms(&self) -> &Target {
        match self {
            Self::Server(target) | Self::Node(target) => target,
            Self::Primary(sentinels, _) => sentinels.terms(),
        }
    }
}

/// For people.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(target) | Self::Node(target) => target.address.fmt(f),
            Self::Primary(sentinels, _) => sentinels.fmt(f),
        }
    }
}

fn no_cluster() -> Error {
    Error::new(ErrorKind::Misconfigured, "it is a server of its own, and no node of a cluster")
        .with_help("use the URL of one server, redis://host:port")
}

/// Also of one that has all slots: claims that are renewed together are of several.
fn node_of_cluster() -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        "it is a node of a cluster, which takes the keys of one slot at a time",
    )
    .with_help("use the URL of a cluster, redis+cluster://host:port")
}

/// It was demoted, or is about to be promoted; the Sentinels that named it have not heard yet.
fn no_primary() -> Error {
    Error::new(ErrorKind::Unavailable, "the Sentinels name it as the primary, and it is a replica")
        .with_help("wait until the fail-over is over; if it lasts, look at SENTINEL MASTERS")
}
