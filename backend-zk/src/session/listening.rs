//! Watches that are listened to, each by a future that is polled once: there is no task for them.

use super::room::{Outside, Share};
use crate::bell::Rope;
use crate::place::Place;
use futures_util::FutureExt;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Context;
use std::time::Duration;
use zookeeper_client::OneshotWatcher;

/// A watch that is being listened to. Dropped, it is taken back from the server, where it would stay for as long as the
/// node lives: one for every attempt at a lock that is held for a year.
///
/// Never dropped with a lock held that its [`Bell`] takes: to drop it is to call the library. A watch that fires on another
/// thread at that moment may ring once more.
#[derive(Debug)]
pub(crate) struct Listening {
    watch: Watch,
}

/// Small, as whoever holds or waits keeps one.
#[derive(Debug)]
enum Watch {
    Now {
        _set: LiveWatch,
    },
    Soon {
        _slot: Arc<Slot>,
    },
    /// There was no room for one.
    None(Outside),
    /// There is none before its turn comes.
    NotYet,
}

/// The library's future of a watch, which only has to live: its waker is the bell. When the watch fires it is of no use any
/// more, and to drop it then costs nobody a request: the library finds nothing to take back.
type LiveWatch = Pin<Box<dyn Any + Send + Sync>>;

/// A place for a watch that is set later. Whoever sets it has it weakly: without an owner, nobody wants the watch.
#[derive(Debug)]
pub(super) struct Slot {
    /// Before its share, and dropped before it.
    watch: OnceLock<LiveWatch>,
    _share: Share,
}

impl Listening {
    /// Has the bell rung when this watch fires, or nobody is there any more who would tell.
    pub(super) fn to(watcher: OneshotWatcher, place: &Arc<Place>, share: Share) -> Self {
        // In one piece with the watch, and dropped after it.
        let over = watcher.changed().map(|_| drop(share));
        Self { watch: Watch::Now { _set: rung_after(over, place) } }
    }

    /// To what will be in this slot.
    pub(super) fn to_come(slot: Arc<Slot>) -> Self {
        Self { watch: Watch::Soon { _slot: slot } }
    }

    /// To nothing, for there is no room.
    pub(super) fn to_nothing(outside: Outside) -> Self {
        Self { watch: Watch::None(outside) }
    }

    /// To nothing for now.
    pub(crate) fn to_nothing_yet() -> Self {
        Self { watch: Watch::NotYet }
    }

    /// True if its bell never rings, whatever happens to the node.
    pub(crate) fn is_deaf(&self) -> bool {
        matches!(self.watch, Watch::None(_) | Watch::NotYet)
    }

    /// For who hears nothing: how long it waits before it looks.
    pub(crate) fn pause(&self) -> Option<Duration> {
        match &self.watch {
            Watch::None(outside) => Some(outside.pause()),
            Watch::Now { .. } | Watch::Soon { .. } | Watch::NotYet => None,
        }
    }

    /// True if it hears nothing, and has not looked for so long.
    pub(crate) fn is_look_due(&self) -> bool {
        matches!(&self.watch, Watch::None(outside) if outside.is_look_due())
    }
}

impl Slot {
    pub(super) fn new(share: Share) -> Self {
        Self { watch: OnceLock::new(), _share: share }
    }

    /// Has the bell rung as soon as this is over, and keeps it for whoever listens.
    pub(super) fn fill(&self, over: impl Future + Send + Sync + 'static, place: &Arc<Place>) {
        // Nobody else fills it.
        let _ = self.watch.set(rung_after(over, place));
    }
}

/// Polls a future for the only time, with the bell for a waker. If it is over already, the bell rings now.
///
/// A watch wakes for two reasons: it has fired, or the library's task has ended without a word. Either way the bell has
/// rung, and there is nothing to poll for: in the second case the library would panic.
fn rung_after<F>(over: F, place: &Arc<Place>) -> LiveWatch
where
    F: Future + Send + Sync + 'static,
{
    let mut over = Box::pin(over);
    let waker = Rope::of(place);
    let poll = || over.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
    // It panics already now if the library's task has ended, with its runtime, since it gave out the watch.
    if catch_unwind(AssertUnwindSafe(poll)).unwrap_or(true) {
        place.bell.ring();
    }
    over
}

#[cfg(test)]
mod tests {
    use super::super::room::{Room, Whose};
    use super::*;
    use leasehold_core::OwnerId;
    use tokio::sync::oneshot::{Receiver, Sender, channel};

    fn place() -> Arc<Place> {
        Arc::new(Place::of(OwnerId::from_u128(7), &Arc::default()))
    }

    /// As the library has it: one end with its task, and the other in the watcher.
    fn watch() -> (Sender<()>, Receiver<()>) {
        channel()
    }

    fn share() -> Share {
        Arc::<Room>::default().share(Whose::Own, "/node").unwrap()
    }

    #[test]
    fn a_watch_that_fires_rings() {
        let (place, (library, watcher)) = (place(), watch());
        let _set = rung_after(watcher, &place);
        assert!(!place.bell.has_fired());
        library.send(()).unwrap();
        assert!(place.bell.has_fired());
    }

    #[test]
    fn one_that_has_fired_before_rings_at_once() {
        let (place, (library, watcher)) = (place(), watch());
        library.send(()).unwrap();
        let _set = rung_after(watcher, &place);
        assert!(place.bell.has_fired());
        assert_eq!(Arc::weak_count(&place), 0);
    }

    #[test]
    fn one_that_nobody_can_fire_any_more_rings() {
        let (place, (library, watcher)) = (place(), watch());
        let _set = rung_after(watcher, &place);
        drop(library);
        assert!(place.bell.has_fired());
    }

    #[test]
    fn one_that_panics_because_nobody_is_there_rings() {
        let place = place();
        let (library, watcher) = watch();
        drop(library);
        drop(rung_after(async { watcher.await.unwrap() }, &place));
        assert!(place.bell.has_fired());
    }

    #[test]
    fn dropped_it_rings_no_more_and_keeps_nothing() {
        let (place, (library, watcher)) = (place(), watch());
        let set = rung_after(watcher, &place);
        assert_eq!(Arc::weak_count(&place), 1);
        drop(set);
        assert_eq!(Arc::weak_count(&place), 0);
        assert!(library.send(()).is_err());
        assert!(!place.bell.has_fired());
    }

    #[test]
    fn a_late_word_of_an_earlier_watch_is_a_look_too_many_and_no_more() {
        let (place, (library, watcher), (later, other)) = (place(), watch(), watch());
        let _earlier = rung_after(watcher, &place);
        place.bell.listen();
        let _set = rung_after(other, &place);
        library.send(()).unwrap();
        assert!(place.bell.has_fired());
        place.bell.listen();
        later.send(()).unwrap();
        assert!(place.bell.has_fired());
    }

    #[test]
    fn a_slot_keeps_its_watch_until_its_last_owner_is_gone() {
        let (place, (library, watcher), slot) = (place(), watch(), Arc::new(Slot::new(share())));
        let setter = Arc::downgrade(&slot).upgrade().unwrap();
        let listening = Listening::to_come(slot);
        drop(listening);
        setter.fill(watcher, &place);
        drop(setter);
        assert!(library.is_closed(), "the watch would stay at the server");
        assert!(!place.bell.has_fired());
        assert_eq!(Arc::weak_count(&place), 0);
    }
}
