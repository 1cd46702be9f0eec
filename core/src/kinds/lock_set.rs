//! Several names at once: all of them are acquired, or none.
//!
//! 1. The names are sorted and each is taken once, so that all callers have one order.
//! 2. All names are tried at once, by one attempt each. Without contention that is all: one round trip, where the store
//!    batches requests.
//! 3. At the first name that is held, or whose request fails in an outage, the locks of all larger names are given back, and those
//!    of smaller names are kept. From there on the names are acquired one after the other, each with its place among the waiters of
//!    the store.
//!
//! No deadlock: a set that waits for a name holds only smaller names, so no circle can close. A larger name stays taken until its
//! release is confirmed or its lease ends; until then another set may wait for it. No livelock: after step 3, a lock is
//! acquired again only if it, or a smaller name, was lost meanwhile. One deadline covers all steps.

use super::deadline::Deadline;
use crate::client::{no_answer, runtime};
use crate::guard::{Hold, HoldStatus};
use crate::{
    AcquireOptions, DistributedLock, Error, ErrorKind, FencingToken, IntoLockName, LockGuard, LockName, Loss,
    Result, Wait,
};
use futures_util::future::{BoxFuture, join_all, select_all};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The locks of several names, all of which are held: see [`acquire_all`](crate::DistributedLockExt::acquire_all).
///
/// It dereferences to one [`LockGuard`] for the whole set: held while all locks are, at risk if one is. An extension is sent for
/// each lock; after an error some may be extended. The loss of one lock is the loss of the set, and [`Loss::lock`] says which was lost;
/// the other locks stay held until this guard ends, because their holder may still be cleaning up. That guard's own
/// [`name`](crate::Lease::name) and [`token`](crate::Lease::token) are those of the first lock: for a name of the set ask
/// [`token`](Self::token).
///
/// Dropping it releases all locks in the background, beginning with the last.
#[must_use = "the locks are released when their guard is dropped: keep it in a variable while you work"]
pub struct LockSetGuard {
    guard: LockGuard,
    set: Arc<SetHold>,
}

/// The names of a set in their order, each once.
pub(crate) fn checked_names<N: IntoLockName>(names: impl IntoIterator<Item = N>) -> Result<Vec<LockName>> {
    let names: BTreeSet<LockName> = names.into_iter().map(N::into_lock_name).collect::<Result<_>>()?;
    let limit = LockSetGuard::MAX_NAMES;
    match names.len() {
        0 => Err(Error::invalid("set of locks", "it has no name", "give it at least one")),
        count if count > limit => {
            let problem = format_args!("{count} names, limit {limit}");
            Err(Error::invalid("set of locks", problem, "take one lock for all of them, or fewer names"))
        }
        _ => Ok(names.into_iter().collect()),
    }
}

/// Acquires these names, which are sorted and distinct.
pub(crate) async fn acquire_all<L: DistributedLock + ?Sized>(
    locks: &L,
    names: Vec<LockName>,
    options: &AcquireOptions,
) -> Result<LockSetGuard> {
    options.check()?;
    runtime()?;
    if !options.hold_at_least.is_zero() {
        let fix = "leave it out: a lock that is given back while a set is acquired must be free at once";
        return Err(Error::invalid("hold_at_least", "a set of locks cannot have it", fix));
    }
    let deadline = Deadline::start(options.wait);
    let (mut held, mut was_answered) = match names.len() {
        1 => (Vec::new(), false),
        _ => try_all(locks, &names, options, &deadline).await?,
    };
    loop {
        // A lock may be lost while the set waits for another one.
        if let Some(first_lost) = held.iter().position(|guard| !guard.is_held()) {
            held.truncate(first_lost);
        }
        let Some(name) = names.get(held.len()) else { return Ok(LockSetGuard::new(held)) };
        // A set of one name asks at least once, as a lock does.
        let remaining = if names.len() == 1 { Some(options.wait) } else { deadline.remaining() };
        let wait = remaining.ok_or_else(|| {
            deadline
                .timed_out(format_args!("lock {name:?} of a set was not acquired"))
                .with_help("wait longer, or look at who holds the names before it")
        })?;
        let mut waiting = options.clone().with_wait(wait);
        waiting.was_answered = was_answered;
        held.push(locks.acquire_named(name, &waiting).await.map_err(|error| with_lock_name(error, name))?);
        was_answered = true;
    }
}

/// One attempt for each name. Returns the guards of the names before the first that was not granted, and gives the others back;
/// and whether the store has answered for any name.
async fn try_all<L: DistributedLock + ?Sized>(
    locks: &L,
    names: &[LockName],
    options: &AcquireOptions,
    deadline: &Deadline,
) -> Result<(Vec<LockGuard>, bool)> {
    let once = options.clone().with_wait(Wait::No);
    let attempts = join_all(names.iter().map(|name| locks.acquire_named(name, &once)));
    let out_of_time = || no_answer(options.wait.time()).context(format_args!("locks {names:?}"));
    let outcomes = deadline.run(attempts).await.ok_or_else(out_of_time)?;
    let was_answered = outcomes.iter().any(|outcome| outcome.as_ref().err().is_none_or(Error::is_contended));
    let (mut held, mut failures) = (Vec::with_capacity(names.len()), Vec::new());
    for (name, outcome) in names.iter().zip(outcomes) {
        match outcome {
            Ok(guard) if failures.is_empty() => held.push(guard),
            // A larger name than one that was not granted: its lock is released in the background.
            Ok(_) => {}
            Err(error) => failures.push(with_lock_name(error, name)),
        }
    }
    // For a single attempt, an unknown outcome of one lock is not hidden behind another that is held.
    let rank = |error: &Error| (!error.is_retryable(), error.is_indeterminate(), error.is_outage());
    match failures.into_iter().max_by_key(rank) {
        Some(error) if options.wait == Wait::No || !error.is_retryable() => Err(error),
        _ => Ok((held, was_answered)),
    }
}

