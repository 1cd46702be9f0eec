//! How much runs at once, and the capacity of the host, which cases share.

use crate::case::HostShare;
use crate::locked;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Does the work of each item on so many threads. What came of it is in the order in which it came; a thread ends when its work
/// returns `None`.
pub(crate) fn in_parallel<I: Send, R: Send>(
    threads: usize,
    items: impl IntoIterator<Item = I, IntoIter: Send>,
    work: impl Fn(I) -> Option<R> + Sync,
) -> Vec<R> {
    let (left, results) = (Mutex::new(items.into_iter()), Mutex::new(Vec::new()));
    let next = || locked(&left).next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    let Some(result) = work(item) else { break };
                    locked(&results).push(result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How often a case that is to be run again looks whether another one runs or waits.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// The capacity of the host in a run, of which each case takes the share that it needs. Requests are served in their order, so that
/// small shares never delay a large one for long; second attempts come when no other case runs or waits, unless there are many.
#[derive(Debug)]
pub(crate) struct HostCapacity {
    shares: Semaphore,
    /// One for each second attempt that waits for an idle host: fewer than threads of a usual run, so that first attempts go on.
    places: Semaphore,
    /// Locked by the one attempt that looks whether the host is idle: looks of hundreds would keep it busy.
    look: Mutex<()>,
}

impl HostShare {
    const WHOLE: u32 = 60;

    /// 20 cases with the usual share run at once: they mostly wait.
    const fn size(self) -> u32 {
        match self {
            Self::Usual => Self::WHOLE / 20,
            Self::Quarter => Self::WHOLE / 4,
            Self::Whole => Self::WHOLE,
        }
    }
}

impl HostCapacity {
    /// For a run on at most so many threads.
    pub(crate) const fn new(threads: usize) -> Self {
        let (shares, places) = (HostShare::WHOLE as usize, threads / 2);
        let (shares, places) = (Semaphore::const_new(shares), Semaphore::const_new(places));
        Self { shares, places, look: Mutex::new(()) }
    }

    /// Waits until there is room for this share. Blocks this thread.
    pub(crate) fn take(&self, share: HostShare) -> SemaphorePermit<'_> {
        // Without drivers, a runtime is only a thread that waits.
        let runtime = Builder::new_current_thread().build();
        runtime.unwrap_or_else(|error| unreachable!("{error}")).block_on(self.acquire(share))
    }

    /// Waits until no case runs and none waits for a share, so that a second attempt delays no first one; if half of the threads
    /// do so already, until it is its turn among the first attempts. Blocks this thread.
    pub(crate) fn take_all_when_idle(&self) -> SemaphorePermit<'_> {
        let Ok(_place) = self.places.try_acquire() else { return self.take(HostShare::Whole) };
        let _look = locked(&self.look);
        loop {
            // What is given back goes to those that wait: permits are left only if there are none.
            if let Ok(all) = self.shares.try_acquire_many(HostShare::WHOLE) {
                return all;
            }
            std::thread::sleep(LOOKS_EVERY);
        }
    }

    async fn acquire(&self, share: HostShare) -> SemaphorePermit<'_> {
        let permits = self.shares.acquire_many(share.size()).await;
        permits.unwrap_or_else(|_| unreachable!("the semaphore is never closed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HostShare::{Quarter, Usual, Whole};
    use futures_util::FutureExt;
    use std::pin::pin;

    #[test]
    fn host_is_divided_into_as_many_parts_as_a_share_says() {
        for (share, parts) in [(Quarter, 4), (Whole, 1), (Usual, 20)] {
            let capacity = HostCapacity::new(8);
            let taken: Vec<_> = (0..parts).map(|_| capacity.take(share)).collect();
            assert_eq!(capacity.shares.available_permits(), 0, "{share:?}");
            drop(taken);
            assert_eq!(capacity.shares.available_permits(), HostShare::WHOLE as usize, "{share:?}");
        }
    }

    #[test]
    fn whole_share_is_granted_alone_and_before_later_requests() {
        let capacity = HostCapacity::new(8);
        let first = capacity.take(Usual);
        let (mut whole, mut later) = (pin!(capacity.acquire(Whole)), pin!(capacity.acquire(Usual)));
        assert!(whole.as_mut().now_or_never().is_none(), "the whole, beside a part");
        assert!(later.as_mut().now_or_never().is_none(), "a part, before the whole");
        drop(first);
        assert!(later.as_mut().now_or_never().is_none(), "a part, before the whole");
        let whole = whole.as_mut().now_or_never();
        assert!(whole.is_some(), "all is free");
        assert!(later.as_mut().now_or_never().is_none(), "a part, beside the whole");
        drop(whole);
        assert!(later.as_mut().now_or_never().is_some());
        assert_eq!(capacity.shares.available_permits(), HostShare::WHOLE as usize);
    }

    #[test]
    fn second_attempt_begins_when_every_first_attempt_is_over() {
        let capacity = HostCapacity::new(8);
        let events = Mutex::new(Vec::new());
        let running = capacity.take(Whole);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _all = capacity.take_all_when_idle();
                locked(&events).push("second attempt");
            });
            std::thread::sleep(LOOKS_EVERY * 2);
            let mut later = pin!(capacity.acquire(Usual));
            assert!(later.as_mut().now_or_never().is_none(), "beside the whole");
            drop(running);
            let later = later.as_mut().now_or_never();
            assert!(later.is_some(), "the second attempt was before a first one");
            std::thread::sleep(LOOKS_EVERY * 2);
            locked(&events).push("first attempts are over");
            drop(later);
        });
        assert_eq!(*locked(&events), ["first attempts are over", "second attempt"]);
    }

    #[test]
    fn second_attempt_takes_its_turn_when_half_of_the_threads_wait() {
        let capacity = HostCapacity::new(0);
        let running = capacity.take(Usual);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(capacity.take_all_when_idle()));
            let is_served = |_: &u8| {
                std::thread::sleep(LOOKS_EVERY / 10);
                capacity.acquire(Usual).now_or_never().is_some()
            };
            let served = (0..100).take_while(is_served).count();
            drop(running);
            assert!(served < 100, "first attempts are served before the second one, whose turn it is");
        });
        assert_eq!(capacity.shares.available_permits(), HostShare::WHOLE as usize);
    }
}
