//! The capacity of the host, which cases share.

use super::Run;
use crate::case::HostShare;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The capacity of the host in a run. Requests are served in their order, so that small shares never delay a large one for long.
#[derive(Debug)]
pub(crate) struct HostCapacity {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// The tickets of the waiting requests, in their order.
    line: VecDeque<u64>,
    next: u64,
}

/// A share of the capacity, until it is dropped.
#[derive(Debug)]
pub(crate) struct CapacityPermit<'a> {
    capacity: &'a HostCapacity,
    size: usize,
}

impl HostShare {
    const WHOLE: usize = 48;

    const fn size(self) -> usize {
        match self {
            Self::Usual => Self::WHOLE / Run::THREADS,
            Self::Quarter => Self::WHOLE / 4,
            Self::Half => Self::WHOLE / 2,
            Self::Whole => Self::WHOLE,
        }
    }
}

impl HostCapacity {
    pub(crate) const fn new() -> Self {
        let state = State { free: HostShare::WHOLE, line: VecDeque::new(), next: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until there is room for this share.
    pub(crate) fn take(&self, share: HostShare) -> CapacityPermit<'_> {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.line.push_back(ticket);
        while state.line.front() != Some(&ticket) || state.free < share.size() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.line.pop_front();
        state.free -= share.size();
        drop(state);
        // There may be room for the next one as well.
        self.changed.notify_all();
        CapacityPermit { capacity: self, size: share.size() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CapacityPermit<'_> {
    fn drop(&mut self) {
        self.capacity.lock().free += self.size;
        self.capacity.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HostShare::{Half, Quarter, Usual, Whole};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn there_are_as_many_parts_as_the_name_says() {
        for (share, parts) in [(Half, 2), (Quarter, 4), (Whole, 1), (Usual, Run::THREADS)] {
            let capacity = HostCapacity::new();
            let taken: Vec<_> = (0..parts).map(|_| capacity.take(share)).collect();
            assert_eq!(capacity.lock().free, 0, "{share:?}");
            drop(taken);
            assert_eq!(capacity.lock().free, HostShare::WHOLE, "{share:?}");
        }
    }

    #[test]
    fn whole_share_is_granted_alone_and_before_later_requests() {
        let capacity = HostCapacity::new();
        let (told, order) = channel();
        let first = capacity.take(Usual);
        std::thread::scope(|scope| {
            for (place, share) in [Whole, Usual].into_iter().enumerate() {
                let (told, capacity) = (told.clone(), &capacity);
                scope.spawn(move || {
                    let permit = capacity.take(share);
                    told.send((share, capacity.lock().free)).unwrap();
                    drop(permit);
                });
                while capacity.lock().line.len() <= place {
                    std::thread::yield_now();
                }
            }
            assert!(order.recv_timeout(Duration::from_millis(20)).is_err(), "the whole, beside a part");
            drop(first);
            assert_eq!(order.recv().unwrap(), (Whole, 0));
            assert_eq!(order.recv().unwrap(), (Usual, HostShare::WHOLE - Usual.size()));
        });
    }
}
