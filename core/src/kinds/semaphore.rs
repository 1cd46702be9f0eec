//! Semaphores: one name, and at most N holders of it at a time.
//!
//! The store sees exclusive locks alone: one *slot* for each permit, and a *gate*. So a permit keeps every promise of a lock.
//!
//! * **Order.** A waiter acquires the gate, in the order of the store. The owner of the gate takes a free slot, or waits for one, and
//!   releases the gate.
//! * **No herd.** The owner of the gate is the only one that waits for slots. It waits for all of them at once: the first grant
//!   counts, and the other claims are withdrawn, as those of any dropped acquisition.
//! * **The fast path** needs no gate, where the store promises no order: a task that finds no other task of its semaphore waiting
//!   tries one slot before it asks for the gate, so that permit costs as much as a lock.
//! * **A waiter that no task polls** keeps nothing for long: the gate is a fixed lease that only the owner's own future extends, and
//!   a slot that is granted has a short lease until the waiter has asked for a whole one.
//! * **The gate protects the order alone.** If two clients believe that they own it, each of them still gets a slot of its own.

use super::deadline::Deadline;
use crate::admin::admin_of;
use crate::client::no_answer;
use crate::lock_ext::none_if_busy;
use crate::sync::Mutex;
use crate::{
    AcquireOptions, DistributedLock, Error, ErrorKind, Fairness, HoldKind, Lease, LockGuard, LockMode,
    LockName, Result, Wait, locked,
};
use futures_util::stream::{FuturesUnordered, iter};
use futures_util::{StreamExt, TryStreamExt};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

/// The longest lease of the gate, and of a slot that a waiter was granted and has not seen: what a waiter that has crashed, or that
/// no task polls, costs the others.
const MAX_WAITING_TTL: Duration = Duration::from_secs(3);
/// How many slots the owner of the gate tries one by one, before it waits for all of them at once.
const MAX_SEQUENTIAL_TRIES: usize = 8;
const LOOKS_AT_ONCE: usize = 8;

/// A lock that has room for several holders: connections to a service, licences, workers of one kind.
///
/// Made by [`DistributedLockExt::semaphore`](crate::DistributedLockExt::semaphore), on every store. A permit is a [`LockGuard`]
/// and an exclusive hold of one of N slots, so it is renewed, lost and released as a lock is. To fence a resource, compare the
/// [token](Lease::token) with those of the same [slot](Lease::slot) only: each slot counts for itself.
///
/// ```
/// # use leasehold_core::{DistributedLockExt, LockClient};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
/// # let locks = LockClient::in_memory();
/// let licences = locks.semaphore("licences", 2)?;
/// let first = licences.acquire().await?;
/// let second = licences.acquire().await?;
/// assert_ne!(first.slot(), second.slot());
/// assert!(licences.try_acquire().await?.is_none(), "both are in use");
/// first.release().await?;
/// assert!(licences.try_acquire().await?.is_some());
/// # Ok(()) }
/// ```
///
/// **Order.** Waiters are served in the [order of the store](crate::Fairness). A single attempt does not stand in line.
///
/// **Callers that name different numbers** of permits share the slots that both know: a caller with 3 sees the slots 0 to 2, a
/// caller with 5 the slots 0 to 4, and there are never more than five holders. They wait in one line, so a caller with 3 that is
/// first may keep a caller with 5 waiting while slot 3 is free.
///
/// **A semaphore is not a lock of the same name.** The two do not exclude each other.
///
/// Not promised: several permits in one step; that the lowest free slot is taken; an order if the first waiter crashes, pauses, or is
/// polled by no task. The others then wait until its gate ends, after the shorter of its lease and 3 s, or with its session or
/// connection: there, an acquisition that waits must be polled or dropped. A store that hands over may give the slots that come
/// free meanwhile to such a waiter, each for the same time.
///
/// Cheap to clone. The clones, and no others, know which permits this one gave, and try free slots first.
#[derive(Clone, Debug)]
pub struct Semaphore {
    locks: Arc<dyn DistributedLock>,
    name: LockName,
    gate: LockName,
    slots: Arc<[LockName]>,
    /// The last permit of each slot that this semaphore gave: a slot is not free while it is held, and likely free afterwards.
    last_permits: Arc<Mutex<Vec<Option<Lease>>>>,
    /// The tasks that wait in line through this semaphore.
    waiters: TaskTracker,
}

impl Semaphore {
    /// The largest number of permits. A waiter may have to ask the store for each slot, and above this that takes too long.
    pub const MAX_PERMITS: u32 = 1000;

