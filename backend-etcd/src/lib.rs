//! Leasehold on etcd: a fair queue of keys on leases, in the layout of etcd's own locks, with fencing tokens.
//!
//! ```no_run
//! # use leasehold_core::{DistributedLockExt, LockClient, Namespace};
//! # use leasehold_store_url::StoreUrl;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
//! let url = StoreUrl::parse("etcd://e1,e2,e3/app")?;
//! let locks = LockClient::new(leasehold_etcd::open(&url, &Namespace::default())?);
//! let guard = locks.acquire("invoice/42").await?;
//! println!("pass {} to the database, and let it refuse anything older", guard.token()?);
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! A cluster of etcd 3.4 or later, or one member alone. Before 3.5.13, a leader that was replaced may end leases that live: two may hold
//! after a fail-over, with tokens that grow.
//!
//! A hold is a key on an etcd lease of its own, which lasts for the ttl of the acquisition, rounded up to whole seconds. The key that was
//! created first holds the lock, and all others wait for the key in front; a reader waits only for the nearest writer in front, so
//! readers hold together. The fencing token is the revision of the whole store at which the key was created.
//!
//! A guard believes in its hold for its ttl, counted from before the extension of its lease was sent, and only if the member that
//! extended it has answered a read of the key too, in the same term of the same leader. A watch tells of the deletion of the key.
//!
//! URLs, rights, keys, `etcdctl lock` and Go's `concurrency.Mutex` in the same queue, and what is not promised: the guide `docs/etcd.md`
//! of the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod backend;
mod check;
mod claims;
mod connection;
mod keys;
mod members;
mod recipe;
#[rustfmt::skip] // One line for each field, as in the protocol's own definition.
mod rpc;
mod server_error;
mod target;
mod tls;
mod watches;

pub use backend::EtcdBackend;
pub use target::SCHEMES;

use leasehold_core::{LockBackend, Namespace, Result};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;

/// The prefix of every name, unless the user chooses another: none, because the URL has one.
pub const DEFAULT_PREFIX: &str = "";

/// Opens the backend for the cluster at `url`. Checks what can be checked, and connects to nothing: the first use does.
///
/// # Errors
///
/// As of [`EtcdBackend::open`].
pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Arc<dyn LockBackend>> {
    Ok(Arc::new(EtcdBackend::open(url, namespace)?))
}
