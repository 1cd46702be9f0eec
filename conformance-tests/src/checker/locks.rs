//! The holds of a history, lock by lock: those of one name, or of one slot of a semaphore.

use crate::history::{Acquisition, History};
use leasehold_core::LockMode;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// One lock, and all that concerns it.
pub(super) struct Lock<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) slot: Option<u32>,
    /// The attempts. Those on a semaphore concern each of its slots: a refused one found all of them held.
    pub(super) all: Vec<&'a Acquisition>,
    pub(super) grants: Vec<&'a Acquisition>,
}

pub(super) fn locks(history: &History) -> Vec<Lock<'_>> {
    let mut groups = BTreeMap::<(&str, bool), Vec<&Acquisition>>::new();
    for one in &history.acquisitions {
        groups.entry((&one.name, one.permits.is_none())).or_default().push(one);
    }
    let mut locks = Vec::new();
    for ((name, is_plain), all) in groups {
        let granted: Vec<&Acquisition> = all.iter().copied().filter(|one| one.is_granted()).collect();
        let limit = all.iter().filter_map(|one| one.permits).max().unwrap_or_default();
        let slots = granted.iter().filter_map(|one| one.hold.slot).chain(0..limit).map(Some);
        let slots = if is_plain { BTreeSet::from([None]) } else { slots.collect() };
        for slot in slots {
            let name = match slot {
                Some(slot) => Cow::Owned(format!("{name}::slot:{slot}")),
                None => Cow::Borrowed(name),
            };
            let grants = granted.iter().copied().filter(|one| is_plain || one.hold.slot == slot).collect();
            locks.push(Lock { name, slot, all: all.clone(), grants });
        }
    }
    locks
}

/// The holds with the largest key so far: of all, and of those that are not shared.
pub(super) struct Largest<K, T> {
    any: Option<(K, T)>,
    exclusive: Option<(K, T)>,
}

impl<K: Ord + Copy, T: Copy> Largest<K, T> {
    pub(super) const NONE: Self = Self { any: None, exclusive: None };

    /// The largest of those that conflict with this mode.
    pub(super) fn against(&self, mode: LockMode) -> Option<(K, T)> {
        if mode.is_shared() { self.exclusive } else { self.any }
    }

    pub(super) fn add(&mut self, mode: LockMode, key: K, hold: T) {
        let larger = |before: Option<(K, T)>| match before {
            Some(before) if before.0 >= key => Some(before),
            _ => Some((key, hold)),
        };
        self.any = larger(self.any);
        if !mode.is_shared() {
            self.exclusive = larger(self.exclusive);
        }
    }
}
