//! For which names there was a queue when this process looked last.
//!
//! A hint. It chooses between two ways to ask that both are right: without the keys of the queue, which is a tenth cheaper
//! and has to be said again if somebody waits after all, or with them at once. So it may forget, and take one name for
//! another.
//!
//! A queue is over when nobody stood in it at two releases in a row. One is not enough: where two take turns, each comes
//! back in the moment in which the other releases. Who came a little too late to be handed the lock would have to ask
//! twice the next time, and that while the other one waits for it.

use leasehold_core::LockName;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Names that are remembered at most.
const SLOTS: usize = 1024;
/// Of a digest: nobody waited when it was released last.
const FADING: u64 = 2;

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
        slot.is_some_and(|slot| slot.load(Ordering::Relaxed) & !FADING == digest)
    }

    /// Somebody waits for it.
    pub(crate) fn seen(&self, name: &LockName) {
        if let (Some(slot), digest) = self.slot(name)
            && slot.swap(digest, Ordering::Relaxed) == 0
        {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Nobody did when it was released.
    pub(crate) fn not_seen(&self, name: &LockName) {
        // Nothing to do if another name has taken the place, and nothing lost if this fails for any reason.
        let (Some(slot), digest) = self.slot(name) else { return };
        let turn = |from, to| slot.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !turn(digest, digest | FADING) && turn(digest | FADING, 0) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn slot(&self, name: &LockName) -> (Option<&AtomicU64>, u64) {
        let digest = self.hasher.hash_one(name.as_str()) & !FADING | 1;
        let place = (digest >> 2) as usize % SLOTS;
        (self.names.get(place), digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_expected_until_it_was_not_seen_twice_in_a_row() {
        let contention = Contention::new();
        let (one, other) = (LockName::new("one").unwrap(), LockName::new("other").unwrap());
        assert!(!contention.is_expected(&one));
        for _ in 0..3 {
            contention.seen(&one);
            contention.not_seen(&one);
            contention.not_seen(&other);
            assert!(contention.is_expected(&one));
        }
        contention.not_seen(&one);
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
    fn a_name_that_is_seen_or_forgotten_twice_counts_once() {
        let contention = Contention::new();
        let (one, other) = (LockName::new("one").unwrap(), LockName::new("other").unwrap());
        for name in [&one, &one, &other] {
            contention.seen(name);
        }
        for name in [&one, &one, &one, &one] {
            contention.not_seen(name);
        }
        assert!(contention.is_expected(&other));
        for name in [&other, &other] {
            contention.not_seen(name);
        }
        assert_eq!(contention.count.into_inner(), 0);
    }
}
