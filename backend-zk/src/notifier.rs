//! The notification of a claim about a change in the store: its watch fired, or its session ended.

use crate::locked;
use leasehold_core::{OwnerId, Suspects};
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::Wake;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

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
    /// How often it was [`Fired`](Signal::Fired).
    fires: u64,
    holds: bool,
}

/// The signal that a call took when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenSignal {
    pub(crate) signal: Signal,
    fires: u64,
}

/// The news since the last call for the claim began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Signal {
    /// No news. Do not rely on a watch.
    #[default]
    Unwatched,
    /// No news. A watch is set; a waiter without one, because the session has too many, asks at the fallback interval.
    Watched,
    /// Something has changed.
    Fired,
}

/// The waker of a watch. It is weak: the claim owns its watch, and the watch owns its waker.
struct WatchWaker(Weak<ClaimNotifier>);

impl ClaimNotifier {
    pub(crate) fn new(owner: OwnerId, suspects: &Arc<Suspects>) -> Self {
        Self { owner, note: Mutex::default(), wake: Notify::new(), suspects: Arc::clone(suspects) }
    }

    /// Something has changed: a waiter asks again, and a holder is renewed.
    pub(crate) fn fire(&self) {
        let mut note = locked(&self.note);
        note.signal = Signal::Fired;
        note.fires += 1;
        drop(note);
        self.wake.notify_waiters();
        self.suspect();
    }

    /// The signal, which becomes [`Unwatched`](Signal::Unwatched): a call begins, and its failure needs no undoing.
    pub(crate) fn take(&self) -> TakenSignal {
        let mut note = locked(&self.note);
        TakenSignal { signal: std::mem::take(&mut note.signal), fires: note.fires }
    }

    /// The outcome of a call, after its watch is set. No effect if the watch may have fired since [`take`](Self::take): another
    /// call may have taken that signal.
    pub(crate) fn set(&self, before: TakenSignal, signal: Signal) {
        let mut note = locked(&self.note);
        if note.fires == before.fires {
            note.signal = signal;
        }
    }

    /// The signal, which stays.
    pub(crate) fn signal(&self) -> Signal {
        locked(&self.note).signal
    }

    /// The claim holds from now on. The first renewal finds out what happened before.
    pub(crate) fn begin_hold(&self) {
        locked(&self.note).holds = true;
    }

    /// The connection is lost, or there is one again: a holder is renewed.
    pub(crate) fn suspect(&self) {
        if locked(&self.note).holds {
            self.suspects.add(self.owner);
        }
    }

    /// Waits until asking again may give another answer.
    pub(crate) async fn changed(&self) {
        let mut notification = pin!(self.wake.notified());
        // A notification after this line is not missed.
        notification.as_mut().enable();
        match self.signal() {
            Signal::Fired => {}
            Signal::Watched => notification.await,
            Signal::Unwatched => {
                // In a box: few waiters need the timer, and each would have room for it.
                let _ = Box::pin(timeout(retry_pause(), notification)).await;
            }
        }
    }

    pub(crate) fn waker(self: &Arc<Self>) -> std::task::Waker {
        Arc::new(WatchWaker(Arc::downgrade(self))).into()
    }
}

/// The pause before a waiter that nothing will notify asks again. It has jitter, because all waiters of a process lose their
/// connection together.
pub(crate) fn retry_pause() -> Duration {
    Duration::from_millis(fastrand::u64(100..400))
}

impl Wake for WatchWaker {
    fn wake(self: Arc<Self>) {
        if let Some(notifier) = self.0.upgrade() {
            notifier.fire();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn notifier() -> Arc<ClaimNotifier> {
        Arc::new(ClaimNotifier::new(OwnerId::from_u128(7), &Arc::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn watched_waiter_sleeps_until_its_watch_fires() {
        let notifier = notifier();
        notifier.set(notifier.take(), Signal::Watched);
        assert!(timeout(Duration::from_secs(3600), notifier.changed()).await.is_err());
        notifier.waker().wake();
        assert!(notifier.changed().now_or_never().is_some(), "the signal stays until it is taken");
        assert_eq!((notifier.take().signal, notifier.signal()), (Signal::Fired, Signal::Unwatched));
    }

    #[test]
    fn watch_that_fires_before_its_call_ends_is_not_missed() {
        let notifier = notifier();
        let call = notifier.take();
        assert_eq!(notifier.signal(), Signal::Unwatched);
        notifier.fire();
        notifier.set(call, Signal::Watched);
        assert_eq!(notifier.signal(), Signal::Fired);
    }

    #[test]
    fn watch_whose_signal_another_call_has_taken_is_not_relied_on() {
        let notifier = notifier();
        let call = notifier.take();
        notifier.fire();
        let other = notifier.take();
        assert_eq!(other.signal, Signal::Fired);
        notifier.set(call, Signal::Watched);
        assert_eq!(notifier.signal(), Signal::Unwatched);
        notifier.set(other, Signal::Watched);
        assert_eq!(notifier.signal(), Signal::Watched);
    }

    #[tokio::test(start_paused = true)]
    async fn unwatched_waiter_asks_again_after_a_pause() {
        let (notifier, start) = (notifier(), tokio::time::Instant::now());
        notifier.changed().await;
        assert!((100..400).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }

    #[test]
    fn only_a_holder_is_a_suspect() {
        let notifier = notifier();
        notifier.fire();
        assert_eq!(notifier.suspects.take().now_or_never(), None);
        notifier.begin_hold();
        notifier.fire();
        assert_eq!(notifier.suspects.take().now_or_never(), Some(vec![OwnerId::from_u128(7)]));
    }

    #[test]
    fn waker_of_a_forgotten_claim_does_nothing() {
        let waker = notifier().waker();
        waker.wake();
    }
}
