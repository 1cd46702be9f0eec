//! How long this process has had the lock in a row, where the store arranges no order: there a process that asks again as soon as
//! it gives up is always quicker than others, who look now and then, or have to be woken.

use super::super::LocalQueue;
use crate::Moment;
use std::time::Duration;

/// How much longer than the pause after it a run is, at least: so no more than a fifth of the time is lost.
const PAUSES: u32 = 4;

/// How often a run may become twice as long for one that meets nobody. Not the first time that nobody came: that may be luck, and
/// two who compete would have longer and longer runs by it.
const MOST_DOUBLINGS: u32 = 3;

/// The turns of this process since another could have had the lock.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// When the first of them began; `None` if there was none.
    began: Option<Moment>,
    /// When the last of them was given up.
    given_up: Option<Moment>,
    stands_back_until: Option<Moment>,
    /// How often it stood back in a row, and nobody came.
    alone: u32,
}

impl Run {
    /// Until when the next question has to wait, so that others come before.
    pub(super) fn stands_back_until(&self, now: Moment) -> Option<Moment> {
        self.stands_back_until.filter(|until| now < *until)
    }

    /// The store has granted a turn. One that comes late is the first of another run: others could have had the lock.
    pub(super) fn taken(&mut self, now: Moment, pause: Duration) {
        if self.stands_back_until.take().is_some() {
            self.alone = (self.alone + 1).min(MOST_DOUBLINGS + 1);
        }
        let goes_on = self.given_up.take().is_some_and(|at| now < at.plus(pause));
        self.began = self.began.filter(|_| goes_on).or(Some(now));
    }

    /// Another one has it.
    pub(super) fn refused(&mut self) {
        *self = Self::default();
    }

    /// A turn was given back while others of this process wait.
    pub(super) fn given_up(&mut self, now: Moment, pause: Duration) {
        self.given_up = Some(now);
        let longest = LocalQueue::LONGEST_TURN.max(pause * PAUSES) * 2_u32.pow(self.alone.saturating_sub(1));
        if self.began.is_some_and(|began| now >= began.plus(longest)) {
            (self.began, self.stands_back_until) = (None, Some(now.plus(pause)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(25);

    fn at(millis: u64) -> Moment {
        Moment::since_origin(Duration::from_millis(millis))
    }

    #[test]
    fn short_turns_follow_each_other_and_after_a_while_others_look_first() {
        let mut run = Run::default();
        for millis in (0..100).step_by(2) {
            run.taken(at(millis), PAUSE);
            run.given_up(at(millis + 1), PAUSE);
            assert_eq!(run.stands_back_until(at(millis + 1)), None, "{millis}");
        }
        run.taken(at(100), PAUSE);
        run.given_up(at(101), PAUSE);
        assert_eq!(run.stands_back_until(at(101)), Some(at(126)));
        assert_eq!(run.stands_back_until(at(126)), None);
    }

    #[test]
    fn turns_with_a_pause_between_them_are_no_run() {
        let mut run = Run::default();
        for millis in (0..1000).step_by(30) {
            run.taken(at(millis), PAUSE);
            run.given_up(at(millis + 1), PAUSE);
            assert_eq!(run.stands_back_until(at(millis + 1)), None, "{millis}");
        }
    }

    /// A pause is lost where nobody else wants the lock, so it becomes rare there; and is what it was as soon as somebody does.
    #[test]
    fn who_meets_nobody_stands_back_more_rarely() {
        let mut run = Run::default();
        let mut now = 0;
        let mut length_of_a_run = |run: &mut Run| {
            let began = now;
            loop {
                run.taken(at(now), PAUSE);
                run.given_up(at(now + 100), PAUSE);
                now += 100;
                if run.stands_back_until(at(now)).is_some() {
                    now += 25;
                    return now - began - 25;
                }
            }
        };
        let runs: Vec<u64> = (0..6).map(|_| length_of_a_run(&mut run)).collect();
        assert_eq!(runs, [100, 100, 200, 400, 800, 800]);
        run.refused();
        assert_eq!(length_of_a_run(&mut run), 100);
    }
}
