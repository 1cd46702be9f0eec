//! Waiting until a bell has rung.

use super::Bell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Waits until a bell has rung. A future of its own, because whoever waits for a lock keeps one: of eight bytes.
#[derive(Debug)]
pub(crate) struct Changed {
    bell: Arc<Bell>,
}

/// Who is to be woken by a bell: one as a rule, for which there is room without an allocation. None of them is dropped with
/// the lock held: who knows what that frees.
#[derive(Debug, Default)]
pub(super) enum Waiters {
    #[default]
    None,
    One(Waker),
    More(Vec<Waker>),
}

impl Bell {
    /// Waits until a watch has fired.
    pub(crate) fn changed(self: &Arc<Self>) -> Changed {
        self.note().waiting += 1;
        Changed { bell: Arc::clone(self) }
    }
}

impl Waiters {
    fn add(&mut self, waker: &Waker) {
        match self {
            Self::None => *self = Self::One(waker.clone()),
            Self::One(one) if one.will_wake(waker) => {}
            Self::One(one) => *self = Self::More(vec![one.clone(), waker.clone()]),
            Self::More(more) if more.iter().any(|one| one.will_wake(waker)) => {}
            Self::More(more) => more.push(waker.clone()),
        }
    }

    pub(super) fn wake(self) {
        match self {
            Self::None => {}
            Self::One(waker) => waker.wake(),
            Self::More(wakers) => wakers.into_iter().for_each(Waker::wake),
        }
    }
}

impl Future for Changed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut note = self.bell.note();
        if note.fired || note.handed_over.is_some() {
            return Poll::Ready(());
        }
        // Under the lock of who rings, so that no ring is missed in between.
        let earlier = if note.waiting > 1 { Waiters::None } else { std::mem::take(&mut note.waiters) };
        note.waiters.add(context.waker());
        drop((note, earlier));
        Poll::Pending
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let nobody_waits_for = {
            let mut note = self.bell.note();
            note.waiting -= 1;
            if note.waiting == 0 { std::mem::take(&mut note.waiters) } else { Waiters::None }
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

    fn bell() -> Arc<Bell> {
        Arc::new(Bell::new(OwnerId::from_u128(7), &Arc::default()))
    }

    fn is_over(changed: &mut Changed, waker: &Waker) -> bool {
        Pin::new(changed).poll(&mut Context::from_waker(waker)).is_ready()
    }

    #[test]
    fn all_that_wait_are_woken_once_by_a_ring() {
        let (bell, woken) = (bell(), [(); 3].map(|()| Arc::<Woken>::default()));
        let mut waiting: Vec<Changed> = woken.iter().map(|_| bell.changed()).collect();
        for _ in 0..2 {
            for (changed, woken) in waiting.iter_mut().zip(&woken) {
                assert!(!is_over(changed, &Waker::from(Arc::clone(woken))));
            }
        }
        bell.fire();
        bell.fire();
        assert!(woken.iter().all(|woken| woken.0.load(Relaxed) == 1));
        assert!(waiting.iter_mut().all(|changed| is_over(changed, &noop_waker())));
    }

    #[test]
    fn a_ring_before_the_first_look_is_not_missed_and_one_before_listening_does_not_count() {
        let bell = bell();
        let mut changed = bell.changed();
        bell.fire();
        bell.listen();
        assert!(!is_over(&mut changed, &noop_waker()));
        bell.fire();
        assert!(is_over(&mut changed, &noop_waker()));
    }

    #[test]
    fn who_waits_no_more_is_forgotten() {
        let (bell, woken) = (bell(), Arc::<Woken>::default());
        let waker = Waker::from(Arc::clone(&woken));
        let (mut one, mut other) = (bell.changed(), bell.changed());
        assert!(!is_over(&mut one, &waker));
        drop(waker);
        drop(one);
        assert!(!is_over(&mut other, &noop_waker()), "who is left waits on");
        drop(other);
        assert_eq!((Arc::strong_count(&woken), Arc::strong_count(&bell)), (1, 1));
    }
}
