//! The schedule: when each lease falls due.

use crate::Moment;
use std::collections::BTreeMap;
use std::time::Duration;

/// Entries in the order in which they fall due. An entry keeps its [`Key`].
#[derive(Debug)]
pub(crate) struct Schedule<Entry> {
    entries: BTreeMap<Key, Entry>,
    next_number: u64,
    /// When the keeper wakes up by itself. An entry that is due earlier must wake it.
    planned: Moment,
}

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
    /// Nearly no entry does: with one ttl in use, a new entry falls due after all others. So acquiring a lock wakes no
    /// other thread, except for the first lock after a quiet third of a lease.
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

    /// Takes the entries that are due, and those that fall due within their `slack`. Takes none if none is due: a retry
    /// after a pause would lose its pause.
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

    /// When the keeper wakes up next. It must do so.
    ///
    /// An earlier plan is kept though its entry may be gone. Otherwise the next entry would wake the keeper again, and locks
    /// that are acquired and released one after the other would wake it for each of them.
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
    fn due_entries_come_in_order_with_those_within_their_slack() {
        let mut schedule = Schedule::new();
        for (due, name) in [(12, "c"), (10, "a"), (11, "b"), (20, "d")] {
            schedule.enter(at(due), entry(name));
        }
        assert_eq!(names(schedule.take_due(at(10), |_, _| Duration::from_secs(2))), ["a", "b", "c"]);
        assert_eq!(schedule.plan(at(10)), at(20));
    }

    #[test]
    fn nearly_due_entry_is_not_taken_alone() {
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
    fn removed_entry_is_not_taken() {
        let mut schedule = Schedule::new();
        let mut entered = None;
        schedule.enter(at(10), |key| {
            entered = Some(key);
            ("gone", key)
        });
        schedule.remove(entered.unwrap());
        assert!(schedule.take_due(at(99), |_, _| Duration::ZERO).is_empty());
        assert_eq!(schedule.plan(at(99)), Moment::NEVER);
    }

    #[test]
    fn entries_removed_before_they_are_due_wake_the_keeper_once_per_period() {
        let mut schedule = Schedule::new();
        let mut wakes = 0;
        for second in 0..100 {
            let mut entered = None;
            let wake = schedule.enter(at(second + 10), |key| entered = Some(key));
            schedule.remove(entered.unwrap());
            if wake || schedule.planned == at(second) {
                wakes += 1;
                schedule.plan(at(second));
            }
        }
        assert!(wakes <= 20, "{wakes}");
    }

    #[test]
    fn entry_at_the_planned_moment_wakes_nothing() {
        let mut schedule = Schedule::new();
        let wakes: Vec<bool> = [9, 9, 10, 8].map(|due| schedule.enter(at(due), |_| ())).into();
        assert_eq!(wakes, [true, false, false, true]);
        assert_eq!(schedule.plan(at(7)), at(8));
        assert!(!schedule.enter(at(8), |_| ()));
        assert_eq!(schedule.drain().len(), 5);
        assert_eq!(schedule.plan(at(8)), Moment::NEVER);
    }
}
