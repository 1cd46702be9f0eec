use crate::{LockName, OwnerId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What an acquisition asks of the store: this name, for this owner, for this long.
///
/// The same claim is tried, tried again after a lost reply, renewed and released. Backends recognise it by its
/// [`owner`](Self::owner) alone. Cheap to clone.
#[derive(Clone)]
pub struct Claim {
    name: LockName,
    owner: OwnerId,
    ttl: Duration,
    mode: LockMode,
    holder: Arc<str>,
    waits: bool,
}

/// The kind of hold. Two holds of one name conflict unless both are [`Shared`](Self::Shared).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LockMode {
    /// One owner at a time.
    #[default]
    Exclusive,
    /// As [`Exclusive`](Self::Exclusive), for the writer of a lock that has readers. A store may write it down differently.
    Write,
    /// Any number of owners at a time, and none that is not shared.
    Shared,
}

impl LockMode {
    /// True if two holds of these modes exclude each other.
    pub const fn conflicts_with(self, other: Self) -> bool {
        !(self.is_shared() && other.is_shared())
    }

    /// True for [`Shared`](Self::Shared).
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Shared)
    }
}

/// `exclusive`, `write` or `shared`.
impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Write => "write",
            Self::Shared => "shared",
        })
    }
}

impl Claim {
    /// An exclusive claim of a lease of `ttl`, not checked. `holder` is the stored form of a
    /// [`HolderInfo`](crate::HolderInfo). For tests of backends: [`LockClient`](crate::LockClient) makes and checks claims. A backend
    /// around another changes the claim that it was given: a new one has lost its mode.
    pub fn new(name: LockName, owner: OwnerId, ttl: Duration, holder: Arc<str>) -> Self {
        Self { name, owner, ttl, mode: LockMode::default(), holder, waits: false }
    }

    /// Sets the name.
    #[must_use]
    pub fn with_name(mut self, name: LockName) -> Self {
        self.name = name;
        self
    }

    /// Sets the owner.
    #[must_use]
    pub fn with_owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    /// Sets the length of the lease, not checked.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the stored form of the holder.
    #[must_use]
    pub fn with_holder(mut self, holder: Arc<str>) -> Self {
        self.holder = holder;
        self
    }

    /// Says that its owner will wait if the lock is held. Default: it makes one attempt and goes.
    #[must_use]
    pub fn with_waiting(mut self, waits: bool) -> Self {
        self.waits = waits;
        self
    }

    /// Sets the kind of hold. Default: [`Exclusive`](LockMode::Exclusive).
    #[must_use]
    pub fn with_mode(mut self, mode: LockMode) -> Self {
        self.mode = mode;
        self
    }

    /// The lock that is wanted.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The owner that wants it.
    pub fn owner(&self) -> OwnerId {
        self.owner
    }

    /// The length of the lease of each grant and renewal. [`LockClient`](crate::LockClient) rounds it up to whole milliseconds.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// [`ttl`](Self::ttl) in the unit that most stores want.
    pub fn ttl_millis(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// What kind of hold is wanted.
    pub fn mode(&self) -> LockMode {
        self.mode
    }

    /// True if its caller waits while the lock is held. Only such a claim has use for a place in a queue, or for a mark that keeps
    /// readers out.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// The holder's description, as it is stored.
    pub fn holder(&self) -> &Arc<str> {
        &self.holder
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
