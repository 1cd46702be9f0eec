//! The wait queue: the tasks of one client that want one name stand in line.
//!
//! For stores that serve waiters in no order: SQL, Redlock and memory. On Redis, etcd and ZooKeeper each task waits in the store's queue.
//!
//! The first in line polls the store, or waits for its hint; the others wait for the first, and a release by this client wakes the
//! first at once, with the readers that follow it if it is a reader. A wake-up is a hint, and a grant is always the store's. A
//! single attempt does not stand in line.
//!
//! * A waiter that is polled misses no release of its own client: [`join`](WaitQueues::join) sees a release before it by the
//!   counter, and a notification that comes while it asks is kept. While it is not polled, the next release wakes the waiter
//!   behind it.
//! * A waiter behind the first asks by itself once no task in line has asked for [`FALLBACK`], or for two intervals of the first
//!   if these are longer: a task that is never polled delays the others by that at most, and the number of questions does not grow
//!   with the number of waiters. Each waiter asks at least once before its deadline.
//! * A waiter that was first, or was woken, and leaves without a grant passes the wake-up on, also while the line yields. A first
//!   reader that is granted wakes the readers behind it.
//! * After its longest streak the line yields: for a pause, neither a release nor a hint nor a timer lets a waiter ask, and waiters
//!   of other processes get their turn.

use crate::sync::{AtomicBool, AtomicU64, Mutex};
use crate::{Claim, Clock, Fairness, LockName, Moment, Semantics, WakeUp, locked};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::sync::Notify;

/// The least time without a question of any waiter in line after which a waiter behind others asks.
pub(crate) const FALLBACK: Duration = Duration::from_millis(500);
/// How long, at least, the tasks of one client pass a lock among themselves before other processes get their turn.
const LEAST_STREAK: Duration = Duration::from_millis(100);
/// The time in which a store's message reaches the waiters of other processes, and a request of theirs the store.
const MESSAGE_TIME: Duration = Duration::from_millis(20);

/// The wait queues of one client, by name.
pub(crate) struct WaitQueues {
    is_enabled: bool,
    /// How long the tasks of one client pass a lock among themselves.
    longest_streak: Duration,
    /// The pause after a streak is the streak divided by this, at most the longest: in it, other processes notice the release.
    pause_divisor: u32,
    longest_pause: Duration,
    /// The time without a question after which a waiter behind others asks.
    fallback: Duration,
    queues: Mutex<HashMap<LockName, WaitQueue>>,
    /// The number of releases, of any name. A release between an attempt and [`join`](Self::join) wakes the waiter that
    /// joins.
    releases: AtomicU64,
}

/// Exists while tasks wait for the name, and after the last of them was granted, until its release.
#[derive(Default)]
struct WaitQueue {
    line: VecDeque<Arc<QueuedWaiter>>,
    /// When the first grant of the present streak came. Kept over a release that wakes a waiter of this client.
    streak_since: Option<Moment>,
    /// Until then the line yields to other processes.
    yields_until: Moment,
    /// When a task in line asked last.
    asked_at: Option<Moment>,
}

#[derive(Default)]
struct QueuedWaiter {
    is_reader: bool,
    /// It was woken to ask, or has become the first in line.
    notify: Notify,
    /// True from its wake-up until it asks.
    woken: AtomicBool,
}

impl WaitQueues {
    pub(crate) fn new(semantics: &Semantics) -> Self {
        // Waiters that poll by themselves notice a release after one interval. Pollers of SQL look the sooner the shorter a lock was
        // held, and messages come at once.
        let (longest_pause, pause_divisor, first_asks_every, longest_streak) = match semantics.wake_up {
            WakeUp::Poll { at_most } => (at_most, 2, at_most, LEAST_STREAK.max(at_most.saturating_mul(2))),
            WakeUp::Look { at_most, fallback } => (at_most, 8, fallback, LEAST_STREAK),
            WakeUp::Push { fallback } => (MESSAGE_TIME, 8, fallback, LEAST_STREAK),
        };
        Self {
            is_enabled: semantics.fairness == Fairness::Unordered,
            longest_streak,
            pause_divisor,
            longest_pause,
            fallback: FALLBACK.max(first_asks_every.saturating_mul(2)),
            queues: Mutex::default(),
            releases: AtomicU64::new(0),
        }
    }

