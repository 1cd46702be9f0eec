//! Watches that are to be set in a moment. Nearly all are dropped before: the hold was over by then.
//!
//! So what is done for each is as little as can be. The ear is woken for the first of them, and not for those that come
//! while it sleeps; and by the time that it looks, what was dropped costs nothing more.

use super::listening::{Listening, Slot};
use super::room::Share;
use super::turn::Read;
use crate::place::Place;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How old a hold is when its holder begins to listen to its node. Most are over by then: they cost the server a
/// request, and an event for the holder's own deletion, that nobody has any use for. That a node is deleted by somebody
/// else meanwhile is not missed: the read that begins to listen does not find it.
const MOMENT: Duration = Duration::from_millis(20);

/// Those of one session, in the order in which they are due.
#[derive(Debug, Default)]
pub(super) struct Soon {
    line: Mutex<VecDeque<Later>>,
    /// Told when there is a first one again.
    begins: Notify,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Later {
    due: Instant,
    read: Read,
    /// Gone when nobody listens any more.
    slot: Weak<Slot>,
    /// Weakly: the session has these, and a place has its session.
    place: Weak<Place>,
}

impl Soon {
    /// Has this read made in a [`MOMENT`], and the bell rung when its watch fires, unless nobody listens by then.
    pub(super) fn enter(&self, read: Read, place: &Arc<Place>, share: Share) -> Listening {
        let slot = Arc::new(Slot::new(share));
        let place = Arc::downgrade(place);
        let later = Later { due: Instant::now() + MOMENT, read, slot: Arc::downgrade(&slot), place };
        let mut line = self.line();
        line.push_back(later);
        if line.len() == 1 {
            self.begins.notify_one();
        }
        Listening::to_come(slot)
    }

    /// The next one that is due and still wanted. Safe to drop: what was not returned stays in the line.
    pub(super) async fn due(&self) -> Later {
        loop {
            match self.first_due() {
                Some(due) if due <= Instant::now() => {
                    if let Some(later) = self.line().pop_front() {
                        return later;
                    }
                }
                Some(due) => sleep_until(due).await,
                // Who enters the first one after this look has left a notice.
                None => self.begins.notified().await,
            }
        }
    }

    /// When the first one is due, of those that are still wanted.
    fn first_due(&self) -> Option<Instant> {
        let mut line = self.line();
        while line.front().is_some_and(Later::is_dropped) {
            line.pop_front();
        }
        line.front().map(|later| later.due)
    }

    fn line(&self) -> MutexGuard<'_, VecDeque<Later>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Later {
    /// Makes the read, and listens to the watch that it begins. One that cannot be set counts as fired.
    pub(super) async fn set(self) {
        let watcher = self.read.watch().await;
        // Whoever listened may be gone meanwhile: then the watcher is dropped, and with it the watch.
        if let (Some(slot), Some(place)) = (self.slot.upgrade(), self.place.upgrade()) {
            match watcher {
                Some(watcher) => slot.fill(watcher.changed(), &place),
                None => place.bell.ring(),
            }
        }
    }

    fn is_dropped(&self) -> bool {
        self.slot.strong_count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::{Room, Whose};
    use super::*;
    use futures_util::FutureExt;
    use leasehold_core::OwnerId;

    fn place() -> Arc<Place> {
        Arc::new(Place::of(OwnerId::from_u128(7), &Arc::default()))
    }

    fn share() -> Share {
        Arc::<Room>::default().share(Whose::Own, "/node").unwrap()
    }

    fn enter(soon: &Soon) -> Listening {
        soon.enter(Read::of_nothing(), &place(), share())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_set_in_a_moment_and_not_before() {
        let soon = Soon::default();
        let start = Instant::now();
        let _listening = enter(&soon);
        soon.due().await;
        assert!((MOMENT..MOMENT * 2).contains(&start.elapsed()), "{:?}", start.elapsed());
        assert!(soon.due().now_or_never().is_none(), "once");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_dropped_is_never_due_and_wakes_nobody() {
        let soon = Soon::default();
        let first = enter(&soon);
        tokio::time::advance(MOMENT / 2).await;
        let start = Instant::now();
        let _second = enter(&soon);
        for _ in 0..100 {
            drop(enter(&soon));
        }
        drop(first);
        soon.due().await;
        assert!(start.elapsed() >= MOMENT, "{:?}: that is when the first was due", start.elapsed());
        assert!(soon.due().now_or_never().is_none());
        assert!(soon.line().is_empty(), "the line grows");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_comes_while_nobody_is_in_line_is_not_slept_over() {
        let soon = Arc::new(Soon::default());
        let waits = Arc::clone(&soon);
        let due = tokio::spawn(async move { waits.due().await });
        tokio::task::yield_now().await;
        let _listening = enter(&soon);
        tokio::time::timeout(MOMENT * 10, due).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_cannot_be_set_counts_as_fired_if_anybody_listens() {
        let (soon, heard, left) = (Soon::default(), place(), place());
        let _listening = soon.enter(Read::of_nothing(), &heard, share());
        soon.due().await.set().await;
        assert!(heard.bell.has_fired());

        let listening = soon.enter(Read::of_nothing(), &left, share());
        let later = soon.due().await;
        drop(listening);
        later.set().await;
        assert!(!left.bell.has_fired());
    }
}