/// Puts the lock in front of an error. Contention names its lock by itself.
fn with_lock_name(error: Error, name: &LockName) -> Error {
    if error.is_contended() { error } else { error.context(format_args!("lock {name:?} of a set")) }
}

impl LockSetGuard {
    /// The largest set.
    pub const MAX_NAMES: usize = 64;

    fn new(guards: Vec<LockGuard>) -> Self {
        let holds = guards.into_iter().map(LockGuard::into_hold).collect();
        let set = Arc::new(SetHold { holds, loss: OnceLock::new() });
        Self { guard: LockGuard::new(Arc::clone(&set) as Arc<dyn Hold>), set }
    }

    /// The names, in the order in which they were acquired.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &LockName> {
        self.set.holds.iter().map(|hold| hold.name())
    }

    /// The fencing token of one name, to be passed to what that lock protects.
    ///
    /// # Errors
    ///
    /// [`Lost`](ErrorKind::Lost) once the set is not held any more; [`Invalid`](ErrorKind::Invalid) for a name not in it.
    pub fn token(&self, name: impl AsRef<str>) -> Result<FencingToken> {
        let name = name.as_ref();
        let found = self.tokens()?.find(|(held, _)| *held == name);
        let missing =
            || Error::invalid("lock name", format_args!("{name:?} is not in the set"), "acquire it too");
        found.map(|(_, token)| token).ok_or_else(missing)
    }

    /// All names, each with its fencing token; [`Lost`](ErrorKind::Lost) once the set is not held any more.
    pub fn tokens(&self) -> Result<impl ExactSizeIterator<Item = (&LockName, FencingToken)>> {
        self.guard.token()?;
        Ok(self.set.holds.iter().map(|hold| (hold.name(), hold.token())))
    }

    /// Releases all locks, beginning with the last, and waits for the store's confirmations.
    ///
    /// # Errors
    ///
    /// As of [`LockGuard::release`], naming the lock: [`Lost`](ErrorKind::Lost) if one was lost, else the first failure. Every
    /// lock is released in either case.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any time, the releases go on in the background.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }
}

/// The guard of the whole set, for code that takes any guard.
impl From<LockSetGuard> for LockGuard {
    fn from(set: LockSetGuard) -> Self {
        set.guard
    }
}

impl Deref for LockSetGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl fmt::Debug for LockSetGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The holds of a set as one hold, for its guard. Name and token are those of the first lock.
#[derive(Debug)]
struct SetHold {
    holds: Vec<Arc<dyn Hold>>,
    /// The first loss that was seen.
    loss: OnceLock<Loss>,
}

impl SetHold {
    /// The failure to answer with: a loss first, because it alone says that the work was not covered.
    fn first_failure<'a>(
        &self,
        outcomes: impl Iterator<Item = (&'a Arc<dyn Hold>, Result<()>)>,
    ) -> Result<()> {
        if let HoldStatus::Lost(loss) = self.status() {
            return Err(loss.into());
        }
        let failures =
            outcomes.filter_map(|(hold, outcome)| Some(with_lock_name(outcome.err()?, hold.name())));
        failures.min_by_key(|error| error.kind() != ErrorKind::Lost).map_or(Ok(()), Err)
    }
}

impl Hold for SetHold {
    fn name(&self) -> &LockName {
        self.holds[0].name()
    }

    fn token(&self) -> FencingToken {
        self.holds[0].token()
    }

    /// A loss outweighs a release.
    fn status(&self) -> HoldStatus {
        if let Some(loss) = self.loss.get() {
            return HoldStatus::Lost(loss.clone());
        }
        let (mut min_remaining, mut is_at_risk, mut is_released) = (Duration::MAX, false, false);
        for hold in &self.holds {
            match hold.status() {
                HoldStatus::Held { remaining, at_risk } => {
                    min_remaining = min_remaining.min(remaining);
                    is_at_risk |= at_risk;
                }
                HoldStatus::Lost(mut loss) => {
                    loss.lock = Some(hold.name().clone());
                    return HoldStatus::Lost(self.loss.get_or_init(|| loss).clone());
                }
                HoldStatus::Released => is_released = true,
            }
        }
        match is_released {
            true => HoldStatus::Released,
            false => HoldStatus::Held { remaining: min_remaining, at_risk: is_at_risk },
        }
    }

    fn ended(self: Arc<Self>) -> BoxFuture<'static, Option<Loss>> {
        Box::pin(async move {
            select_all(self.holds.iter().map(|hold| Arc::clone(hold).ended())).await;
            match self.status() {
                HoldStatus::Lost(loss) => Some(loss),
                HoldStatus::Held { .. } | HoldStatus::Released => None,
            }
        })
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            if let HoldStatus::Lost(loss) = self.status() {
                return Err(loss.into());
            }
            let outcomes = join_all(self.holds.iter().map(|hold| Arc::clone(hold).extend(ttl))).await;
            self.first_failure(self.holds.iter().zip(outcomes))
        })
    }

    fn release(self: Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let releases = join_all(self.holds.iter().rev().map(|hold| Arc::clone(hold).release()));
        Box::pin(async move { self.first_failure(self.holds.iter().rev().zip(releases.await)) })
    }

    fn abandon(self: Arc<Self>) {
        self.holds.iter().rev().cloned().for_each(Hold::abandon);
    }
}
