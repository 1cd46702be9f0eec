//! Whether all addresses of a URL, and all connections to an address, lead to one ensemble.

use crate::session::{connect_to, origin};
use crate::target::Target;
use futures_util::future::join_all;
use leasehold_core::Finding;
use leasehold_core::trial::{addresses_finding, servers_finding};
use std::net::{IpAddr, SocketAddr};
use tokio::net::lookup_host;
use tokio::time::timeout;

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
    let ask = async |server| origin(&connect_to(target, server).await?, &target.base).await;
    let asked = join_all(each.map(|server| timeout(target.timeouts.connect, ask(server)))).await;
    findings.extend(servers_finding(asked.into_iter().flatten().flatten(), ONE_ENSEMBLE));
    findings
}
