//! Distributed locks with fencing tokens and a loss signal in time, on the store you already run.
//!
//! A hold is a *lease*: it ends by itself unless its holder renews it, so that a crash frees the lock. Its *token* is a number that is larger
//! for every later holder, so that what the lock protects can refuse a holder whose lease is over.
//!
//! ```
//! use leasehold::DistributedLockExt;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
//! let locks = leasehold::connect("memory:").await?; // redis://host:6379, zk://z1,z2,z3/app …
//!
//! let guard = locks.acquire("invoice/42").await?; // waits; the lease is then renewed in the background
//! let work = charge(guard.token()?); // pass the token to the resource that the lock protects
//! guard.protect(work).await?; // stops the work if the lock is lost
//! guard.release().await?; // an error if the lock did not cover the work to its end
//! # Ok(()) }
//! # async fn charge(token: leasehold::FencingToken) {}
//! ```
//!
//! The same with a configuration, a time-out and an orderly end is in the [README][readme]. Open a store once and share it: every call
//! of `connect` makes connections of its own. The command `leasehold run NAME -- COMMAND` runs any program under a lock.
//!
//! # Kinds of lock
//!
//! | wanted | call |
//! |---|---|
//! | one holder at a time | [`acquire`](DistributedLockExt::acquire), [`try_acquire`](DistributedLockExt::try_acquire), [`with_lock`](DistributedLockExt::with_lock) |
//! | readers together, a writer alone | [`read`](DistributedLockExt::read), [`write`](DistributedLockExt::write) |
//! | at most N holders | [`semaphore`](DistributedLockExt::semaphore), a [`Semaphore`] |
//! | several names, all or none | [`acquire_all`](DistributedLockExt::acquire_all) |
//! | what is held already | [`scope`](DistributedLockExt::scope), a [`Scope`] |
//! | one leader at a time, and the next after it | [`elect`](DistributedLockExt::elect), an [`Election`] |
//!
//! Each of them is on every store, but for shared locks, which [`semantics`] declares. The guide [`kinds.md`][kinds] has their promises.
//!
//! [readme]: https://github.com/leasehold/leasehold#in-rust
//! [kinds]: https://github.com/leasehold/leasehold/blob/main/docs/kinds.md
//! [fencing]: https://github.com/leasehold/leasehold/blob/main/docs/fencing.md
//!
//! # Promises
//!
//! In the store's own order of events, a name has at most one owner, and only the owner can release or renew.
//! [`is_held`](Lease::is_held) turns false before the lease can end in the store: it is computed from the clock at the call, so
//! it is right even if no task could run. The lock of a crashed holder is free after its lease, session or connection. An
//! acquisition with a deadline returns by it; one that is dropped at any await leaves nothing behind that outlasts a lease. An
//! unknown outcome is [`Indeterminate`](ErrorKind::Indeterminate), never busy or not applied. [`semantics`] says which store
//! keeps which promise under which fault.
//!
//! No lock gives exclusion of *effects*: a process that is paused while it holds a lock wakes up later and writes. Only the
//! resource can refuse that write. Hand it the [fencing token](FencingToken), which grows with every grant, and let it accept
//! none lower than the highest that it has seen: for a row of a SQL table, `FencedWrite` (with a SQL feature) builds such an `UPDATE`. If the
//! resource cannot check a token, make the work safe to repeat. See the guide [`fencing.md`][fencing].
//!
//! [`protect`](Lease::protect) cannot stop code that does not await, or that was spawned: give it a clone of the
//! [`lease`](LockGuard::lease), to ask for the [`token`](Lease::token) before each effect. Locks are not re-entrant, except
//! within one [`scope`](DistributedLockExt::scope). A deadlock between two names is not detected: take them at once with
//! [`acquire_all`](DistributedLockExt::acquire_all), or in the same order everywhere.
//!
//! # Stores and features
//!
//! | store | URL | feature | between |
//! |---|---|---|---|
//! | Redis 7, Valkey | `redis://host:6379/0`, `redis+unix:///run/redis.sock`, over TLS `rediss://host:6380/0` | `redis`; `tls` | hosts |
//! | … watched by Sentinels | `redis+sentinel://s1:26379,s2:26379,s3:26379/mymaster` | `redis` | hosts |
//! | … a cluster | `redis+cluster://n1:6379,n2:6379` | `redis` | hosts |
//! | … a majority of nodes | `redlock://r1:6379,r2:6379,r3:6379`, `redlock+tls://…` | `redis`, `tls` | hosts |
//! | etcd | `etcd://e1,e2,e3/app`, over TLS `etcd+tls://e1/app` | `etcd`; `tls` | hosts |
//! | ZooKeeper | `zk://z1:2181,z2:2181,z3:2181/app`, over TLS `zk+tls://z1:2281/app` | `zookeeper`; `zookeeper-tls` | hosts |
//! | MySQL, MariaDB, PostgreSQL | `mysql://user@host/database`, `mariadb://…`, `postgres://…` | `mysql`, `postgres`; `tls` unless the server is on this host, or with `sslmode=disable` | hosts |
//! | SQLite | `sqlite:/var/lib/shop/locks.db` | `sqlite` | processes of one host |
//! | memory | `memory:`, `memory:NAME` | none | tasks of one process |
//!
//! `full` is all of these features but `zookeeper-tls`, which links a second crypto library, written in C. No feature is on
//! by default. MySQL, MariaDB and PostgreSQL need their tables made once, by `leasehold init` or
//! [`LockAdmin::init`](admin::LockAdmin::init). The feature `blocking` adds the API for programs without an async runtime, and `metrics` counts
//! through the crate `metrics`. Two calls of `connect("memory:")` are two stores; `memory:NAME` is one. All
//! stores need a Tokio runtime with I/O and time enabled.
//!
//! # Where to go
//!
//! * to use locks: [`DistributedLock`], [`LockGuard`], [`AcquireOptions`], [`ErrorKind`]
//! * to configure the store: [`Config`]
//! * to see holders, and to free a stuck lock: [`admin`]
//! * to observe a client, or to choose its clock: [`Registry::connect_with`], [`client`]; without an observer, losses and
//!   failed renewals are events of `tracing` with the target `leasehold`
//! * to write a backend: [`backend`], [`Registry::register`], [`Registry::set_default_prefix`]

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "blocking")]
pub mod blocking;
mod config;
#[cfg(feature = "metrics")]
pub mod metrics;
mod registry;

