//! The notification of a claim about a change in the store: the key that it watches was deleted, or its watch has ended.

use leasehold_core::OwnerId;
use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// The pause before a waiter that nothing will notify asks again, in milliseconds. It has jitter, because all waiters of a
/// process lose their member together.
const RETRY_MILLIS: std::ops::Range<u64> = 100..400;

/// The notifications for one claim.
#[derive(Debug)]
pub(crate) struct ClaimNotifier {
    owner: OwnerId,
    note: Mutex<Note>,
    wake: Notify,
    suspects: Arc<Suspects>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Note {
    signal: Signal,
    holds: bool,
}

/// The news since the last call for the claim began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Signal {
    /// None, and no watch is set: the last call failed, or is under way.
    #[default]
    Unwatched,
    /// None. A watch is set.
    Watched,
    /// Something has changed.
    Fired,
}

/// The owners of holds that may be over, for the keeper.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    owners: Mutex<HashSet<OwnerId>>,
    added: Notify,
}

impl ClaimNotifier {
    pub(crate) fn new(owner: OwnerId, suspects: &Arc<Suspects>) -> Self {
        Self { owner, note: Mutex::default(), wake: Notify::new(), suspects: Arc::clone(suspects) }
    }

    /// Something has changed: a waiter asks again, and a holder is renewed.
    pub(crate) fn fire(&self) {
        let holds = {
            let mut note = self.note();
            note.signal = Signal::Fired;
            note.holds
        };
        self.wake.notify_waiters();
        if holds {
            self.suspects.add(self.owner);
        }
    }

    /// The signal, which becomes [`Unwatched`](Signal::Unwatched): a call begins, and its failure needs no undoing.
    pub(crate) fn take(&self) -> Signal {
        std::mem::take(&mut self.note().signal)
    }

    /// A watch is set. One that has fired since [`take`](Self::take) is not missed.
    pub(crate) fn watched(&self) {
        let mut note = self.note();
        if note.signal != Signal::Fired {
            note.signal = Signal::Watched;
        }
    }

    /// The claim holds from now on, and no watch is set on its own key. A watch of a waiter is over.
    pub(crate) fn begin_hold(&self) {
        *self.note() = Note { signal: Signal::Unwatched, holds: true };
    }

    /// Waits until asking again may give another answer.
    pub(crate) async fn changed(&self) {
        let mut notification = pin!(self.wake.notified());
        // A notification after this line is not missed.
        notification.as_mut().enable();
        let signal = self.note().signal;
        match signal {
            Signal::Fired => {}
            Signal::Watched => notification.await,
            Signal::Unwatched => {
                // In a box: each waiter would have room for the timer, and few need it.
                let _ = Box::pin(timeout(retry_pause(), notification)).await;
            }
        }
    }

    fn note(&self) -> MutexGuard<'_, Note> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pause before a waiter that nothing will notify asks again.
pub(crate) fn retry_pause() -> Duration {
    Duration::from_millis(fastrand::u64(RETRY_MILLIS))
}

impl Suspects {
    fn add(&self, owner: OwnerId) {
        self.owners().insert(owner);
        self.added.notify_one();
    }

    /// Waits until there are suspects, and takes them. Safe to drop: a taken suspect is returned at once.
    pub(crate) async fn take(&self) -> Vec<OwnerId> {
        loop {
            let owners = std::mem::take(&mut *self.owners());
            if !owners.is_empty() {
                return owners.into_iter().collect();
            }
            self.added.notified().await;
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashSet<OwnerId>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
