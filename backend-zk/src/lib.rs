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
//! session time-outs.
//!
//! # What a hold is
//!
//! A node that lives as long as this process's session does. The process keeps the session alive; when the servers have
//! heard nothing of it for its time-out, they end it, and the lock is free.
//!
//! So how long a crashed holder keeps others out is decided by the session's time-out, and not by the ttl of an acquisition.
//! A ttl can only be stricter with its own holder: a guard believes in its hold for its ttl or for three quarters of the
//! session's time-out, whichever is shorter, counted from the send of the last request that a majority of the servers has
//! agreed to, which proves the session. The keeper asks for a proof at a third of that time, one for all locks that fall
//! due together. The proof is a write that changes nothing: the delete of a node that nobody makes.
//!
//! A holder is told at once when its node is deleted or its session has ended. If the node is deleted in the first 20 ms of
//! a hold, the holder is told after these; if its server is behind, when that server learns of it. The hold is at risk from
//! the moment the connection is lost. A holder never waits to be told by the server, which would come only after a
//! reconnect, when another may hold the lock. With a fixed lease, the guard ends on time, but the lock is free only when the
//! guard is dropped or its session ends. A session listens to about a thousand nodes; of what is beyond, a holder is told by
//! one of its renewals.
//!
//! # URLs
//!
//! `zk://[user:password@]host[:port][,host[:port]…][/directory]`; `zk+tls://` with TLS (feature `tls`). The directory
//! is that of the locks, `/leasehold` if there is none. Parameters:
//!
//! | parameter | meaning | default |
//! |---|---|---|
//! | `session_timeout` | what the servers are asked for, 200 ms to 1 h; they have bounds of their own, by default 2 and 20 ticks of 2 s | `10s` |
//! | `timeout` | how long the requests of one call may take together, 10 ms to 60 s | `2s` |
//! | `connect_timeout` | how long getting a session may take, 10 ms to 60 s; finding out why there is none takes up to 1.5 s more | `5s` |
//! | `login` | `digest`: the password is sent, and is the key to the nodes that were made with it; `sasl`: the servers know the user, who logs in by DIGEST-MD5 | `digest` |
//! | `acl` | `creator`: only the identity that made the nodes may do anything with them; `anyone`: everybody may take and free locks | `creator` if there is a user or a certificate |
//! | `tls_ca` | a PEM file of authorities to trust | those that the host trusts |
//! | `tls_cert`, `tls_key` | PEM files: the client's certificate and its key | none |
//!
//! Without a user or a certificate a node belongs to nobody, so everybody who reaches the servers can take and free locks.
//! Even then nobody can overwrite a node or its access list.
//!
//! With `login=digest` a user's password goes over the network as it is, and with `login=sasl` it could be guessed from what
//! goes over the network: use `zk+tls`. SASL by Kerberos is not supported, because it needs libraries in C.
//!
//! The feature `tls` links a second crypto library beside ring, aws-lc, which is C code, because the client library requires
//! it. It is not used unless the application has made it the default of the process. If the process has no default, the
//! first store that is opened with `zk+tls` makes ring the default.
//!
//! # Nodes
//!
//! | node | kind |
//! |---|---|
//! | `/leasehold` | persistent |
//! | `/leasehold/NAME` | container: the servers delete it some time after its last child |
//! | `/leasehold/NAME/_c_OWNER-lock-NUMBER` | ephemeral and sequential; its data describes the holder |
//!
//! The lowest number holds the lock. The fencing token is the id of the transaction that made the node, which goes on
//! growing when the directory is made anew. Of nodes with one number, of which all but one were named by hand, the one that was
//! made first is in front.
//!
//! This is the layout of Curator's `InterProcessMutex` and of go-zk, and they and we exclude each other if the paths
//! agree. For kazoo, give a subclass of its `Lock` the attributes `_NODE_NAME = "-lock-"` and `_EXCLUDE_NAMES = ["-lock-"]`:
//! as it comes, we queue behind it, but it ignores us. Children that are no contenders are ignored and never deleted.
//!
//! Of a name, `/`, `%`, and all that is not printable ASCII are percent-encoded, and so are the names `.`, `..` and
//! `zookeeper`.
//!
//! # What is not promised
//!
//! If a majority of the servers loses its data, the order of tokens is lost. Holders learn of it only at the end of their
//! belief: a server that knows less than a client has seen closes the connection without a word, and so does one that is
//! merely behind.
//!
//! If somebody deletes a holder's node, the next in the queue is granted the lock, with a larger token.
//!
//! A node that somebody has named by hand, and not let the server number, keeps out whoever lists the directory. A claim to
//! which another of its process hands over does not: it may be granted the lock beside such a node.
//!
//! A server that is cut off from its leader, connected again and cut off once more, all within a quarter of a session's
//! time-out, may let a holder believe for at most that quarter too long.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acl;
mod admin;
mod backend;
mod bell;
mod check;
mod contenders;
mod crowd;
mod names;
mod news;
mod node;
mod one_by_one;
mod parents;
mod place;
mod recipe;
mod renewal;
mod semantics;
mod session;
mod standing;
mod suspects;
mod target;
mod ties;
mod tls;
mod words;

pub use backend::ZooKeeperBackend;
pub use target::SCHEMES;

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
