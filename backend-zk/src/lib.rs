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
//! # Servers
//!
//! An ensemble of ZooKeeper 3.5.3 or later, or one server alone. All servers of an ensemble must have the same bounds for
//! session timeouts.
//!
//! # What a hold is
//!
//! A node that lives as long as this process's session does. The process keeps the session alive; when the servers have
//! heard nothing of it for its timeout, they end it, and the lock is free.
//!
//! So the session timeout decides how long a crashed holder keeps others out, and not the ttl of an acquisition. A ttl can
//! only be stricter with its own holder: a guard believes in its hold for its ttl or for three quarters of the session
//! timeout, whichever is shorter, counted from before the last write was sent that a majority of the servers has acknowledged
//! in this session. A new hold may begin with a tenth less. The keeper asks for another such write at a third of that time,
//! one for all locks that fall due together. It changes nothing: it is the delete of a node that does not exist.
//!
//! A holder is told at once when its session has ended, and is at risk from the moment the connection is lost. The deletion of its
//! node is told by the first renewal, and from then on at once: that renewal sets a watch. A session watches about 400 holds and
//! 800 waiters. A hold beyond that is read by each renewal, and a waiter beyond that asks every 5 s. With a fixed lease, the guard
//! ends on time, but the lock is free only when the guard is dropped or its session ends.
//!
//! # URLs
//!
//! `zk://[user:password@]host[:port][,host[:port]…][/directory]`; `zk+tls://` with TLS (feature `tls`). The directory
//! is that of the locks, `/leasehold` if there is none. Parameters:
//!
//! | parameter | meaning | default |
//! |---|---|---|
//! | `session_timeout` | the session timeout that the servers are asked for, 200 ms to 1 h; they have bounds of their own, by default 2 and 20 ticks of 2 s | `10s` |
//! | `timeout` | the time for all requests of one call, 10 ms to 60 s | `2s` |
//! | `connect_timeout` | the time to get a session, 10 ms to 60 s; up to 1.5 s more to find out why there is none | `5s` |
//! | `login` | `digest`: the password is sent, and is the key to the nodes that were made with it; `sasl`: the servers know the user, who logs in by DIGEST-MD5 | `digest` |
//! | `acl` | `creator`: only the identity that made the nodes may use them; `anyone`: every client may take and free locks | `creator` if there is a user or a certificate |
//! | `tls_ca` | a PEM file of authorities to trust | the authorities of the host |
//! | `tls_cert`, `tls_key` | PEM files: the client's certificate and its key | none |
//!
//! With `acl=anyone` too, no client can overwrite a node or its access list. Use `zk+tls`: without it the network carries the password,
//! or what it can be guessed from. SASL by Kerberos is not supported, because it needs libraries in C.
//!
//! The feature `tls` links a second crypto library beside ring, aws-lc, which is C code, because the client library requires it. It is
//! used only if the application has made it the default of the process. If there is no default, the first `zk+tls` store makes ring that.
//!
//! # Nodes
//!
//! | node | kind |
//! |---|---|
//! | `/leasehold` | persistent |
//! | `/leasehold/NAME` | container: the servers delete it some time after its last child |
//! | `/leasehold/NAME/_c_OWNER-lock-NUMBER` | ephemeral and sequential; its data describes the holder |
//! | `/leasehold/NAME/_c_OWNER-__WRIT__NUMBER`, `…-__READ__NUMBER` | the same for a writer and for a reader |
//!
//! The lowest number holds the lock, and all others wait for the node in front; but a reader waits only for the nearest writer
//! in front, so readers hold together. The fencing token is the id of the transaction that made the node, which goes on growing
//! when the directory is made again.
//!
//! This is the layout of Curator's `InterProcessMutex` and `InterProcessReadWriteLock`. Our exclusive locks exclude the mutex, and our
//! readers and writers the read–write lock, both ways; Curator's two kinds do not see each other, so use one of them on a path.
//! Other children are ignored and never deleted.
//!
//! In a name, `/`, `%`, and all that is not printable ASCII are percent-encoded, and so are the names `.`, `..` and
//! `zookeeper`.
//!
//! # What is not promised
//!
//! If a majority of the servers loses its data, the order of tokens is lost. Holders learn of it only at the end of their belief.
//!
//! If a holder's node is deleted by hand, the next in the queue is granted the lock, with a larger token. A node that is created by
//! hand with a number of one's choice may be sorted in front of a holder.
//!
//! A server that is cut off from its leader, connected again and cut off once more, all within a quarter of a session's
//! timeout, may let a holder believe for at most that quarter too long.
//!
//! If a server with a lower `maxSessionTimeout` shortens a session at a reconnect, its holders go on believing by the first timeout.

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
