//! The claims of this process: what is known of the key of each, and how each hears of a deletion.

use crate::leases::Lease;
use crate::watches::Watch;
use leasehold_core::OwnerId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::timeout;

/// The pause before a waiter without a watch asks again, in milliseconds. It has jitter, because all waiters of a process lose
/// their member together.
const RETRY_MILLIS: std::ops::Range<u64> = 100..400;

/// The claims that have, or may have, a key.
#[derive(Debug)]
pub(crate) struct ClaimTable {
    entries: Mutex<HashMap<OwnerId, Arc<ClaimEntry>>>,
    suspect: UnboundedSender<OwnerId>,
    suspects: tokio::sync::Mutex<UnboundedReceiver<OwnerId>>,
}

/// One claim.
#[derive(Debug)]
pub(crate) struct ClaimEntry {
    /// Locked for the length of a call: the calls for one claim follow each other. `None`: it has no key.
    pub(crate) state: Arc<tokio::sync::Mutex<Option<OwnKey>>>,
    pub(crate) notifier: Arc<ClaimNotifier>,
}

/// The key that a claim has, or may have.
#[derive(Debug)]
pub(crate) struct OwnKey {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The revision at which it was created. `None` while no answer to the write is seen.
    pub(crate) revision: Option<i64>,
    /// True if a write without an answer may still be carried out: its lease must be revoked, and is not used again.
    pub(crate) is_unsure: bool,
    pub(crate) lease: Lease,
    /// A lease of another length, to which a move of the key may be under way.
    pub(crate) next_lease: Option<Lease>,
    pub(crate) place: Place,
    /// True once the claim was granted: its lease is not shortened any more.
    pub(crate) is_granted: bool,
    /// On the key in front of a waiter, or on a holder's own.
    pub(crate) watch: Option<Watch>,
}

/// The place of a key in its queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Unknown,
    /// Behind the youngest of the keys that are older and conflict with it: that key, and the revision at which it was created.
    Behind(Vec<u8>, i64),
    /// No older key conflicts with it, and none can come: it holds the lock.
    First,
}

/// The notification of a claim that the key it depends on was deleted.
#[derive(Debug)]
pub(crate) struct ClaimNotifier {
    owner: OwnerId,
    signal: watch::Sender<Signal>,
    suspect: UnboundedSender<OwnerId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Signal {
    /// No watch is set: the last call failed, or the claim has ended.
    #[default]
    Unwatched,
    /// The watch of this number will fire.
    Watching(i64),
    /// The same, of a hold.
    Guarding(i64),
    Fired,
}

impl OwnKey {
    /// A key that is about to be written.
    pub(crate) fn new(key: Vec<u8>, value: Vec<u8>, lease: Lease) -> Self {
        let (revision, next_lease, place, watch) = (None, None, Place::Unknown, None);
        Self { key, value, revision, is_unsure: false, lease, next_lease, place, is_granted: false, watch }
    }
}

impl Default for ClaimTable {
    fn default() -> Self {
        let (suspect, suspects) = unbounded_channel();
        Self { entries: Mutex::default(), suspect, suspects: suspects.into() }
    }
}

impl ClaimTable {
    /// The entry of an owner, new if there is none, and its state.
    pub(crate) async fn lock(&self, owner: OwnerId) -> (Arc<ClaimEntry>, OwnedMutexGuard<Option<OwnKey>>) {
        loop {
            let new = || {
                let notifier =
                    ClaimNotifier { owner, signal: watch::Sender::default(), suspect: self.suspect.clone() };
                Arc::new(ClaimEntry { state: Arc::default(), notifier: Arc::new(notifier) })
            };
            let entry = Arc::clone(self.entries().entry(owner).or_insert_with(new));
            let state = Arc::clone(&entry.state).lock_owned().await;
            // Another call may have removed the entry while this one waited for it.
            if self.get(owner).is_some_and(|current| Arc::ptr_eq(&current, &entry)) {
                return (entry, state);
            }
        }
    }

    pub(crate) fn get(&self, owner: OwnerId) -> Option<Arc<ClaimEntry>> {
        self.entries().get(&owner).cloned()
    }

    /// Forgets a claim that has no key. The caller has its state locked.
    pub(crate) fn remove_without_key(&self, owner: OwnerId, state: &Option<OwnKey>) {
        if state.is_none() {
            self.entries().remove(&owner);
        }
    }

    /// Waits until asking again for a claim may give another answer.
    pub(crate) async fn changed(&self, owner: OwnerId) {
        let pause = Duration::from_millis(fastrand::u64(RETRY_MILLIS));
        let Some(entry) = self.get(owner) else { return tokio::time::sleep(pause).await };
        let mut signal = entry.notifier.signal.subscribe();
        let is_unwatched = *signal.borrow_and_update() == Signal::Unwatched;
        let fired = signal.wait_for(|signal| *signal == Signal::Fired);
        // A watch is no timer: the core asks at its own interval.
        let _ = timeout(if is_unwatched { pause } else { Duration::MAX }, fired).await;
    }

    /// Waits until there are owners of holds that may be over, and takes them. Dropped, it has taken none.
    pub(crate) async fn suspects(&self) -> Vec<OwnerId> {
        let mut suspects = Vec::new();
        self.suspects.lock().await.recv_many(&mut suspects, usize::MAX).await;
        suspects
    }

    /// Forgets all claims, and ends their watches.
    pub(crate) fn clear(&self) {
        self.entries().clear();
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<OwnerId, Arc<ClaimEntry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimNotifier {
    /// From now on the claim hears of this watch, and of no other.
    pub(crate) fn watch(&self, id: i64, is_hold: bool) {
        self.signal.send_replace(if is_hold { Signal::Guarding(id) } else { Signal::Watching(id) });
    }

    /// From now on the claim hears of no watch.
    pub(crate) fn unwatch(&self) {
        self.signal.send_replace(Signal::Unwatched);
    }

    /// True if this watch may still fire.
    pub(crate) fn hears_of(&self, id: i64) -> bool {
        [Signal::Watching(id), Signal::Guarding(id)].contains(&self.signal.borrow())
    }

    /// The key of this watch was deleted, or its stream has ended: a waiter asks again, and a holder is renewed.
    pub(crate) fn fire(&self, id: i64) {
        let mut is_hold = false;
        self.signal.send_if_modified(|signal| {
            is_hold = *signal == Signal::Guarding(id);
            let hears_of = is_hold || *signal == Signal::Watching(id);
            *signal = if hears_of { Signal::Fired } else { *signal };
            hears_of
        });
        if is_hold {
            // Nobody asks for the suspects of a backend that is dropped.
            let _ = self.suspect.send(self.owner);
        }
    }
}
