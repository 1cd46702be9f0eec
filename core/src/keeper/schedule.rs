//! The schedule: when each lease falls due.

use crate::{Moment, OwnerId};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Entries in the order in which they fall due, each known by its owner.
#[derive(Debug)]
pub(super) struct LeaseSchedule<Entry> {
    entries: BTreeMap<Key, Entry>,
    keys: HashMap<OwnerId, Key>,
    next_number: u64,
    /// When the keeper wakes up by itself. An entry that is due earlier must wake it.
    planned: Moment,
}

/// When an entry is due, and a number that keeps entries of one moment apart.
type Key = (Moment, u64);

impl<Entry: Clone> LeaseSchedule<Entry> {
    pub(super) fn new() -> Self {
        Self { entries: BTreeMap::new(), keys: HashMap::new(), next_number: 0, planned: Moment::NEVER }
    }

    /// Enters an entry. True if the keeper must be woken for it: nearly never, because with one ttl in use a new entry falls
    /// due after all others.
    pub(super) fn enter(&mut self, owner: OwnerId, due: Moment, entry: Entry) -> bool {
        let key = (due, self.next_number);
        self.next_number += 1;
        self.keys.insert(owner, key);
        self.entries.insert(key, entry);
        let is_earlier = due < self.planned;
        self.planned = self.planned.min(due);
        is_earlier
    }

    /// Moves an entry. True if the keeper must be woken for it. An entry that was removed meanwhile stays so.
    pub(super) fn move_to(&mut self, owner: OwnerId, due: Moment) -> bool {
        self.remove(owner).is_some_and(|entry| self.enter(owner, due, entry))
    }

    pub(super) fn entry(&self, owner: OwnerId) -> Option<&Entry> {
        self.entries.get(self.keys.get(&owner)?)
    }

    pub(super) fn remove(&mut self, owner: OwnerId) -> Option<Entry> {
        self.entries.remove(&self.keys.remove(&owner)?)
    }

    /// The entries that are due, and those that fall due within their `slack`. None if none is due: a retry after a pause
    /// would lose its pause.
    pub(super) fn due(&self, now: Moment, slack: impl Fn(&Entry, Moment) -> Duration) -> Vec<Entry> {
        if self.entries.first_key_value().is_none_or(|((due, _), _)| *due > now) {
            return Vec::new();
        }
        let is_due = |((due, _), entry): &(&Key, &Entry)| *due <= now.plus(slack(entry, *due));
        self.entries.iter().take_while(is_due).map(|(_, entry)| entry.clone()).collect()
    }

    /// When the keeper wakes up next. It must do so.
    ///
    /// An earlier plan is kept though its entry may be gone. Otherwise the next entry would wake the keeper again, and locks
    /// that are acquired and released one after the other would wake it for each of them.
    pub(super) fn plan(&mut self, now: Moment) -> Moment {
        if self.planned <= now {
            self.planned = self.entries.first_key_value().map_or(Moment::NEVER, |((due, _), _)| *due);
        }
        self.planned
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn drain(&mut self) -> Vec<Entry> {
        self.keys.clear();
        std::mem::take(&mut self.entries).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::since_origin(Duration::from_secs(seconds))
    }

    /// A schedule with an entry at each of these seconds, numbered in this order.
    fn schedule<const N: usize>(dues: [u64; N]) -> (LeaseSchedule<u128>, [bool; N]) {
        let mut schedule = LeaseSchedule::new();
        let mut number = 0;
        let wakes = dues.map(|due| {
            number += 1;
            schedule.enter(OwnerId::from_u128(number), at(due), number)
        });
        (schedule, wakes)
    }

    #[test]
    fn due_entries_come_in_order_with_those_within_their_slack() {
        let (mut schedule, _) = schedule([12, 10, 11, 20]);
        assert_eq!(schedule.due(at(10), |_, _| Duration::from_secs(2)), [2, 3, 1]);
        for number in [2, 3, 1] {
            schedule.remove(OwnerId::from_u128(number));
        }
        assert_eq!(schedule.plan(at(10)), at(20));
    }

    #[test]
    fn nearly_due_entry_is_not_taken_alone() {
        let (schedule, _) = schedule([10]);
        let slack = |_: &_, _| Duration::from_secs(2);
        assert!(schedule.due(at(9), slack).is_empty());
        assert_eq!(schedule.due(at(10), slack), [1]);
    }

    #[test]
    fn only_an_earlier_entry_wakes_the_keeper() {
        let (mut schedule, wakes) = schedule([9, 9, 10, 8]);
        assert_eq!(wakes, [true, false, false, true]);
        assert_eq!(schedule.plan(at(7)), at(8));
        assert!(!schedule.enter(OwnerId::from_u128(5), at(8), 5));
        assert_eq!(schedule.drain().len(), 5);
        assert_eq!(schedule.plan(at(8)), Moment::NEVER);
    }

    #[test]
    fn removed_entry_is_not_due_and_stays_removed() {
        let (mut schedule, _) = schedule([10]);
        let owner = OwnerId::from_u128(1);
        assert_eq!(schedule.remove(owner), Some(1));
        assert!(!schedule.move_to(owner, at(5)));
        assert!(schedule.due(at(99), |_, _| Duration::ZERO).is_empty());
        assert_eq!(schedule.plan(at(99)), Moment::NEVER);
    }

    #[test]
    fn moved_entry_is_due_once_at_its_new_moment() {
        let (mut schedule, _) = schedule([10, 20]);
        assert!(!schedule.move_to(OwnerId::from_u128(1), at(30)));
        assert!(schedule.move_to(OwnerId::from_u128(2), at(5)));
        assert_eq!(schedule.due(at(15), |_, _| Duration::ZERO), [2]);
        assert_eq!(schedule.due(at(99), |_, _| Duration::ZERO), [2, 1]);
    }

    #[test]
    fn entries_removed_before_they_are_due_wake_the_keeper_once_per_period() {
        let mut schedule = LeaseSchedule::new();
        let (owner, mut wakes) = (OwnerId::from_u128(1), 0);
        for second in 0..100 {
            let wake = schedule.enter(owner, at(second + 10), ());
            schedule.remove(owner);
            if wake || schedule.planned == at(second) {
                wakes += 1;
                schedule.plan(at(second));
            }
        }
        assert!(wakes <= 20, "{wakes}");
    }
}
