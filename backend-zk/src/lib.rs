//! Leasehold on ZooKeeper: a fair queue of ephemeral nodes in Curator's layout, with fencing tokens.
//!
//! ```no_run
//! # use leasehold_core::{DistributedLockExt, LockClient, Namespace};
//! # use leasehold_store_url::StoreUrl;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
//! let url = StoreUrl::parse("zk://z1:2181,z2:2181,z3:2181/app")?;
//! let locks = LockClient::new(leasehold_zk::open(&url, &Namespace::default())?);
//! let guard = locks.acquire("invoice/42").await?;
//! println!("pass {} to the database, and let it refuse anything older", guard.token()?);
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! An ensemble of ZooKeeper 3.5.3 or later, or one server alone. All servers of an ensemble must have the same bounds for
//! session timeouts.
//!
//! A hold is a node that lives as long as this process's session does. The session timeout decides how long a crashed holder keeps
//! others out, and not the ttl of an acquisition. A ttl can only be stricter with its own holder: a guard believes in its hold for its
//! ttl or for three quarters of the session timeout, whichever is shorter, counted from before the last write was sent that a majority
//! of the servers has acknowledged in this session.
//!
//! What a holder is told when, URLs, rights, nodes, Curator and kazoo in the same queue, and what is not promised: the guide
//! `docs/zookeeper.md` of the repository.
//!
//! The feature `tls` links a second crypto library beside ring, aws-lc, which is C code, because the client library requires it. It is
//! used only if the application has made it the default of the process. If there is no default, the first `zk+tls` store makes ring that.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acl;
mod addresses;
mod admin;
mod backend;
mod check;
mod claims;
mod four_letter_words;
mod names;
mod notifier;
mod own_node;
mod parents;
mod queue;
mod recipe;
mod renewal;
mod semantics;
mod session;
mod target;
mod tls;

pub use backend::ZooKeeperBackend;
pub use target::SCHEMES;

use leasehold_core::sync::locked;
use leasehold_core::{LockBackend, Namespace, Result};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;

/// The prefix of every name, unless the user chooses another: none, because the directory belongs to the locks.
pub const DEFAULT_PREFIX: &str = "";

/// Opens the backend for the ensemble at `url`. Checks what can be checked, and connects to nothing: the first use does.
///
/// # Errors
///
/// As of [`ZooKeeperBackend::open`].
pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Arc<dyn LockBackend>> {
    Ok(Arc::new(ZooKeeperBackend::open(url, namespace)?))
}
