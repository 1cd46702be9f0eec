//! The operator's side of a backend: look at locks, and release them by force.

use crate::{
    DistributedLock, Error, ErrorKind, FencingToken, HoldKind, HolderInfo, LockMode, LockName, OwnerId,
    Result,
};
use async_trait::async_trait;
use serde::{Serialize, Serializer};
use std::fmt::{self, Debug};
use std::time::{Duration, SystemTime};

/// Operations for people. None of them is needed to hold a lock.
///
/// # Errors
///
/// Every method fails with [`Unavailable`](crate::ErrorKind::Unavailable) if the store cannot be reached, with
/// [`Denied`](crate::ErrorKind::Denied) if these credentials may not do it, and with
/// [`Misconfigured`](crate::ErrorKind::Misconfigured) for a store such as a database without the table. A method that changes
/// something fails with [`Indeterminate`](crate::ErrorKind::Indeterminate) if the reply was lost.
///
/// # Cancel safety
///
/// Dropping one of these futures may or may not stop what it asked of the store; every one can be asked again.
#[async_trait]
pub trait LockAdmin: Debug + Send + Sync {
    /// The holds of one lock: none if it is free, several if it is [shared](LockMode::Shared). Changes nothing.
    ///
    /// The permits of a semaphore are locks of their own: [`list`](Self::list) those that begin with its name and `::slot:`.
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>>;

    /// The locks that are held now and whose names begin with `prefix`, ordered by name. Changes nothing. May read the
    /// whole key space of the store.
    ///
    /// On Redis, a lock that another program has set is shown by [`inspect`](Self::inspect) alone: nothing but its name tells
    /// it from any other value.
    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>>;

    /// The same from the servers that answer, and why others do not: of a cluster, a part may be down. Fails if none answers.
    async fn list_reachable(&self, prefix: &str) -> Result<(Vec<LockStatus>, Vec<Error>)> {
        Ok((self.list(prefix).await?, Vec::new()))
    }

    /// The waiters of a lock, in the order in which they will be served where there is one. Empty where the store does not
    /// know its waiters. Changes nothing.
    async fn waiters(&self, _name: &LockName) -> Result<Vec<Waiter>> {
        Ok(Vec::new())
    }

    /// Releases a lock by force, and answers its former holds; none if it was not held. With `only_if`, the hold with this token
    /// alone. Check and effect are one step, unless the store can only end the connection that holds the lock: see the
    /// backend. The token of the next grant is larger.
    ///
    /// The holder learns of it from its next renewal at the latest; until then both may work.
    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>>;

    /// Creates what the store needs, such as a table. Does nothing if it is there.
    async fn init(&self) -> Result<()>;

    /// The statements that [`init`](Self::init) would run, for people who run them with other rights. By default there are none.
    fn init_script(&self) -> Option<String> {
        None
    }

    /// Deletes what is kept of names that were not held for `idle`, and answers how many names that were; `None` if the
    /// store keeps nothing of a free name. With [`Purge::Count`] they are counted and kept. May read the whole key space of
    /// the store. Safe beside running clients: a name that is held, or is acquired meanwhile, is kept.
    ///
    /// The next token of a forgotten name is larger than its last, unless the store's clock is set back by more than `idle`.
    /// An `idle` below one hour is [`Invalid`](crate::ErrorKind::Invalid).
    async fn purge(&self, idle: Duration, purge: Purge) -> Result<Option<u64>> {
        let _ = purge;
        Purge::check_idle(idle).map(|()| None)
    }

    /// Deletes what is kept of names that are not used again, such as those of a test: their last tokens too, so that a name that
    /// is used again may be granted with a smaller token. A name that is held is kept. A store that keeps nothing of a free name
    /// may do nothing.
    async fn forget(&self, names: &[LockName]) -> Result<()>;

    /// Looks for settings, versions and permissions that weaken the promises. Changes nothing but a trial lock of its own.
    async fn check(&self) -> Result<Vec<Finding>>;
}

/// The operator's side of a client, for questions that its users ask.
pub(crate) fn admin_of<L: DistributedLock + ?Sized>(locks: &L) -> Result<&dyn LockAdmin> {
    locks.admin().ok_or_else(|| Error::new(ErrorKind::Unsupported, "this store cannot show its locks"))
}

/// The effect of [`LockAdmin::purge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purge {
    /// Count them.
    Count,
    /// Forget them.
    Delete,
}

