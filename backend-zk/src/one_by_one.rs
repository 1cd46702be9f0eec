//! A value for one call at a time, in a word more than its own room: whoever waits for a lock keeps one.

use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The value, which a call takes with it. Nobody stands in line for it: the calls for one claim come one after the other, but
/// for a renewal that is under way when the claim is released.
#[derive(Debug)]
pub(crate) struct OneByOne<T> {
    slot: Mutex<Slot<T>>,
}

#[derive(Debug)]
enum Slot<T> {
    Here(T),
    /// With a call. Who wants it, where it would be.
    Away(Vec<Waker>),
}

/// The value, with a call; it is back when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a, T: Default> {
    from: &'a OneByOne<T>,
    value: T,
}

impl<T: Default> OneByOne<T> {
    /// The value, when no other call has it.
    ///
    /// Safe to drop.
    pub(crate) async fn lock(&self) -> Taken<'_, T> {
        poll_fn(|context| {
            self.take_or(|waiting| enter(waiting, context.waker())).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// `None` if another call has it.
    pub(crate) fn try_lock(&self) -> Option<Taken<'_, T>> {
        self.take_or(|_| ())
    }

    /// Under the lock of who brings it back, so that who enters itself is woken.
    fn take_or(&self, is_away: impl FnOnce(&mut Vec<Waker>)) -> Option<Taken<'_, T>> {
        let mut slot = self.slot();
        if let Slot::Away(waiting) = &mut *slot {
            is_away(waiting);
            return None;
        }
        match std::mem::replace(&mut *slot, Slot::Away(Vec::new())) {
            Slot::Here(value) => Some(Taken { from: self, value }),
            Slot::Away(_) => None,
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn enter(waiting: &mut Vec<Waker>, waker: &Waker) {
    if !waiting.iter().any(|other| other.will_wake(waker)) {
        waiting.push(waker.clone());
    }
}

impl<T: Default> Default for OneByOne<T> {
    fn default() -> Self {
        Self { slot: Mutex::new(Slot::Here(T::default())) }
    }
}

/// Wakes all who wait, and not the first: that one may be gone, and its turn with it.
impl<T: Default> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let back = Slot::Here(std::mem::take(&mut self.value));
        let left = std::mem::replace(&mut *self.from.slot(), back);
        if let Slot::Away(waiting) = left {
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T: Default> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;
    use std::sync::Arc;

    #[test]
    fn one_call_has_it_and_the_next_finds_what_that_one_left() {
        let value = OneByOne::<u32>::default();
        let mut first = value.try_lock().unwrap();
        *first = 7;
        assert!(value.try_lock().is_none() && value.lock().now_or_never().is_none());
        drop(first);
        assert_eq!(value.lock().now_or_never().as_deref(), Some(&7));
    }

    #[tokio::test]
    async fn who_waits_is_woken_though_one_that_waited_before_it_is_gone() {
        let value = Arc::<OneByOne<u32>>::default();
        let taken = value.try_lock().unwrap();
        {
            let mut gone = pin!(value.lock());
            assert!(gone.as_mut().now_or_never().is_none());
        }
        let waits = Arc::clone(&value);
        let waits = tokio::spawn(async move { *waits.lock().await += 1 });
        tokio::task::yield_now().await;
        drop(taken);
        waits.await.unwrap();
        assert_eq!(*value.lock().await, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn none_of_many_is_forgotten_and_no_two_have_it() {
        let value = Arc::<OneByOne<u32>>::default();
        let add = |value: Arc<OneByOne<u32>>| async move {
            for _ in 0..1_000 {
                let mut taken = value.lock().await;
                let before = *taken;
                tokio::task::yield_now().await;
                *taken = before + 1;
            }
        };
        let all: Vec<_> = (0..8).map(|_| tokio::spawn(add(Arc::clone(&value)))).collect();
        for one in all {
            one.await.unwrap();
        }
        assert_eq!(*value.lock().await, 8_000);
    }

    #[test]
    fn a_call_that_panics_brings_it_back() {
        let value = OneByOne::<u32>::default();
        let call = std::panic::AssertUnwindSafe(|| {
            let mut taken = value.try_lock().unwrap();
            *taken = 7;
            panic!("half-way");
        });
        assert!(std::panic::catch_unwind(call).is_err());
        assert_eq!(value.try_lock().as_deref(), Some(&7));
    }
}