    pub(crate) fn new(locks: Arc<dyn DistributedLock>, name: LockName, permits: u32) -> Result<Self> {
        if permits == 0 || permits > Self::MAX_PERMITS {
            let problem = format_args!("{permits}, from 1 to {}", Self::MAX_PERMITS);
            return Err(Error::invalid("number of permits", problem, "choose a number in this range"));
        }
        let slots = (0..permits).map(|slot| name.of_slot(slot)).collect::<Result<Arc<[_]>>>()?;
        let last_permits = Arc::new(Mutex::new(vec![None; slots.len()]));
        Ok(Self { locks, gate: name.gate()?, name, slots, last_permits, waiters: TaskTracker::new() })
    }

    /// The name of the semaphore.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The number of permits.
    pub fn permits(&self) -> u32 {
        // At most `MAX_PERMITS`.
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Acquires a permit with the [defaults](DistributedLock::defaults) of the client, as [`acquire_with`](Self::acquire_with)
    /// does.
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.acquire_with(self.locks.defaults()).await
    }

    /// Makes one attempt on each slot that no permit of this semaphore holds, with the defaults of the client: `None` if each was
    /// held when it was asked for. Keep the result in a variable, or the permit is released at once. Errors and cancel safety
    /// are those of [`acquire_with`](Self::acquire_with).
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        none_if_busy(self.acquire_timeout(Duration::ZERO).await)
    }

    /// Acquires a permit, but waits for at most this time. Zero is one attempt. Errors and cancel safety are those of
    /// [`acquire_with`](Self::acquire_with).
    pub async fn acquire_timeout(&self, wait: Duration) -> Result<LockGuard> {
        self.acquire_with(&self.locks.defaults().clone().with_wait(wait)).await
    }

    /// The number of permits that are free. It is late by nature, because others acquire and release meanwhile; it costs a request for
    /// each slot. Errors and cancel safety are those of [`Election::leader`](crate::Election::leader).
    pub async fn available(&self) -> Result<u32> {
        let admin = admin_of(&*self.locks)?;
        let looks: Vec<_> = self.slots.iter().map(|slot| admin.inspect(slot)).collect();
        let count_free = |free: u32, holds: Vec<_>| async move { Ok(free + u32::from(holds.is_empty())) };
        iter(looks).buffer_unordered(LOOKS_AT_ONCE).try_fold(0, count_free).await
    }

    /// Acquires a permit with these options. The ttl, `max_hold` and `hold_at_least` are those of the permit; one deadline covers
    /// the gate and the slots.
    ///
    /// # Errors
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named); [`Invalid`](ErrorKind::Invalid) for a
    /// [mode](AcquireOptions::with_mode) other than exclusive.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop at any time, as [`acquire_named`](DistributedLock::acquire_named): what the gate and the slots may have
    /// granted is released in the background.
    pub async fn acquire_with(&self, options: &AcquireOptions) -> Result<LockGuard> {
        options.check()?;
        if options.mode != LockMode::Exclusive {
            let problem = format_args!("{}, for a permit of a semaphore", options.mode);
            return Err(Error::invalid("mode", problem, "leave it out: a permit is an exclusive hold"));
        }
        let deadline = Deadline::start(options.wait);
        let permit = match options.wait {
            Wait::No => self
                .try_slots(options, self.slots.len())
                .await
                .and_then(|permit| permit.ok_or_else(|| self.all_held())),
            Wait::UpTo(_) | Wait::Forever => self.acquire_with_wait(options, &deadline).await,
        };
        permit.map_err(|error| match error.kind() {
            ErrorKind::TimedOut => self.timed_out(&deadline),
            ErrorKind::Busy => error,
            _ => error.context(format_args!("semaphore {:?}", self.name)),
        })
    }

    /// Tries one slot, where that needs no place in line. Then waits for the gate, and as its owner for a slot. The gate is
    /// released at the end of this function, in the background.
    async fn acquire_with_wait(&self, options: &AcquireOptions, deadline: &Deadline) -> Result<LockGuard> {
        let mut wait = options.wait;
        if self.waiters.is_empty() && self.locks.semantics().fairness == Fairness::Unordered {
            match self.try_within(deadline, options, 1).await? {
                ControlFlow::Break(permit) => return Ok(permit),
                ControlFlow::Continue(remaining) => wait = remaining,
            }
        }
        let _waiter = self.waiters.token();
        let gate_options = self.gate_options(options).with_wait(wait);
        let gate = self.locks.acquire_named(&self.gate, &gate_options).await?;
        let mut options = options.clone();
        // It has granted the gate.
        options.was_answered = true;
        let acquire_slot = async {
            match self.try_within(deadline, &options, MAX_SEQUENTIAL_TRIES).await? {
                ControlFlow::Break(permit) => Ok(permit),
                ControlFlow::Continue(remaining) => {
                    let mut options = options.clone().with_wait(remaining);
                    options.max_waiting_ttl = MAX_WAITING_TTL;
                    self.wait_for_any_slot(&options, deadline).await
                }
            }
        };
        tokio::select! {
            biased;
            permit = acquire_slot => permit,
            never = extend_gate(&gate, gate_options.ttl) => match never {},
        }
    }

    /// One attempt on each of at most so many slots: a permit, or the wait that is left. A failure that may be waited out ends the
    /// attempts, and is an error only if no time remains.
    async fn try_within(
        &self,
        deadline: &Deadline,
        options: &AcquireOptions,
        at_most: usize,
    ) -> Result<ControlFlow<LockGuard, Wait>> {
        let one_attempt = options.clone().with_wait(Wait::No);
        let failure = match deadline.run(self.try_slots(&one_attempt, at_most)).await {
            Some(Ok(Some(permit))) => return Ok(ControlFlow::Break(permit)),
            Some(Ok(None)) => None,
            Some(Err(error)) if error.is_outage() || (options.was_answered && error.may_pass()) => {
                Some(error)
            }
            Some(Err(error)) => return Err(error),
            None => Some(no_answer(options.wait.time())),
        };
        let out_of_time = || failure.unwrap_or_else(|| self.timed_out(deadline));
        deadline.remaining().map(ControlFlow::Continue).ok_or_else(out_of_time)
    }

    /// One attempt on each slot that is not held by a permit of this semaphore, one after the other, at most so many. The first
    /// error other than busy ends it.
    async fn try_slots(&self, options: &AcquireOptions, at_most: usize) -> Result<Option<LockGuard>> {
        for slot in self.slots_to_try().into_iter().take(at_most) {
            match self.acquire_slot(slot, options).await {
                Err(error) if error.kind() == ErrorKind::Busy => {}
                outcome => return outcome.map(Some),
            }
        }
        Ok(None)
    }

    /// The slots that are not held by a permit of this semaphore. First those that were, and are likely free; then the others from
    /// a random one on, so that clients do not all ask for the same slot.
    fn slots_to_try(&self) -> Vec<usize> {
        let (permits, count) = (locked(&self.last_permits).clone(), self.slots.len());
        let first = fastrand::usize(..count);
        let is_held = |slot: &usize| permits[*slot].as_ref().is_some_and(Lease::is_held);
        let mut slots: Vec<usize> =
            (first..first + count).map(|slot| slot % count).filter(|slot| !is_held(slot)).collect();
        slots.sort_by_key(|slot| permits[*slot].is_none());
        slots
    }

    async fn wait_for_any_slot(&self, options: &AcquireOptions, deadline: &Deadline) -> Result<LockGuard> {
        let mut failure = None;
        let mut waits: FuturesUnordered<_> =
            (0..self.slots.len()).map(|slot| self.acquire_slot(slot, options)).collect();
        while let Some(outcome) = waits.next().await {
            match outcome {
                // Other slots may be free, or on other servers. At the end, an unknown outcome of one comes before the
                // outage of another, and that before a slot that stayed held.
                Err(error) if error.is_retryable() => {
                    let rank = |error: &Error| (error.is_indeterminate(), error.is_outage());
                    failure = failure.into_iter().chain([error]).max_by_key(rank);
                }
                outcome => return outcome,
            }
        }
        Err(failure.unwrap_or_else(|| self.timed_out(deadline)))
    }

    async fn acquire_slot(&self, slot: usize, options: &AcquireOptions) -> Result<LockGuard> {
        let permit = self.locks.acquire_named(&self.slots[slot], options).await?;
        locked(&self.last_permits)[slot] = Some(permit.lease());
        Ok(permit)
    }

    /// A lease of the gate is extended by its owner. A session or a connection lasts by itself.
    fn gate_options(&self, options: &AcquireOptions) -> AcquireOptions {
        let mut gate =
            options.clone().with_ttl(options.ttl.min(MAX_WAITING_TTL)).with_max_hold(Duration::MAX);
        gate.renewed = self.locks.semantics().hold != HoldKind::Lease;
        gate.hold_at_least = Duration::ZERO;
        gate
    }

    fn all_held(&self) -> Error {
        let message = format!("all {} permits of semaphore {:?} are held", self.slots.len(), self.name);
        Error::new(ErrorKind::Busy, message).with_help(HELP)
    }

    fn timed_out(&self, deadline: &Deadline) -> Error {
        let what = format_args!("no permit of semaphore {:?} came free for this waiter", self.name);
        deadline.timed_out(what).with_help(HELP)
    }
}

const HELP: &str = "wait longer, or look at the holders of its slots";

/// Extends the gate for as long as this future is polled. A gate that was lost is not asked for again: that costs the order alone.
async fn extend_gate(gate: &LockGuard, ttl: Duration) -> Infallible {
    loop {
        // After a third of the lease, and after a failure soon again.
        tokio::time::sleep(gate.remaining().saturating_sub(ttl * 2 / 3).max(ttl / 15)).await;
        // An extension that is not answered in time does not hold up the next.
        let _ = tokio::time::timeout(ttl / 3, gate.extend(ttl)).await;
    }
}
