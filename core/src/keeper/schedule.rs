//! Which hold is to be looked at when.

use crate::Moment;
use std::collections::BTreeMap;
use std::time::Duration;

/// Entries in the order in which they fall due. `Entry` says where it stands by a [`Key`] that it keeps.
#[derive(Debug)]
pub(crate) struct Schedule<Entry> {
    entries: BTreeMap<Key, Entry>,
    next_number: u64,
    /// When the keeper will look next. An entry that is due earlier must wake it.
    planned: Moment,
}

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    due: Moment,
    number: u64,
}

impl<Entry> Schedule<Entry> {
    pub(crate) fn new() -> Self {
        Self { entries: BTreeMap::new(), next_number: 0, planned: Moment::NEVER }
    }

    /// Enters an entry. True if the keeper must be woken for it.
    ///
    /// It need not be for nearly all: with one ttl in use, a new entry falls due after all others. So acquiring a lock
    /// wakes no other thread, but for the first one after a quiet third of a lease.
    pub(crate) fn enter(&mut self, due: Moment, entry: impl FnOnce(Key) -> Entry) -> bool {
        let key = Key { due, number: self.next_number };
        self.next_number += 1;
        self.entries.insert(key, entry(key));
        let earlier = due < self.planned;
        if earlier {
            self.planned = due;
        }
        earlier
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.entries.remove(&key);
    }

    /// All of them, in the order in which they fall due.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Takes the entries that are due, and those that will be so soon, by their own `slack`, that they had better go
    /// along. None where none is due: what is to be tried again after a pause would have no pause.
    pub(crate) fn take_due(&mut self, now: Moment, slack: impl Fn(&Entry, Moment) -> Duration) -> Vec<Entry> {
        let mut due = Vec::new();
        if self.entries.first_key_value().is_none_or(|(key, _)| key.due > now) {
            return due;
        }
        while let Some(first) = self.entries.first_entry() {
            let at = first.key().due;
            if at > now.plus(slack(first.get(), at)) {
                break;
            }
            due.push(first.remove());
        }
        due
    }

    /// When to look next, and the promise to do so.
    ///
    /// A promise that stands is kept, though the entry that it was made for may be gone: without it, the next entry would
    /// wake the keeper again, and one lock after the other, each given back at once, would wake it for every one of them.
    pub(crate) fn plan(&mut self, now: Moment) -> Moment {
        if self.planned <= now {
            self.planned = self.entries.first_key_value().map_or(Moment::NEVER, |(key, _)| key.due);
        }
        self.planned
    }

    pub(crate) fn drain(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::since_origin(Duration::from_secs(seconds))
    }

    fn entry(name: &'static str) -> impl FnOnce(Key) -> (&'static str, Key) {
        move |key| (name, key)
    }

    fn names(due: Vec<(&'static str, Key)>) -> Vec<&'static str> {
        due.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn what_is_due_comes_in_order_and_takes_the_nearly_due_along() {
        let mut schedule = Schedule::new();
        for (due, name) in [(12, "c"), (10, "a"), (11, "b"), (20, "d")] {
            schedule.enter(at(due), entry(name));
        }
        assert_eq!(names(schedule.take_due(at(10), |_, _| Duration::from_secs(2))), ["a", "b", "c"]);
        assert_eq!(schedule.plan(at(10)), at(20));
    }

    #[test]
    fn nothing_goes_along_with_nothing() {
        let mut schedule = Schedule::new();
        schedule.enter(at(10), entry("nearly due"));
        let slack = |_: &_, _| Duration::from_secs(2);
        assert!(schedule.take_due(at(9), slack).is_empty());
        assert_eq!(names(schedule.take_due(at(10), slack)), ["nearly due"]);
    }

    #[test]
    fn only_an_earlier_entry_wakes_the_keeper() {
        let mut schedule = Schedule::new();
        assert!(schedule.enter(at(10), entry("first")));
        assert!(!schedule.enter(at(11), entry("later")));
        assert!(schedule.enter(at(9), entry("earlier")));
    }

    #[test]
    fn a_removed_entry_does_not_come() {
        let mut schedule = Schedule::new();
        let mut place = None;
        schedule.enter(at(10), |key| {
            place = Some(key);
            ("gone", key)
        });
        schedule.remove(place.unwrap());
        assert!(schedule.take_due(at(99), |_, _| Duration::ZERO).is_empty());
        assert_eq!(schedule.plan(at(99)), Moment::NEVER);
    }

    #[test]
    fn entries_that_go_before_they_are_due_wake_the_keeper_once_in_the_time_of_one() {
        let mut schedule = Schedule::new();
        let mut wakes = 0;
        for second in 0..100 {
            let mut place = None;
            let wake = schedule.enter(at(second + 10), |key| place = Some(key));
            schedule.remove(place.unwrap());
            if wake || schedule.planned == at(second) {
                wakes += 1;
                schedule.plan(at(second));
            }
        }
        assert!(wakes <= 20, "{wakes}");
    }

    #[test]
    fn the_keeper_is_woken_for_what_comes_before_what_it_waits_for_alone() {
        let at = |seconds| Moment::since_origin(Duration::from_secs(seconds));
        let mut schedule = Schedule::new();
        let wakes: Vec<bool> = [9, 9, 10, 8].map(|due| schedule.enter(at(due), |_| ())).into();
        assert_eq!(wakes, [true, false, false, true]);
        assert_eq!(schedule.plan(at(7)), at(8));
        assert!(!schedule.enter(at(8), |_| ()));
        assert_eq!(schedule.drain().len(), 5);
        assert_eq!(schedule.plan(at(8)), Moment::NEVER);
    }
}