impl Purge {
    /// Refuses an `idle` below one hour as [`Invalid`](crate::ErrorKind::Invalid). For backends, before anything else, also
    /// where nothing is kept: an argument that is wrong for one store is wrong for all.
    pub fn check_idle(idle: Duration) -> Result<()> {
        // Longer than any correction of a clock.
        let least = Duration::from_secs(3600);
        if idle >= least {
            return Ok(());
        }
        let fix = "lengthen it: a clock that is set back by more would give a token twice";
        Err(Error::invalid("idle", format_args!("{idle:?}, at least {least:?}"), fix))
    }
}

/// A hold of a lock, as its store sees it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LockStatus {
    /// The lock.
    pub name: LockName,
    /// The owner, as far as it may be shown. `None` if the lock was taken by another program, or
    /// [is released](Self::is_released).
    #[serde(serialize_with = "short_owner")]
    pub owner: Option<OwnerId>,
    /// The token of the grant. `None` if the lock was taken by another program.
    pub token: Option<FencingToken>,
    /// What the holder says about itself.
    pub holder: HolderInfo,
    /// The moment of the grant, by the store's clock; for people only.
    #[serde(rename = "acquired_at_ms", serialize_with = "unix_millis")]
    pub acquired_at: Option<SystemTime>,
    /// The time until the lease ends if it is not renewed; `None` if it never does by itself.
    #[serde(rename = "ends_in_ms", serialize_with = "millis")]
    pub ends_in: Option<Duration>,
    /// The kind of hold, which says what ends it: the end of a lease, a session or a connection.
    pub hold: HoldKind,
    /// Whether others may hold it at the same time.
    pub mode: LockMode,
}

impl LockStatus {
    /// A lock that is held on a lease, and of which only the name is known.
    pub fn new(name: LockName) -> Self {
        Self {
            name,
            owner: None,
            token: None,
            holder: HolderInfo::default(),
            acquired_at: None,
            ends_in: None,
            hold: HoldKind::Lease,
            mode: LockMode::Exclusive,
        }
    }

    /// True if its holder has released it, and it stays taken until [`ends_in`](Self::ends_in): the holder wanted it held
    /// [for a least time](crate::AcquireOptions::with_hold_at_least).
    pub fn is_released(&self) -> bool {
        // A lock of another program has no token on Redis, and no end on ZooKeeper.
        self.owner.is_none() && self.token.is_some() && self.ends_in.is_some()
    }
}

/// A waiter of a lock.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Waiter {
    /// The owner that it will be, as far as it may be shown.
    #[serde(serialize_with = "short_owner")]
    pub owner: Option<OwnerId>,
    /// What the waiter says about itself.
    pub holder: HolderInfo,
    /// For how long it has waited.
    #[serde(rename = "waiting_ms", serialize_with = "millis")]
    pub waiting: Option<Duration>,
}

impl Waiter {
    /// A waiter whose waiting time is not known.
    pub fn new(owner: Option<OwnerId>, holder: HolderInfo) -> Self {
        Self { owner, holder, waiting: None }
    }
}

/// One thing that [`LockAdmin::check`] found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// A stable code, such as `W_EVICT`.
    pub code: &'static str,
    /// The finding, in one line.
    pub message: String,
    /// The next step.
    pub help: String,
}

impl Finding {
    /// A finding.
    pub fn new(
        severity: Severity,
        code: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { severity, code, message: message.into(), help: help.into() }
    }

    /// The finding of a password that is sent unencrypted, on any store: `W_CLEAR_TEXT`.
    pub fn clear_text() -> Self {
        Self::new(
            Severity::Warning,
            "W_CLEAR_TEXT",
            "the password goes over the network as it is",
            "let nobody else read that network, or use a URL with TLS",
        )
    }
}

/// The severity of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Good to know.
    Info,
    /// A promise is weaker than it could be.
    Warning,
    /// A promise does not hold.
    Error,
}

/// `job: held by ada@web-1:4711, token 7, ends in 12.3s`.
impl fmt::Display for LockStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_released() {
            true => write!(f, "{}: released, not yet free", self.name)?,
            false => write!(f, "{}: held by {}", self.name, self.holder)?,
        }
        if self.mode != LockMode::Exclusive {
            write!(f, ", {}", self.mode)?;
        }
        if let Some(token) = self.token {
            write!(f, ", token {token}")?;
        }
        match self.ends_in {
            Some(ends_in) => write!(f, ", ends in {:.1}s", ends_in.as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// `warning W_EVICT: the server may evict locks; set maxmemory-policy to noeviction`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}; {}", self.severity, self.code, self.message, self.help)
    }
}

fn short_owner<S: Serializer>(owner: &Option<OwnerId>, serializer: S) -> Result<S::Ok, S::Error> {
    owner.map(|owner| owner.to_string()).serialize(serializer)
}

fn millis<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}

fn unix_millis<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    millis(&time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()), serializer)
}
