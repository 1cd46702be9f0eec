//! Where a link leads: to one server, or to whichever is the primary now.

use super::handshake::{self, ServerFacts};
use super::multiplexed::Connection;
use super::role::RoleCheck;
use super::sentinel::{Epoch, PrimaryReport, Sentinels};
use crate::server_error::TO_CLUSTER;
use crate::target::Target;
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// The pause between two questions to the Sentinels who the primary is: for so long, and the time of an answer, two may hold.
const SENTINEL_POLL_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) enum Route {
    Server(Target),
    /// To this node of a cluster.
    Node(Target),
    /// To the server that the Sentinels name when it connects, for as long as they name no other.
    Primary(Sentinels),
}

impl Route {
    /// Connects to where it leads now. One deadline covers all steps.
    pub(super) async fn connect(self: &Arc<Self>, waiters: &Arc<WaiterRegistry>) -> Result<Arc<Connection>> {
        let connected = async {
            let deadline = Instant::now() + self.target().timeouts.connect;
            // The server to connect to now, and how new that is if it may be another one later.
            let (target, epoch) = match &**self {
                Self::Server(target) | Self::Node(target) => (target.clone(), None),
                Self::Primary(sentinels) => {
                    let PrimaryReport { address, epoch } = sentinels.primary().await?;
                    (Target { address, ..sentinels.primary.clone() }, Some(epoch))
                }
            };
            let (mut connection, facts) = handshake::connect(&target, waiters, deadline).await?;
            self.check(&facts)?;
            // A replica of a cluster sends its clients to its primary.
            if !matches!(**self, Self::Node(_)) {
                connection.role = RoleCheck::new(&facts, connection.takes_messages);
            }
            if !facts.run_id.is_empty() && !facts.is_replica() {
                let place = match &**self {
                    Self::Server(_) | Self::Node(_) => target.address.to_string(),
                    Self::Primary(sentinels) => format!("the primary of {:?}", sentinels.name),
                };
                waiters.servers.note(&place, &format!("run_id {}", facts.run_id));
            }
            Ok((Arc::new(connection), epoch))
        };
        let (connection, epoch) = connected.await.map_err(|error| self.with_address(error))?;
        tracing::debug!(target: "leasehold", server = %self, "connected");
        if let Some(epoch) = epoch {
            tokio::spawn(leave_when_replaced(Arc::clone(self), Arc::downgrade(&connection), epoch));
        }
        Ok(connection)
    }

    /// Refuses a server that is not what the route should lead to. A server without facts is believed: a proxy
    /// may stand before it, and what it cannot do it refuses when it is asked.
    fn check(&self, facts: &ServerFacts) -> Result<()> {
        let ServerFacts { flavour, version, mode, role, .. } = facts;
        let (kind, message, help) = match self {
            _ if mode == "sentinel" => (
                ErrorKind::Misconfigured,
                "it is a Sentinel: it knows who has the data, and has none".to_owned(),
                "use the URL of a Sentinel group, redis+sentinel://host:26379/name, or the address of the primary",
            ),
            _ if facts.is_too_old() => (
                ErrorKind::Misconfigured,
                format!("it is {flavour} {version}, which lacks commands that locks need"),
                "use Redis 7.0 or later, or Valkey 7.2 or later",
            ),
            // Also of one that has all slots: claims that are renewed together are of several.
            Self::Server(_) | Self::Primary(_) if mode == "cluster" => (
                ErrorKind::Misconfigured,
                "it is a node of a cluster, which takes the keys of one slot at a time".to_owned(),
                TO_CLUSTER,
            ),
            Self::Node(_) if mode == "standalone" => (
                ErrorKind::Misconfigured,
                "it is a server of its own, and no node of a cluster".to_owned(),
                "use the URL of one server, redis://host:port",
            ),
            // It was demoted, or is about to be promoted; the Sentinels that named it have not heard yet.
            Self::Primary(_) if !role.is_empty() && role != "master" => (
                ErrorKind::Unavailable,
                "the Sentinels name it as the primary, and it is a replica".to_owned(),
                "wait until the fail-over is over; if it lasts, look at SENTINEL MASTERS",
            ),
            _ => return Ok(()),
        };
        Err(Error::new(kind, message).with_help(help))
    }

    pub(crate) fn with_address(&self, error: Error) -> Error {
        error.context(format_args!("Redis at {self}"))
    }

    /// How to talk to the server. The address of a primary is not known yet.
    pub(crate) fn target(&self) -> &Target {
        match self {
            Self::Server(target) | Self::Node(target) => target,
            Self::Primary(sentinels) => &sentinels.primary,
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary(sentinels) => sentinels.fmt(f),
            _ => self.target().address.fmt(f),
        }
    }
}

/// Ends a connection to a primary when the Sentinels name another server.
///
/// A primary that is replaced while it is well, as by `SENTINEL FAILOVER`, goes on as a primary for ten seconds: so long do
/// the Sentinels wait before they make a replica of it. A lease that is renewed there meanwhile may be another owner's on the new
/// one. One report of a later fail-over than `epoch`, which led to the old primary, is enough to leave it. A Sentinel that was cut
/// off cannot have such a report.
async fn leave_when_replaced(route: Arc<Route>, connection: Weak<Connection>, mut epoch: Epoch) {
    let Route::Primary(sentinels) = &*route else { return };
    loop {
        tokio::time::sleep(SENTINEL_POLL_PAUSE).await;
        if connection.upgrade().is_none_or(|connection| !connection.is_open()) {
            return;
        }
        let Some(report) = sentinels.newer_than(epoch).await else { continue };
        let Some(connection) = connection.upgrade() else { return };
        if connection.target.address != report.address {
            tracing::debug!(target: "leasehold", old = %connection.target.address, new = %report.address, "replaced");
            return connection.end();
        }
        epoch = report.epoch;
    }
}