    /// How many releases there were, for [`join`](Self::join). Read before the attempt.
    pub(crate) fn releases(&self) -> u64 {
        self.releases.load(SeqCst)
    }

    /// A place at the end of the line of this name, for a waiter whose attempt was refused. `None` if the store keeps
    /// the queue. A newcomer that is woken asks once, also while the line yields.
    pub(crate) fn join(&self, claim: &Claim, releases_before_attempt: u64) -> Option<Place<'_>> {
        if !self.is_enabled {
            return None;
        }
        let mut queues = locked(&self.queues);
        let mut place = self.enter(queues.entry(claim.name().clone()).or_default(), claim);
        drop(queues);
        if self.releases() != releases_before_attempt {
            place.waiter.woken.store(true, SeqCst);
            place.waiter.notify.notify_one();
            place.wake_up_is_guess = true;
        }
        Some(place)
    }

    /// A place behind others, if there are any: a newcomer that may wait does not ask the store before them.
    pub(crate) fn join_behind_others(&self, claim: &Claim) -> Option<Place<'_>> {
        if !self.is_enabled {
            return None;
        }
        let mut queues = locked(&self.queues);
        let queue = queues.get_mut(claim.name()).filter(|queue| !queue.line.is_empty())?;
        Some(self.enter(queue, claim))
    }

    fn enter(&self, queue: &mut WaitQueue, claim: &Claim) -> Place<'_> {
        let waiter =
            Arc::new(QueuedWaiter { is_reader: claim.mode().is_shared(), ..QueuedWaiter::default() });
        queue.line.push_back(Arc::clone(&waiter));
        Place {
            queues: self,
            name: claim.name().clone(),
            waiter,
            wake_up_is_guess: false,
            asks_after_wake_up: false,
            is_granted: false,
        }
    }

    /// A cleanup is over: a release of this client was answered, or given up. Wakes the first that was not woken before, and
    /// the readers that follow a reader, unless the line yields to other processes.
    ///
    /// The release of a reader wakes no waiter behind one that was woken: that one waits for the readers that are left, and
    /// another reader would pass it.
    pub(crate) fn released(&self, claim: &Claim, clock: &dyn Clock) {
        let name = claim.name();
        if !self.is_enabled {
            return;
        }
        self.releases.fetch_add(1, SeqCst);
        if !locked(&self.queues).contains_key(name) {
            return;
        }
        // The clock and the wakers may be foreign code: they are called outside the mutex, and the clock only where tasks wait.
        let now = clock.now();
        let mut queues = locked(&self.queues);
        let Some(queue) = queues.get_mut(name) else { return };
        let streak_since = queue.streak_since.take();
        if queue.line.is_empty() {
            queues.remove(name);
        } else if now < queue.yields_until {
            // The lock was acquired by a waiter that asked as the pause began. The pause goes on.
        } else if let Some(streak) =
            streak_since.map(|since| now.since(since)).filter(|streak| *streak >= self.longest_streak)
        {
            queue.yields_until = now.plus((streak / self.pause_divisor).min(self.longest_pause));
            // The first is notified without a wake-up: it sets its timer to the end of the pause.
            let first = queue.line.front().cloned();
            drop(queues);
            notify(first.as_slice());
        } else {
            queue.streak_since = streak_since;
            let is_first_woken = queue.line.front().is_some_and(|first| first.woken.load(SeqCst));
            let waits_for_readers = claim.mode().is_shared() && is_first_woken;
            let next = if waits_for_readers { Vec::new() } else { queue.mark_next_woken() };
            drop(queues);
            notify(&next);
        }
    }
}

impl WaitQueue {
    /// The first that was not woken before, marked as woken: a waiter that was woken, and has not asked since, may never be
    /// polled. If it is a reader, with the readers behind it. The caller notifies them, after it has released the lock.
    fn mark_next_woken(&self) -> Vec<Arc<QueuedWaiter>> {
        let mut rest = self.line.iter().skip_while(|waiter| waiter.woken.swap(true, SeqCst));
        let Some(first) = rest.next() else { return Vec::new() };
        let others = rest.take_while(|next| first.is_reader && next.is_reader);
        let others = others.filter(|reader| !reader.woken.swap(true, SeqCst));
        [first].into_iter().chain(others).cloned().collect()
    }

