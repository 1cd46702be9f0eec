//! Who waits for one name in this process, in the order in which they came.
//!
//! Nothing that a waiter does looks at all the others: thousands may wait for one name, and each of them comes back
//! some times a second.

use super::room::GRACE;
use leasehold_core::OwnerId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Waker;
use tokio::time::Instant;

/// How often somebody has come, to any line. A spot is of one line only, also if that is forgotten and begins anew.
static CAME: AtomicI64 = AtomicI64::new(0);

#[derive(Debug, Default)]
pub(super) struct Line {
    here: BTreeMap<Spot, Waiter>,
    /// Those who are not here: they ask for themselves, and will be back in a moment, or they have given up.
    away: HashMap<OwnerId, Absence>,
    /// The same, in the order in which they went. An owner may be in it more than once.
    went: VecDeque<(Instant, OwnerId)>,
    /// Of those who are to go on, until nobody has the lock of all rooms: a waker may do whatever it likes.
    to_wake: Vec<Waker>,
}

/// Where somebody stands. Lower is before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot(i64);

/// Gone when it is woken.
#[derive(Debug)]
struct Waiter {
    owner: OwnerId,
    wake: Option<Waker>,
}

/// Nobody stands there any more: whoever did was woken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Woken;

#[derive(Clone, Copy, Debug)]
struct Absence {
    since: Instant,
    spot: Spot,
}

impl Line {
    /// At the end, or where this owner stood a moment ago.
    pub(super) fn enter(&mut self, owner: OwnerId, now: Instant) -> Spot {
        self.give_up_on(now);
        let spot = self.away.remove(&owner).map_or_else(Spot::last, |absence| absence.spot);
        self.stand(spot, owner)
    }

    /// Before everybody else.
    pub(super) fn enter_first(&mut self, owner: OwnerId) -> Spot {
        self.away.remove(&owner);
        self.stand(Spot::first(), owner)
    }

    /// From now on, whoever stands there is woken by this waker. Answers the one that it replaces; an error if they
    /// were woken before.
    pub(super) fn listen(&mut self, spot: Spot, waker: &Waker) -> Result<Option<Waker>, Woken> {
        let wake = &mut self.here.get_mut(&spot).ok_or(Woken)?.wake;
        if wake.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return Ok(None);
        }
        Ok(wake.replace(waker.clone()))
    }

    /// Whoever stands there goes, and may be back. Answers their waker; an error if they were woken before.
    pub(super) fn leave(&mut self, spot: Spot, now: Instant) -> Result<Option<Waker>, Woken> {
        let waiter = self.here.remove(&spot).ok_or(Woken)?;
        self.away.insert(waiter.owner, Absence { since: now, spot });
        self.went.push_back((now, waiter.owner));
        Ok(waiter.wake)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty()
    }

    /// Takes out the first who is here, who [is to be woken](Self::take_wakers).
    pub(super) fn wake_first(&mut self) -> Option<OwnerId> {
        let (_, first) = self.here.pop_first()?;
        self.to_wake.extend(first.wake);
        Some(first.owner)
    }

    /// Takes out this owner, if it is here.
    pub(super) fn wake(&mut self, owner: OwnerId) {
        let spot = self.here.iter().find(|(_, waiter)| waiter.owner == owner).map(|(spot, _)| *spot);
        let waiter = spot.and_then(|spot| self.here.remove(&spot));
        self.to_wake.extend(waiter.and_then(|waiter| waiter.wake));
    }

    /// Who is to be woken as soon as the lock of all rooms is given back.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.to_wake)
    }

    fn stand(&mut self, spot: Spot, owner: OwnerId) -> Spot {
        self.here.insert(spot, Waiter { owner, wake: None });
        spot
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

impl Spot {
    fn last() -> Self {
        Self(1 + CAME.fetch_add(1, Ordering::Relaxed))
    }

    fn first() -> Self {
        Self(-Self::last().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;
    use std::time::Duration;

    fn owner(number: u128) -> OwnerId {
        OwnerId::from_u128(number)
    }

    /// The owners in the order in which they would be woken.
    fn order(line: &mut Line) -> Vec<OwnerId> {
        std::iter::from_fn(|| line.wake_first()).collect()
    }

    #[test]
    fn who_was_away_for_a_moment_stands_where_he_stood_and_who_was_for_longer_behind_all() {
        let (mut line, now) = (Line::default(), Instant::now());
        let [first, second, _] = [1, 2, 3].map(|number| line.enter(owner(number), now));
        line.leave(first, now).unwrap();
        line.leave(second, now).unwrap();
        line.enter(owner(2), now + GRACE - Duration::from_millis(1));
        line.enter(owner(1), now + GRACE);
        assert_eq!(order(&mut line), [owner(2), owner(3), owner(1)]);
    }

    #[test]
    fn who_comes_and_goes_again_and_again_leaves_nothing() {
        let (mut line, mut now) = (Line::default(), Instant::now());
        for _ in 0..1000 {
            let spot = line.enter(owner(1), now);
            line.leave(spot, now).unwrap();
            now += GRACE / 4;
        }
        line.enter(owner(1), now + GRACE);
        assert!(line.away.is_empty() && line.went.len() <= 8, "{line:?}");
    }

    #[test]
    fn who_was_woken_has_no_place_to_come_back_to() {
        let (mut line, now) = (Line::default(), Instant::now());
        let spot = line.enter(owner(1), now);
        line.enter(owner(2), now);
        assert_eq!(line.wake_first(), Some(owner(1)));
        assert_eq!(line.leave(spot, now).unwrap_err(), Woken);
        line.enter(owner(1), now);
        assert_eq!(order(&mut line), [owner(2), owner(1)]);
    }

    /// A future may be polled by another task than before.
    #[test]
    fn who_listens_last_is_woken_and_the_earlier_one_is_given_back() {
        let (mut line, woken) = (Line::default(), [Arc::<Counted>::default(), Arc::default()]);
        let spot = line.enter(owner(1), Instant::now());
        let [earlier, last] = woken.each_ref().map(|woken| Waker::from(Arc::clone(woken)));
        assert!(line.listen(spot, &earlier).unwrap().is_none());
        assert!(line.listen(spot, &last).unwrap().is_some_and(|it| it.will_wake(&earlier)));
        assert!(line.listen(spot, &last).unwrap().is_none());
        line.wake_first();
        line.take_wakers().into_iter().for_each(Waker::wake);
        assert!(line.take_wakers().is_empty());
        assert_eq!(woken.map(|it| it.0.load(Ordering::Relaxed)), [0, 1]);
    }

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_first_of_all_is_before_those_who_came_first() {
        let (mut line, now) = (Line::default(), Instant::now());
        line.enter(owner(1), now);
        line.enter_first(owner(2));
        line.enter_first(owner(3));
        assert_eq!(order(&mut line), [owner(3), owner(2), owner(1)]);
    }

    #[test]
    fn a_spot_of_a_line_that_was_forgotten_is_of_no_other() {
        let now = Instant::now();
        let [forgotten, of_another] = [1, 2].map(|number| Line::default().enter(owner(number), now));
        let mut line = Line::default();
        line.enter(owner(3), now);
        for spot in [forgotten, of_another] {
            assert_eq!(line.listen(spot, Waker::noop()).unwrap_err(), Woken);
            assert_eq!(line.leave(spot, now).unwrap_err(), Woken);
        }
        assert_eq!(order(&mut line), [owner(3)]);
    }
}
