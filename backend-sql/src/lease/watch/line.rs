//! Who waits for one name in this process, in the order in which they came.
//!
//! Nothing that a waiter does looks at all the others: thousands may wait for one name, and each of them comes back
//! some times a second.

use super::room::GRACE;
use leasehold_core::OwnerId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use tokio::sync::oneshot;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Line {
    here: BTreeMap<Spot, Waiter>,
    /// Those who are not here: they ask for themselves, and will be back in a moment, or they have given up.
    away: HashMap<OwnerId, Absence>,
    /// The same, in the order in which they went. An owner may be in it more than once.
    went: VecDeque<(Instant, OwnerId)>,
    front: i64,
    back: i64,
}

/// Where somebody stands. Lower is before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot(i64);

#[derive(Debug)]
struct Waiter {
    owner: OwnerId,
    wake: oneshot::Sender<()>,
}

#[derive(Clone, Copy, Debug)]
struct Absence {
    since: Instant,
    spot: Spot,
}

impl Line {
    /// At the end, or where he stood a moment ago.
    pub(super) fn enter(&mut self, owner: OwnerId, now: Instant) -> (Spot, oneshot::Receiver<()>) {
        self.give_up_on(now);
        let spot = match self.away.remove(&owner) {
            Some(absence) => absence.spot,
            None => {
                self.back += 1;
                Spot(self.back)
            }
        };
        self.stand(spot, owner)
    }

    /// Before everybody else.
    pub(super) fn enter_first(&mut self, owner: OwnerId) -> (Spot, oneshot::Receiver<()>) {
        self.away.remove(&owner);
        self.front -= 1;
        self.stand(Spot(self.front), owner)
    }

    /// Whoever stands there goes, if he was not woken, and may be back.
    pub(super) fn leave(&mut self, spot: Spot, now: Instant) {
        if let Some(waiter) = self.here.remove(&spot) {
            self.away.insert(waiter.owner, Absence { since: now, spot });
            self.went.push_back((now, waiter.owner));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty()
    }

    /// Wakes the first who is here, and takes him out.
    pub(super) fn wake_first(&mut self) -> Option<OwnerId> {
        while let Some((_, waiter)) = self.here.pop_first() {
            if waiter.wake.send(()).is_ok() {
                return Some(waiter.owner);
            }
        }
        None
    }

    /// Wakes one of them, if he is here.
    pub(super) fn wake(&mut self, owner: OwnerId) {
        let spot = self.here.iter().find(|(_, waiter)| waiter.owner == owner).map(|(spot, _)| *spot);
        if let Some(waiter) = spot.and_then(|spot| self.here.remove(&spot)) {
            let _ = waiter.wake.send(());
        }
    }

    fn stand(&mut self, spot: Spot, owner: OwnerId) -> (Spot, oneshot::Receiver<()>) {
        let (wake, woken) = oneshot::channel();
        self.here.insert(spot, Waiter { owner, wake });
        (spot, woken)
    }

    /// Keeps no place for those who have been away for long.
    fn give_up_on(&mut self, now: Instant) {
        while let Some((since, owner)) = self.went.pop_front_if(|(since, _)| now >= *since + GRACE) {
            if self.away.get(&owner).is_some_and(|absence| absence.since == since) {
                self.away.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn owner(number: u128) -> OwnerId {
        OwnerId::from_u128(number)
    }

    /// The owners in the order in which they would be woken, with their ends kept open.
    fn order(line: &mut Line) -> Vec<OwnerId> {
        std::iter::from_fn(|| line.wake_first()).collect()
    }

    #[test]
    fn who_was_away_for_a_moment_stands_where_he_stood_and_who_was_for_longer_behind_all() {
        let (mut line, now) = (Line::default(), Instant::now());
        let mut ends: Vec<_> = (1..=3).map(|number| line.enter(owner(number), now)).collect();
        let (first, second) = (ends[0].0, ends[1].0);
        line.leave(first, now);
        line.leave(second, now);
        ends.push(line.enter(owner(2), now + GRACE - Duration::from_millis(1)));
        ends.push(line.enter(owner(1), now + GRACE));
        assert_eq!(order(&mut line), [owner(2), owner(3), owner(1)]);
    }

    #[test]
    fn who_comes_and_goes_again_and_again_leaves_nothing() {
        let (mut line, mut now) = (Line::default(), Instant::now());
        for _ in 0..1000 {
            let (spot, _end) = line.enter(owner(1), now);
            line.leave(spot, now);
            now += GRACE / 4;
        }
        let _end = line.enter(owner(1), now + GRACE);
        assert!(line.away.is_empty() && line.went.len() <= 8, "{line:?}");
    }

    #[test]
    fn who_was_woken_has_no_place_to_come_back_to() {
        let (mut line, now) = (Line::default(), Instant::now());
        let (spot, _first) = line.enter(owner(1), now);
        let _second = line.enter(owner(2), now);
        assert_eq!(line.wake_first(), Some(owner(1)));
        line.leave(spot, now);
        let _first = line.enter(owner(1), now);
        assert_eq!(order(&mut line), [owner(2), owner(1)]);
    }

    #[test]
    fn the_first_of_all_is_before_those_who_came_first() {
        let (mut line, now) = (Line::default(), Instant::now());
        let _ends = [line.enter(owner(1), now), line.enter_first(owner(2)), line.enter_first(owner(3))];
        assert_eq!(order(&mut line), [owner(3), owner(2), owner(1)]);
    }

    #[test]
    fn who_is_gone_without_a_word_is_passed_over() {
        let (mut line, now) = (Line::default(), Instant::now());
        drop(line.enter(owner(1), now));
        let _second = line.enter(owner(2), now);
        assert_eq!(line.wake_first(), Some(owner(2)));
    }
}