pub use config::{Config, ConfigEntry, ConfigSource, ConfigSources};
pub use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, Election, Error, ErrorKind, FencingToken, Health,
    HolderInfo, IntoLockName, Leader, Leadership, Lease, LockGuard, LockMode, LockName, LockSetGuard, Loss,
    LossCause, Result, Scope, Semaphore, Wait, parse_duration,
};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use leasehold_sql::{FencedWrite, Parameters};
pub use leasehold_store_url::Secret;
pub use registry::Registry;

use std::sync::Arc;

/// For operators: to look at locks, and to free them by hand. Start at [`DistributedLock::admin`].
pub mod admin {
    pub use leasehold_core::{Finding, LockAdmin, LockStatus, Purge, Severity, Waiter};
}

/// For authors of backends: the contract [`LockBackend`](backend::LockBackend) and its types.
/// [`MemoryBackend`](backend::MemoryBackend) is the shortest correct backend; a [`Registry`] gives yours a scheme.
pub mod backend {
    pub use leasehold_core::memory::MemoryBackend;
    pub use leasehold_core::{
        Attempt, Busy, Claim, Grant, Hold, HoldStatus, KnownServers, LockBackend, MAX_CLAIMS_PER_RENEWAL,
        Namespace, OwnerId, Release, Renewal, StallTimeout, Suspects, renew_each,
    };
    pub use leasehold_store_url::{Authority, Endpoint, Query, StoreUrl, did_you_mean, nearest};
}

/// The client between the two contracts, to be built with a clock or an observer of your own. Start at
/// [`Registry::connect_with`].
pub mod client {
    pub use leasehold_core::{
        Clock, Event, LockClient, LockClientBuilder, Moment, Observer, RuntimeClock, Sleep, SystemClock,
        TracingObserver,
    };
}

/// The promises of each backend under each fault, as data. Start at [`DistributedLock::semantics`].
pub mod semantics {
    pub use leasehold_core::{
        CrashBound, ExpiryClock, Fairness, Fault, HoldKind, LossSignal, Outcome, Promises, Reach, Semantics,
        Sharing, TokenClass, WakeUp,
    };
}

/// The locks of the store at this URL, with the defaults of [`AcquireOptions`]. Reads no file and no environment, and opens
/// nothing: the first lock does, and fails if the store cannot be reached.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) for a bad URL, [`Misconfigured`](ErrorKind::Misconfigured) for a scheme without a
/// backend, with the nearest one or the feature to add.
pub async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>> {
    connect_with(&Config::new(url)?).await
}

/// The locks of the configured store. Opens nothing: the first lock does, and fails if the store cannot be reached.
///
/// # Errors
///
/// As [`Registry::connect`].
pub async fn connect_with(config: &Config) -> Result<Arc<dyn DistributedLock>> {
    Registry::default().connect(config).await
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../docs/fencing.md")]
mod fencing {}

#[cfg(all(doctest, feature = "blocking"))]
#[doc = include_str!("../docs/kinds.md")]
mod kinds {}
