//! For which names there was a queue when this process looked last.
//!
//! A hint. It chooses between two ways to ask that both are right: without the keys of the queue, which is a tenth cheaper
//! and has to be said again if somebody waits after all, or with them at once. So it may forget, and take one name for
//! another.

use leasehold_core::LockName;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Names that are remembered at most.
const SLOTS: usize = 1024;

#[derive(Debug)]
pub(crate) struct Contention {
    hasher: RandomState,
    /// The digest of a name, 0 for none, each at the place that it chooses itself.
    names: Box<[AtomicU64]>,
    /// How many there are. None, as a rule: then no name need be digested to be looked up.
    count: AtomicUsize,
}

impl Contention {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            names: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicUsize::new(0),
        }
    }

    pub(crate) fn is_expected(&self, name: &LockName) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let (slot, digest) = self.slot(name);
        slot.is_some_and(|slot| slot.load(Ordering::Relaxed) == digest)
    }

    /// Somebody waits for it.
    pub(crate) fn seen(&self, name: &LockName) {
        if let (Some(slot), digest) = self.slot(name)
            && slot.swap(digest, Ordering::Relaxed) == 0
        {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Nobody does any more.
    pub(crate) fn over(&self, name: &LockName) {
        // Nothing to do if another name has taken the place, and nothing lost if this fails for any reason.
        if let (Some(slot), digest) = self.slot(name)
            && slot.compare_exchange(digest, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn slot(&self, name: &LockName) -> (Option<&AtomicU64>, u64) {
        let digest = self.hasher.hash_one(name.as_str()) | 1;
        let place = (digest >> 1) as usize % SLOTS;
        (self.names.get(place), digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_expected_until_it_is_over() {
        let contention = Contention::new();
        let (one, other) = (LockName::new("one").unwrap(), LockName::new("other").unwrap());
        assert!(!contention.is_expected(&one));
        contention.seen(&one);
        assert!(contention.is_expected(&one));
        contention.over(&one);
        contention.over(&other);
        assert!(!contention.is_expected(&one) && !contention.is_expected(&other));
    }

    #[test]
    fn it_forgets_rather_than_grows() {
        let contention = Contention::new();
        for number in 0..10 * SLOTS {
            contention.seen(&LockName::new(format!("name/{number}")).unwrap());
        }
        assert_eq!(contention.names.len(), SLOTS);
    }

    #[test]
    fn a_name_that_is_seen_or_over_twice_counts_once() {
        let contention = Contention::new();
        let (one, other) = (LockName::new("one").unwrap(), LockName::new("other").unwrap());
        for name in [&one, &one, &other] {
            contention.seen(name);
        }
        for name in [&one, &one] {
            contention.over(name);
        }
        assert!(contention.is_expected(&other));
        contention.over(&other);
        assert_eq!(contention.count.into_inner(), 0);
    }
}
