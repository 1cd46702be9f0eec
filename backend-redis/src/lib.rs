//! Leasehold on Redis and Valkey: locks that are leases, with fencing tokens, in the layout that other Redis locks use.
//!
//! ```no_run
//! # use leasehold_core::{DistributedLockExt, LockClient, Namespace, StoreUrl};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
//! let url = StoreUrl::parse("redis://127.0.0.1:6379/0")?;
//! let locks = LockClient::new(leasehold_redis::open(&url, &Namespace::new(leasehold_redis::DEFAULT_PREFIX)?)?);
//! let guard = locks.acquire("invoice/42").await?;
//! println!("pass {} to the database, and let it refuse anything older", guard.token()?);
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! # Servers
//!
//! Redis from 7.0 on, or Valkey from 7.2 on: one server; or a primary and its replicas that Sentinels watch; or a
//! cluster. A replica, a Sentinel or a node of a cluster that is taken for one server is recognised and said, with the URL
//! to write instead.
//!
//! What one server promises is in [`semantics`](leasehold_core::LockBackend::semantics). In short: it excludes as long as
//! it keeps its memory and its clock. If it forgets (a restart without `appendonly`, `FLUSHALL`, eviction), two may hold a
//! lock until the first is told by its next renewal. The tokens go on growing even then, so a resource that checks them is
//! safe. [`check`](leasehold_core::LockAdmin::check) looks for settings that make it forget.
//!
//! Every change is a script, also where the server can compare and delete by itself (`DELEX` of Redis 8.4, `DELIFEQ` of
//! Valkey 9): a release ends two keys and hands the lock over in one step, and such a command ends one.
//!
//! Or **several independent ones**, three at least, of which a majority decides: [`RedlockBackend`], after the algorithm
//! Redlock. Less than half of them may fail, hang or forget, and locks go on; see [below](#redlock).
//!
//! # Sentinel and Cluster
//!
//! Behind **Sentinels**, who the primary is is asked for every connection: all Sentinels at once, of whom the newest word of
//! a majority counts. The server that they name is asked for its role before it is believed, and left as soon as it
//! refuses a write.
//!
//! In a **cluster**, the keys of a name lie in one slot, on one node, and that node serves it; the others have their own. A
//! request that a node sends on (`MOVED`, `ASK`) was not carried out, and is sent there for the same owner. While a slot
//! moves, a name whose keys are torn apart is [`Unavailable`](leasehold_core::ErrorKind::Unavailable) for that moment; a hold
//! moves along. Waiters are served in their order while a name stays where it is; one whose place was recorded on the old node
//! may lose it.
//!
//! In both, a message that tells of a grant is a reason to ask and is not believed by itself, because a cluster and
//! replication carry messages to servers that did not count their listeners: a hand-over costs one round trip more than on
//! one server.
//!
//! **A fail-over can make two holders.** Replication is asynchronous: a replica that takes over may lack the last grants,
//! renewals and releases. The old holder is told by its next renewal. Tokens go on growing, because they follow the clock:
//! as long as the servers' clocks differ by less than the fail-over took.
//!
//! `wait_replicas=n` makes it rarer: a grant is believed only when *n* replicas have it (`WAIT`, in the same round trip), and is
//! taken back if they do not say so within an eighth of `timeout`, or a quarter of the lease if that is shorter. Then the
//! attempt is [`Unavailable`](leasehold_core::ErrorKind::Unavailable), or
//! [`Indeterminate`](leasehold_core::ErrorKind::Indeterminate) if the taking back got no answer. A renewal that they do not
//! confirm extends nothing: the holder goes by the lease before it. A lock that was handed over is asked for once more by its new
//! holder, and confirmed then. What it does *not* promise: that the replica which takes over is one of the *n*, unless *n*
//! is all of them; that a replica keeps what it has confirmed, which is in its memory and perhaps on no disk; and that the old
//! primary, cut off with its clients and one of its replicas, grants nothing.
//!
//! # URLs
//!
//! `redis://[user:password@]host[:port][/database]` for one server; `redis+unix:///path/to/socket` for a socket;
//! `redis+sentinel://[user:password@]s1[:port],s2,s3/name[/database]` for the primary that these Sentinels watch under this
//! name; `redis+cluster://[user:password@]n1[:port],n2` for a cluster of which these are some nodes. With TLS (feature `tls`):
//! `rediss://`, `rediss+sentinel://`, `rediss+cluster://`, for Sentinels and servers alike. `valkey` in the place of `redis`
//! means the same. `redlock://[user:password@]host[:port],host[:port],host[:port][/database]` for independent nodes,
//! `redlock+tls://` for such with TLS: login, database and parameters are those of every node. Parameters:
//!
//! | parameter | meaning | default |
//! |---|---|---|
//! | `timeout` | how long a request may take, 10 ms to 60 s; it ends at a quarter more than that at the latest | `2s` |
//! | `connect_timeout` | how long connecting may take, login and all, 10 ms to 60 s | `2s` |
//! | `protocol` | `resp3` or `resp2` | `resp3`, or `resp2` if the server knows no other |
//! | `db` | the database, for sockets | `0` |
//! | for `redlock` | both, for each node; answers about a lease are waited for no longer than an eighth of it | `500ms` |
//! | `sentinel_user`, `sentinel_password` | who we are to the Sentinels; login and password before the hosts are for the servers | nobody |
//! | `wait_replicas` | how many replicas must have a grant before it is believed, 1 to 64 | none |
//! | `tls_ca` | a PEM file of authorities to trust | those that the host trusts |
//! | `tls_cert`, `tls_key` | PEM files: who we are | nobody |
//! | `tls_insecure` | `yes`: whoever answers is believed to be the server | `no` |
//!
//! # Keys
//!
//! | key | value | lives |
//! |---|---|---|
//! | `leasehold:NAME` | the owner, 32 hexadecimal digits; behind it `+` while somebody waits | as long as the lease |
//! | `{leasehold:NAME}:holder` | owner, token, time of the grant, description of the holder | as long as the lease |
//! | `{leasehold:NAME}:token` | the last token of the name, with ` queue` behind it while somebody waits | until the server's clock is a day past it |
//! | `{leasehold:NAME}:queue` | the owners who wait, in their order | until nobody waits, or for a minute without a heartbeat |
//! | `{leasehold:NAME}:waiters` | until when each of them keeps its place, and what it asks for: lease, and tokens in a row | likewise |
//!
//! The first is what every lock has that is made with `SET key value NX PX`: redis-py, redsync, node-redlock, rslock and
//! we exclude each other if key and database agree. An empty prefix makes the key the name itself. Their grants have no
//! token, so between theirs and ours there is exclusion, and no fencing.
//!
//! The second keeps a lock that vanishes, by a hand's `DEL` or by eviction, from being granted to another before the
//! lease of its holder would have ended, or its holder gives it up. Programs that know the first key only do not look at
//! it.
//!
//! The last two are the queue of those who wait. A release hands the lock over to the first of them in the same step, and
//! tells its process on the channel `leasehold:grants:` and a number, to which a process subscribes once, when it first
//! has to wait; with `protocol=resp2` on a second connection. While somebody waits, the value of the lock key has a `+` behind it; programs that know that key only do
//! not care, because they look for their own value. They do not stand in the queue either, and may take a lock in the moment
//! in which it is free.
//!
//! With a prefix that has a hash tag, such as `{shop}:`, the companions are `{shop}:{NAME}:holder` and so on. The characters `{`, `}` and `%` of a name are percent-encoded in its keys.
//!
//! # Redlock
//!
//! All nodes are asked at once to hold the name. If more than half do, a token is chosen that is larger than all that these
//! know, and each of them writes it down if it still holds the name for this attempt and knows of no larger one. The lock
//! is granted when a majority has written it, and when something is left of the lease, which is counted from before the
//! first word to any node, less 1 % + 2 ms for clocks that run unequally. An attempt that fails is taken back from every
//! node that may have granted it, and tried again after a pause of random length. A renewal counts if a majority confirms
//! it.
//!
//! * **Exclusion of belief rests on time**, as with every lease: the nodes' clocks and the client's must run at about the
//!   same rate, and a node must not forget. **The tokens do not**: two grants have a node in common that has written both,
//!   and it writes in one order only. Whatever leases end when, no two tokens are the same, and of two owners that one node
//!   has served, the later has the larger one. The crate `leasehold-models` of the workspace explores this, with requests
//!   that are lost, late and out of order.
//! * **A node that forgets** (restarted empty, evicted, flushed) has its locks set again by the next renewals, a third of a
//!   lease later at the latest, tokens included. Until then it is as good as one that fails. A lease that has ended on a
//!   majority is never brought back. If a majority forgets at once, two may hold a lock, and tokens grow as long as the
//!   nodes' clocks differ by less than the time between two grants.
//! * **A node that does not answer** holds up nobody after the first time. What it was told to free and did not hear ends
//!   with its lease.
//! * Nobody stands in a queue, and nobody is told: waiters ask, in no order.
//! * The same server named twice is refused, by its address at once, and by what stands in the locks at the first attempts;
//!   it counts once in any case. All clients must name the same nodes. Nodes must not be replicas of each other, and none
//!   should have a replica that takes over.
//! * The keys are those above, without queue and waiters; the value of the lock key is `owner:attempt:node`. node-redlock,
//!   redsync and others that set the same key on the same nodes are excluded, and exclude us. Clients with `redis://` URLs
//!   must not share the prefix on a node: what they write there is not understood.
//!
//! # Rights
//!
//! All that is needed, for the default prefix; nothing of it reaches other keys:
//!
//! ```text
//! ACL SETUSER locker on >PASSWORD resetkeys ~leasehold:* ~{leasehold:* resetchannels &leasehold:* -@all \
//!     +eval +evalsha +set +get +del +pexpire +pttl +time +ping +scan +type \
//!     +zadd +zscore +zrange +zpopmin +zrem +hset +hget +hdel +publish +subscribe
//! ```
//!
//! Also `+cluster|slots` and `+asking` on a cluster, and `+wait` for `wait_replicas`. To Sentinels, the user needs
//!
//! ```text
//! ACL SETUSER guard on >PASSWORD resetchannels -@all +sentinel|master
//! ```
//!
//! `&leasehold:*`, `+publish` and `+subscribe` let waiters hear at once that the lock is theirs; without one of them they
//! find out by asking, every half second at the latest. [`check`](leasehold_core::LockAdmin::check) names each right that is
//! missing. `+select` for a database other than 0; `+config|get` lets `check` see the settings; without `+scan` there is no list,
//! without `+type` a worse message if a key holds foreign data. Everybody who may run these commands on these keys can
//! break these locks: give users of different trust prefixes of their own. A message on the channel is believed only if it
//! names a waiter and its present place, which stand in the keys of the lock alone; so one who may publish, and not read
//! these keys, can forge none.
//!
//! On every node of `redlock://`:
//!
//! ```text
//! ACL SETUSER locker on >PASSWORD resetkeys ~leasehold:* ~{leasehold:* resetchannels -@all \
//!     +eval +evalsha +set +get +del +pexpire +pttl +time +ping +scan +type
//! ```
//!
//! `+info` lets `check` recognise a server that is named twice before a lock is taken.

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod cluster;
mod contention;
mod keys;
mod link;
mod mailbox;
mod primary;
mod record;
mod redlock;
mod refusal;
mod reply;
mod scripts;
mod sentinel;
mod servers;
mod target;
mod word;

pub use primary::RedisBackend;
pub use redlock::RedlockBackend;
pub use target::SCHEMES;

use leasehold_core::{LockBackend, Namespace, Result, StoreUrl};
use std::sync::Arc;

/// What stands in front of every name, unless the user says otherwise.
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
