//! The values that pass between a backend and the core, and what becomes of each.

use leasehold_core::{
    Attempt, Fairness, FencingToken, LockMode, LockName, LockStatus, LossSignal, OwnerId, Release, Renewal,
    Result, Semantics, Waiter, WakeUp,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// What becomes of each value. [`SOUND`] changes none.
#[derive(Clone, Copy)]
pub(crate) struct Values {
    pub(crate) name: fn(&str) -> String,
    pub(crate) owner: fn(u128) -> u128,
    pub(crate) holder: fn(&str) -> String,
    pub(crate) granted_mode: fn(LockMode) -> LockMode,
    pub(crate) renewed_mode: fn(LockMode) -> LockMode,
    pub(crate) released_mode: fn(LockMode) -> LockMode,
    pub(crate) granted_for: fn(Duration) -> Duration,
    pub(crate) renewed_for: fn(Duration) -> Duration,
    pub(crate) lingers_for: fn(Duration) -> Duration,
    /// The longest lease that the store may make of a ttl, as its subject declares.
    pub(crate) lease: fn(Duration) -> Duration,
    pub(crate) attempt: fn(Result<Attempt>) -> Result<Attempt>,
    pub(crate) renewal: fn(Renewal) -> Result<Renewal>,
    pub(crate) renewals: fn(Vec<Result<Renewal>>) -> Vec<Result<Renewal>>,
    pub(crate) release: fn(Release) -> Result<Release>,
    pub(crate) token: fn(u64) -> u64,
    pub(crate) status: fn(Option<LockStatus>) -> Option<LockStatus>,
    /// All holds of one name.
    pub(crate) statuses: fn(Vec<LockStatus>) -> Vec<LockStatus>,
    pub(crate) list: fn(Vec<LockStatus>) -> Vec<LockStatus>,
    pub(crate) prefix: fn(&str) -> String,
    pub(crate) only_if: fn(Option<FencingToken>) -> Option<FencingToken>,
    pub(crate) forced: fn(Option<LockStatus>) -> Option<LockStatus>,
    pub(crate) semantics: fn(Semantics) -> Semantics,
    /// When a waiter is told to ask again.
    pub(crate) hints: Hints,
    /// What the store keeps a name under, with its prefix.
    pub(crate) stored: fn(&str, &str) -> String,
    /// The claims whose values are changed.
    pub(crate) of_mode: fn(LockMode) -> bool,
    pub(crate) group: fn(u128) -> u64,
    /// Makes the store tell of holds that are ended by force.
    pub(crate) suspects: Option<Suspects>,
    /// Makes the store tell so often, whatever happens.
    pub(crate) suspects_every: Option<Duration>,
    /// True for a store that serves its waiters in their order.
    pub(crate) has_queue: bool,
    pub(crate) waiters: fn(&Queues, &LockName) -> Vec<Waiter>,
}

/// When waiters are told to ask again.
#[derive(Clone, Copy)]
pub(crate) enum Hints {
    Never,
    /// After so long, whatever happens.
    Always(Duration),
    /// When a lock is freed, so much later: their own, or another one.
    Freed {
        late: Duration,
        of_others: bool,
    },
    /// Once, and too early.
    Once,
}

/// The cases of waiters that are told, and of one that waits alone: in virtual time, all who are told ask at one instant, and it is
/// always the same one who is first.
pub(crate) const OF_HINTS: &str = "A07 H01 H07";

/// A store that tells its waiters.
pub(crate) const HINTING: Values = Values {
    hints: Hints::Freed { late: Duration::ZERO, of_others: false },
    semantics: |mut semantics| {
        semantics.wake_up = WakeUp::Push { fallback: Duration::from_millis(500) };
        semantics
    },
    ..SOUND
};

/// The owners that are told to renew, of one whose hold was ended and of all that hold.
pub(crate) type Suspects = fn(OwnerId, Vec<OwnerId>) -> Vec<OwnerId>;

/// The waiters of each name, in the order of their arrival.
pub(crate) type Queues = BTreeMap<LockName, Vec<Waiter>>;

pub(crate) const SOUND: Values = Values {
    name: str::to_owned,
    owner: |owner| owner,
    holder: str::to_owned,
    granted_mode: |mode| mode,
    renewed_mode: |mode| mode,
    released_mode: |mode| mode,
    granted_for: |ttl| ttl,
    renewed_for: |ttl| ttl,
    lingers_for: |time| time,
    lease: |ttl| ttl,
    attempt: |attempt| attempt,
    renewal: Ok,
    renewals: |answers| answers,
    release: Ok,
    token: |token| token,
    status: |status| status,
    statuses: |holds| holds,
    list: |list| list,
    prefix: str::to_owned,
    only_if: |token| token,
    forced: |status| status,
    semantics: |semantics| semantics,
    hints: Hints::Never,
    stored: |prefix, name| [prefix, name].concat(),
    of_mode: |_| true,
    group: |_| 0,
    suspects: None,
    suspects_every: None,
    has_queue: false,
    waiters: |queues, name| queues.get(name).cloned().unwrap_or_default(),
};

/// A store that may keep a lease for up to a second more than whole seconds, and in fact ends it as early as it may.
pub(crate) const COARSE_AND_EARLY: Values = Values { lease: whole_seconds_and_one, ..SOUND };

/// The same, and it ends a lease as late as it may.
pub(crate) const COARSE_AND_LATE: Values = Values {
    granted_for: whole_seconds_and_one,
    renewed_for: whole_seconds_and_one,
    lingers_for: |time| if time.is_zero() { time } else { whole_seconds_and_one(time) },
    ..COARSE_AND_EARLY
};

fn whole_seconds_and_one(time: Duration) -> Duration {
    Duration::from_secs(time.as_millis().div_ceil(1_000) as u64 + 1)
}

/// A store that tells of losses.
pub(crate) const TELLING: Values = Values {
    suspects: Some(|owner, _| vec![owner]),
    semantics: |mut semantics| {
        semantics.loss_signal = LossSignal::Push;
        semantics
    },
    ..SOUND
};

/// A store with a queue.
pub(crate) const QUEUED: Values = Values {
    has_queue: true,
    semantics: |mut semantics| {
        semantics.fairness = Fairness::Fifo;
        semantics
    },
    ..SOUND
};
