//! Leasehold on Redis and Valkey: locks that are leases, with fencing tokens, in the layout that other Redis locks use.
//!
//! ```no_run
//! # use leasehold_core::{DistributedLockExt, LockClient, Namespace};
//! # use leasehold_store_url::StoreUrl;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
//! let url = StoreUrl::parse("redis://127.0.0.1:6379/0")?;
//! let locks = LockClient::new(leasehold_redis::open(&url, &Namespace::new(leasehold_redis::DEFAULT_PREFIX)?)?);
//! let guard = locks.acquire("invoice/42").await?;
//! println!("pass {} to the database, and let it refuse anything older", guard.token()?);
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! Redis 7.0 or later, or Valkey 7.2 or later: one server, or a primary and its replicas that Sentinels watch, or a
//! cluster. If the URL of a replica, a Sentinel or a cluster node is given as that of one server, the error says which URL
//! to write instead.
//!
//! One server excludes as long as it keeps its memory and its clock; what else it promises is in
//! [`semantics`](leasehold_core::LockBackend::semantics), and [`check`](leasehold_core::LockAdmin::check) looks for settings that make
//! it forget. Of **several independent servers** a majority decides: [`RedlockBackend`].
//!
//! When two may hold a lock, URLs, keys, rights, and what Sentinel, Cluster and Redlock are good for: the guide `docs/redis.md` of
//! the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod backend;
mod batch;
mod check;
mod cluster;
mod connection;
mod keys;
mod redlock;
mod reply;
mod rights;
mod scripts;
mod semantics;
mod server_error;
mod servers;
mod target;
mod tls;
mod trial;
mod waiters;

pub use backend::RedisBackend;
pub use redlock::RedlockBackend;
pub use target::SCHEMES;

use leasehold_core::sync::locked;
use leasehold_core::{LockBackend, Namespace, Result};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;

/// The prefix of every name, unless the user chooses another.
pub const DEFAULT_PREFIX: &str = "leasehold:";

/// Opens the backend for the server, or the servers, at `url`. Checks what can be checked, and connects to nothing: the
/// first use does.
///
/// # Errors
///
/// As of [`RedisBackend::open`] and [`RedlockBackend::open`].
pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Arc<dyn LockBackend>> {
    Ok(match url.scheme() {
        "redlock" | "redlock+tls" => Arc::new(RedlockBackend::open(url, namespace)?),
        _ => Arc::new(RedisBackend::open(url, namespace)?),
    })
}
