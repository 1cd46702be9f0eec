//! Whether all addresses of a URL, and all connections to an address, lead to one ensemble.

use crate::locked;
use crate::session::connect_to;
use crate::target::Target;
use futures_util::future::join_all;
use leasehold_core::trial::{addresses_finding, servers_finding};
use leasehold_core::{Finding, KnownServers};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use tokio::net::lookup_host;
use tokio::time::timeout;
use zookeeper_client::{Client, Stat};

/// Connections to each address. Behind a balancer, each may lead to another server.
const CONNECTIONS: usize = 3;
const ONE_ENSEMBLE: &str = "name the servers of one ensemble";

/// Looks at the directory of the locks, which is there by now, in several sessions at each address. An address that gives none is
/// another finding's.
pub(crate) async fn check_addresses(target: &Target) -> Vec<Finding> {
    let (mut servers, mut findings) = (Vec::new(), Vec::new());
    for (host, port) in target.servers.each() {
        let found: Vec<SocketAddr> =
            lookup_host((host, port)).await.map(Iterator::collect).unwrap_or_default();
        if target.tls.is_none() {
            servers.extend(found.iter().map(ToString::to_string));
            continue;
        }
        // A certificate is for the name, and the name may lead to any of its addresses.
        let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        findings.extend(addresses_finding(&addresses, ONE_ENSEMBLE));
        servers.push(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") });
    }
    let each = servers.iter().flat_map(|server| [server; CONNECTIONS]);
    let asked = join_all(each.map(|server| timeout(target.timeouts.connect, origin(target, server)))).await;
    findings.extend(servers_finding(asked.into_iter().flatten().flatten(), ONE_ENSEMBLE));
    findings
}

async fn origin(target: &Target, server: &str) -> Option<String> {
    let (client, base) = (connect_to(target, server).await?, &target.base);
    Some(described(base, look(&client, base).await?.as_ref()))
}

/// The directory as the leader has it, if there is one. `None` if it cannot be seen.
async fn look(client: &Client, base: &str) -> Option<Option<Stat>> {
    client.sync(base).await.ok()?;
    client.check_stat(base).await.ok()
}

/// When the directory was made: no two ensembles have that in common.
fn described(base: &str, stat: Option<&Stat>) -> String {
    match stat {
        Some(stat) => format!("one with {base} of transaction {:#x} at {} ms", stat.czxid, stat.ctime),
        None => format!("one without {base}"),
    }
}

/// The ensemble that gives the sessions of a backend, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Ensemble {
    pub(crate) base: String,
    pub(crate) servers: KnownServers,
    /// As it was described last. `None` if it had no directory, or did not show it.
    pub(crate) last: Mutex<Option<String>>,
}

impl Ensemble {
    /// Compares that of a new session with that of the session before.
    pub(crate) async fn compare(&self, target: &Target, client: &Client) {
        let Ok(Some(stat)) = timeout(target.timeouts.request, look(client, &self.base)).await else { return };
        let now = described(&self.base, stat.as_ref());
        let before = std::mem::replace(&mut *locked(&self.last), stat.map(|_| now.clone()));
        if let Some(before) = before.filter(|before| *before != now) {
            let address = target.servers.to_string();
            self.servers.note(&address, &before);
            self.servers.note(&address, &now);
        }
    }

    /// A session has made this directory.
    pub(crate) fn note_made(&self, directory: &str, stat: &Stat) {
        if directory == self.base {
            *locked(&self.last) = Some(described(directory, Some(stat)));
        }
    }
}
