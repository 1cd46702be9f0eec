//! The holds of a history, lock by lock: those of one name, or of one slot of a semaphore.

use crate::history::{Acquisition, History, HoldRecord};
use leasehold_core::LockMode;
use std::borrow::Cow;
use std::collections::BTreeSet;

pub(super) type GrantedHold<'a> = (&'a Acquisition, &'a HoldRecord);

/// One lock, and all that concerns it.
pub(super) struct Lock<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) slot: Option<u32>,
    /// The attempts. Those on a semaphore concern each of its slots: a refused one found all of them held.
    pub(super) all: Vec<&'a Acquisition>,
    pub(super) grants: Vec<GrantedHold<'a>>,
}

pub(super) fn locks(history: &History) -> Vec<Lock<'_>> {
    let mut groups: Vec<[Vec<&Acquisition>; 2]> = history.names.iter().map(|_| Default::default()).collect();
    for one in &history.acquisitions {
        groups[one.name as usize][usize::from(one.permits.is_some())].push(one);
    }
    let mut locks = Vec::new();
    for (name, [plain, permits]) in history.names.iter().zip(groups) {
        let limit = permits.iter().filter_map(|one| one.permits).max().unwrap_or_default();
        let granted = permits.iter().filter_map(|one| one.hold()?.slot);
        for slot in granted.chain(0..limit).collect::<BTreeSet<u32>>() {
            let grants = permits.iter().filter_map(|one| Some((*one, one.hold()?)));
            let grants = grants.filter(|(_, hold)| hold.slot == Some(slot)).collect();
            let name = Cow::Owned(format!("{name}::slot:{slot}"));
            locks.push(Lock { name, slot: Some(slot), all: permits.clone(), grants });
        }
        if !plain.is_empty() {
            let grants = plain.iter().filter_map(|one| Some((*one, one.hold()?))).collect();
            locks.push(Lock { name: Cow::Borrowed(name), slot: None, all: plain, grants });
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