    fn is_first(&self, waiter: &Arc<QueuedWaiter>) -> bool {
        self.line.front().is_some_and(|first| Arc::ptr_eq(first, waiter))
    }
}

fn notify(waiters: &[Arc<QueuedWaiter>]) {
    waiters.iter().for_each(|waiter| waiter.notify.notify_one());
}

/// What a waiter in line is notified of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Notification {
    /// It is to ask now.
    Ask,
    /// It is to compute the time of its next question again: it has become the first, the line yields, or an earlier attempt has used
    /// up its wake-up.
    Replan,
}

/// A place in line. Dropping it leaves the line.
pub(crate) struct Place<'a> {
    queues: &'a WaitQueues,
    name: LockName,
    waiter: Arc<QueuedWaiter>,
    /// It was woken because some name was released between its attempt and its place in line.
    wake_up_is_guess: bool,
    /// True while it asks because this name was released.
    asks_after_wake_up: bool,
    is_granted: bool,
}

impl Place<'_> {
    /// Waits for a notification. Safe to drop at any time: it is kept.
    pub(crate) async fn notified(&self) -> Notification {
        self.waiter.notify.notified().await;
        if self.waiter.woken.load(SeqCst) { Notification::Ask } else { Notification::Replan }
    }

    pub(crate) fn is_first(&self) -> bool {
        locked(&self.queues.queues).get(&self.name).is_some_and(|queue| queue.is_first(&self.waiter))
    }

    /// The end of the pause in which the line yields to other processes.
    pub(crate) fn yields_until(&self) -> Moment {
        locked(&self.queues.queues).get(&self.name).map_or(Moment::ORIGIN, |queue| queue.yields_until)
    }

    /// The moment before which the timer of this waiter does not let it ask: the line yields, or a waiter in line has asked lately.
    pub(crate) fn asks_from(&self) -> Moment {
        let queues = locked(&self.queues.queues);
        let Some(queue) = queues.get(&self.name) else { return Moment::ORIGIN };
        let asked_at = queue.asked_at.filter(|_| !queue.is_first(&self.waiter));
        asked_at.map_or(Moment::ORIGIN, |at| at.plus(self.queues.fallback)).max(queue.yields_until)
    }

    /// This waiter sends an attempt now.
    pub(crate) fn note_attempt(&mut self, now: Moment) {
        if let Some(queue) = locked(&self.queues.queues).get_mut(&self.name) {
            queue.asked_at = Some(now);
        }
        let was_woken = self.waiter.woken.swap(false, SeqCst);
        self.asks_after_wake_up = was_woken && !std::mem::take(&mut self.wake_up_is_guess);
    }

    /// The attempt was refused. If the waiter was woken, another process was probably quicker: the streak of this client ends.
    pub(crate) fn note_refusal(&mut self) {
        if std::mem::take(&mut self.asks_after_wake_up)
            && let Some(queue) = locked(&self.queues.queues).get_mut(&self.name)
        {
            queue.streak_since = None;
        }
    }

    /// The store granted the lock to this waiter, which leaves the line. The others wait for its release.
    pub(crate) fn granted(mut self, now: Moment) {
        self.is_granted = true;
        if let Some(queue) = locked(&self.queues.queues).get_mut(&self.name) {
            queue.streak_since.get_or_insert(now);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = locked(&self.queues.queues);
        let Some(queue) = queues.get_mut(&self.name) else { return };
        let was_first = queue.is_first(&self.waiter);
        queue.line.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        let admits_reader = self.waiter.is_reader
            && queue.line.front().is_some_and(|next| next.is_reader && !next.woken.load(SeqCst));
        let notified = if was_first && admits_reader
            || !self.is_granted && (was_first || self.waiter.woken.load(SeqCst))
        {
            queue.mark_next_woken()
        } else if was_first {
            queue.line.front().cloned().into_iter().collect()
        } else {
            Vec::new()
        };
        if queue.line.is_empty() && !self.is_granted {
            queues.remove(&self.name);
        }
        drop(queues);
        notify(&notified);
    }
}

#[cfg(test)]
mod tests;
