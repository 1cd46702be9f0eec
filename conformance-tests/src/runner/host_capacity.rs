//! How much runs at once, and the capacity of the host, which cases share.

use super::run::Run;
use crate::case::HostShare;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Does the work of each item on so many threads. What came of it is in the order in which it came; a thread ends with the first
/// item of which nothing comes.
pub(crate) fn in_parallel<I: Send, R: Send>(
    threads: usize,
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> Option<R> + Sync,
) -> Vec<R> {
    let (left, results) = (Mutex::new(VecDeque::from_iter(items)), Mutex::new(Vec::new()));
    let next = || lock(&left).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    let Some(result) = work(item) else { break };
                    lock(&results).push(result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The capacity of the host in a run. Requests are served in their order, so that small shares never delay a large one for long.
#[derive(Debug)]
pub(crate) struct HostCapacity(Semaphore);

impl HostShare {
    const WHOLE: u32 = 48;

    const fn size(self) -> u32 {
        match self {
            Self::Usual => Self::WHOLE / Run::THREADS as u32,
            Self::Quarter => Self::WHOLE / 4,
            Self::Half => Self::WHOLE / 2,
            Self::Whole => Self::WHOLE,
        }
    }
}

impl HostCapacity {
    pub(crate) const fn new() -> Self {
        Self(Semaphore::const_new(HostShare::WHOLE as usize))
    }

    /// Waits until there is room for this share. Blocks this thread.
    pub(crate) fn take(&self, share: HostShare) -> SemaphorePermit<'_> {
        // Without drivers, a runtime is only a thread that waits.
        let runtime = Builder::new_current_thread().build();
        runtime.unwrap_or_else(|error| unreachable!("{error}")).block_on(self.acquire(share))
    }

    async fn acquire(&self, share: HostShare) -> SemaphorePermit<'_> {
        let permits = self.0.acquire_many(share.size()).await;
        permits.unwrap_or_else(|_| unreachable!("the semaphore is never closed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HostShare::{Half, Quarter, Usual, Whole};
    use futures_util::FutureExt;
    use std::pin::pin;

    #[test]
    fn host_is_divided_into_as_many_parts_as_a_share_says() {
        for (share, parts) in [(Half, 2), (Quarter, 4), (Whole, 1), (Usual, Run::THREADS)] {
            let capacity = HostCapacity::new();
            let taken: Vec<_> = (0..parts).map(|_| capacity.take(share)).collect();
            assert_eq!(capacity.0.available_permits(), 0, "{share:?}");
            drop(taken);
            assert_eq!(capacity.0.available_permits(), HostShare::WHOLE as usize, "{share:?}");
        }
    }

    #[test]
    fn whole_share_is_granted_alone_and_before_later_requests() {
        let capacity = HostCapacity::new();
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
        assert_eq!(capacity.0.available_permits(), HostShare::WHOLE as usize);
    }
}
