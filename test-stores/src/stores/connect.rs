//! Addresses of stores, and clients that connect to them by nothing but a URL.

use leasehold::client::{LockClientBuilder, Observer};
use leasehold::{Config, DistributedLock, Registry, Result};
use leasehold_conformance::Stop;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A password that must not be found in any output.
pub(super) const SECRET: &str = "S3CR3T-CANARY";

/// A URL, and the prefix of lock names if there is one: `URL` or `URL PREFIX`, in one line for worker processes.
pub(super) async fn connect(address: &str) -> Result<Arc<dyn DistributedLock>> {
    leasehold::connect_with(&config(address)?).await
}

pub(super) async fn connect_observed(
    address: &str,
    observer: Arc<dyn Observer>,
) -> std::result::Result<Arc<dyn DistributedLock>, Stop> {
    let observed = |client: LockClientBuilder| client.with_observer(observer);
    let config = config(address).map_err(Stop::failed)?;
    Registry::default().connect_with(&config, observed).await.map_err(Stop::failed)
}

fn config(address: &str) -> Result<Config> {
    let (url, prefix) = address.split_once(' ').map_or((address, None), |(url, prefix)| (url, Some(prefix)));
    let config = Config::new(url)?;
    match prefix {
        Some(prefix) => config.with_prefix(prefix),
        None => Ok(config),
    }
}

pub(super) fn loopback(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// Hosts as they stand in a URL.
pub(super) fn join(hosts: &[SocketAddr]) -> String {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    hosts.join(",")
}

/// A URL with more options.
pub(super) fn with_options(url: &str, options: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{options}")
}

/// The options of a client that takes a request for lost after `patience`.
pub(super) fn timeouts(patience: Duration) -> String {
    let patience = patience.as_millis();
    format!("timeout={patience}ms&connect_timeout={patience}ms")
}
