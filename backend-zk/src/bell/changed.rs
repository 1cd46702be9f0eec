//! Waiting until a bell has rung.

use super::Note;
use crate::place::Place;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Waits until a bell has rung. A future of its own, because whoever waits for a lock keeps one: of eight bytes.
#[derive(Debug)]
pub(crate) struct Changed {
    place: Arc<Place>,
}

/// Who is to be woken by a bell. None of them is dropped with its lock held: who knows what that frees.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    one: Option<Waker>,
    more: Vec<Waker>,
}

impl Place {
    /// Waits until a watch has fired.
    pub(crate) fn changed(self: &Arc<Self>) -> Changed {
        self.bell.note().waiting += 1;
        Changed { place: Arc::clone(self) }
    }
}

impl Waiters {
    pub(super) fn wake(self) {
        self.one.into_iter().chain(self.more).for_each(Waker::wake);
    }
}

impl Note {
    fn add_waiter(&mut self, waker: &Waker) {
        match (&self.waiter, &mut self.rare) {
            (None, _) => self.waiter = Some(waker.clone()),
            (Some(one), _) if one.will_wake(waker) => {}
            (Some(_), Some(rare)) if rare.more_waiters.iter().any(|one| one.will_wake(waker)) => {}
            (Some(_), rare) => rare.get_or_insert_default().more_waiters.push(waker.clone()),
        }
    }

    pub(super) fn take_waiters(&mut self) -> Waiters {
        let more = self.rare.as_mut().map(|rare| std::mem::take(&mut rare.more_waiters));
        self.tidy();
        Waiters { one: self.waiter.take(), more: more.unwrap_or_default() }
    }
}

impl Future for Changed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut note = self.place.bell.note();
        if note.fired || note.is_told() {
            return Poll::Ready(());
        }
        // Under the lock of who rings, so that no ring is missed in between.
        let earlier = if note.waiting > 1 { Waiters::default() } else { note.take_waiters() };
        note.add_waiter(context.waker());
        drop((note, earlier));
        Poll::Pending
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let nobody_waits_for = {
            let mut note = self.place.bell.note();
            note.waiting -= 1;
            if note.waiting == 0 { note.take_waiters() } else { Waiters::default() }
        };
        drop(nobody_waits_for);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker;
    use leasehold_core::OwnerId;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn place() -> Arc<Place> {
        Arc::new(Place::of(OwnerId::from_u128(7), &Arc::default()))
    }

    fn is_over(changed: &mut Changed, waker: &Waker) -> bool {
        Pin::new(changed).poll(&mut Context::from_waker(waker)).is_ready()
    }

    #[test]
    fn all_that_wait_are_woken_once_by_a_ring() {
        let (place, woken) = (place(), [(); 3].map(|()| Arc::<Woken>::default()));
        let mut waiting: Vec<Changed> = woken.iter().map(|_| place.changed()).collect();
        for _ in 0..2 {
            for (changed, woken) in waiting.iter_mut().zip(&woken) {
                assert!(!is_over(changed, &Waker::from(Arc::clone(woken))));
            }
        }
        place.bell.fire();
        place.bell.fire();
        assert!(woken.iter().all(|woken| woken.0.load(Relaxed) == 1));
        assert!(waiting.iter_mut().all(|changed| is_over(changed, &noop_waker())));
    }

    #[test]
    fn a_ring_before_the_first_look_is_not_missed_and_one_before_listening_does_not_count() {
        let place = place();
        let mut changed = place.changed();
        place.bell.fire();
        place.bell.listen();
        assert!(!is_over(&mut changed, &noop_waker()));
        place.bell.fire();
        assert!(is_over(&mut changed, &noop_waker()));
    }

    #[test]
    fn who_waits_no_more_is_forgotten() {
        let (place, woken) = (place(), Arc::<Woken>::default());
        let waker = Waker::from(Arc::clone(&woken));
        let (mut one, mut other) = (place.changed(), place.changed());
        assert!(!is_over(&mut one, &waker));
        drop(waker);
        drop(one);
        assert!(!is_over(&mut other, &noop_waker()), "who is left waits on");
        drop(other);
        assert_eq!((Arc::strong_count(&woken), Arc::strong_count(&place)), (1, 1));
    }
}
