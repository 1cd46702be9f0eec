use super::line::Line;
use crate::sync::Mutex;
use crate::{LockName, locked};
use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::task::Waker;

/// The names are spread over so many mutexes.
const SHARDS: usize = 16;
/// Whenever a line is added, so many others are looked at: more than one, so that the rounds grow no longer than that.
const LOOKS: usize = 2;

/// The lines of all names that somebody here wants, has, or has still to end.
#[derive(Default)]
pub(super) struct Lines {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    lines: HashMap<LockName, Numbered>,
    /// All lines, by their numbers, in the order in which they are looked at: nobody may ever ask for a name again. Some
    /// are forgotten by now.
    rounds: VecDeque<(LockName, u64)>,
    /// How many lines there have been.
    added: u64,
    /// True of a line that is forgotten: see [`Line`].
    has_retired: bool,
}

struct Numbered {
    line: Line,
    /// Tells it from an earlier one of the same name, which stands in the rounds yet.
    number: u64,
}

impl Lines {
    /// Asks the line of this name, forgets it if it is empty then, and wakes who is to hear of it. If there was none of this
    /// name, a few others are swept.
    pub(super) fn ask<T>(
        &self,
        name: &LockName,
        ask: impl FnOnce(&mut Line) -> T,
        sweep: impl Fn(&mut Line),
    ) -> T {
        let shard = self.hasher.hash_one(name) as usize % SHARDS;
        let Some(shard) = self.shards.get(shard) else {
            return ask(&mut Line::default());
        };
        let mut shard = locked(shard);
        let (answer, to_wake) = shard.ask(name, ask, sweep);
        drop(shard);
        to_wake.into_iter().for_each(Waker::wake);
        answer
    }

    /// The first that is found in any line.
    pub(super) fn find<T>(&self, find: impl Fn(&Line) -> Option<T>) -> Option<T> {
        self.shards.iter().find_map(|shard| locked(shard).lines.values().find_map(|it| find(&it.line)))
    }

    #[cfg(test)]
    pub(super) fn are_free(&self) -> bool {
        self.shards.iter().all(|shard| shard.try_lock().is_ok())
    }
}

impl Shard {
    fn ask<T>(
        &mut self,
        name: &LockName,
        ask: impl FnOnce(&mut Line) -> T,
        sweep: impl Fn(&mut Line),
    ) -> (T, Vec<Waker>) {
        let mut to_wake = Vec::new();
        let Numbered { line, .. } = match self.lines.get_mut(name) {
            Some(found) => found,
            None => {
                to_wake = self.look_around(sweep);
                self.add(name)
            }
        };
        let answer = ask(line);
        to_wake.append(&mut line.take_wakers());
        if line.is_empty() {
            self.has_retired |= line.has_retired();
            self.lines.remove(name);
        }
        (answer, to_wake)
    }

    fn add(&mut self, name: &LockName) -> &mut Numbered {
        self.added += 1;
        self.rounds.push_back((name.clone(), self.added));
        let (line, number) = (Line::after(self.has_retired), self.added);
        self.lines.entry(name.clone()).or_insert(Numbered { line, number })
    }

    /// Sweeps the next few lines. Who is to be woken.
    fn look_around(&mut self, sweep: impl Fn(&mut Line)) -> Vec<Waker> {
        let mut to_wake = Vec::new();
        for _ in 0..LOOKS {
            let Some((name, number)) = self.rounds.pop_front() else { break };
            let Some(found) = self.lines.get_mut(&name).filter(|it| it.number == number) else { continue };
            sweep(&mut found.line);
            to_wake.append(&mut found.line.take_wakers());
            if found.line.is_empty() {
                self.has_retired |= found.line.has_retired();
                self.lines.remove(&name);
            } else {
                self.rounds.push_back((name, number));
            }
        }
        to_wake
    }
}

#[cfg(test)]
mod tests {
    use super::super::LocalQueue;
    use super::super::line::Rules;
    use super::*;
    use crate::{Claim, HoldKind, Moment, OwnerId};
    use std::cell::Cell;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    fn name(number: usize) -> LockName {
        LockName::new(format!("job {number}")).unwrap()
    }

    fn rules() -> Rules {
        let queue = LocalQueue::new(8).unwrap();
        Rules { queue, patience: SECOND, gone_after: SECOND * 60, hold: HoldKind::Lease, stand_back: None }
    }

    /// Somebody waits for this one.
    fn wanted(shard: &mut Shard, number: usize) {
        let claim = Claim::new(name(number), OwnerId::from_u128(1), SECOND, "".into()).with_waiting(true);
        shard.ask(&name(number), |line| drop(line.next(&claim, Moment::ORIGIN, &rules())), |_| ());
    }

    #[test]
    fn each_line_is_looked_at_in_its_turn_and_only_a_few_with_each_new_name() {
        let mut shard = Shard::default();
        (0..100).for_each(|number| wanted(&mut shard, number));
        for round in 1..=3 {
            let looks = Cell::new(0);
            for _ in 0..100 {
                shard.ask(&name(1000), |_| (), |_| looks.set(looks.get() + 1));
                assert!(shard.rounds.len() <= 2 * 101, "{} in round {round}", shard.rounds.len());
            }
            assert!((100..=200).contains(&looks.get()), "{} looks in round {round}", looks.get());
        }
        shard.ask(&name(5), |_| (), |_| panic!("the name is known"));
    }

    #[test]
    fn a_name_that_comes_and_goes_and_stays_is_in_the_rounds_once() {
        let mut shard = Shard::default();
        for stays in 0..100 {
            for _ in 0..50 {
                shard.ask(&name(stays), |_| (), |_| ());
            }
            wanted(&mut shard, stays);
            assert!(shard.rounds.len() <= 2 * shard.lines.len() + LOOKS, "{}", shard.rounds.len());
        }
    }

    /// Their runtime is gone: nobody asks with these names again.
    #[test]
    fn what_nobody_asks_for_any_more_is_forgotten_while_other_names_come_and_go() {
        let mut shard = Shard::default();
        (0..100).for_each(|number| wanted(&mut shard, number));
        // They are taken out, and then what their questions may have left has ended.
        for now in [60, 61].map(|seconds| Moment::since_origin(SECOND * seconds)) {
            (0..200).for_each(|_| shard.ask(&name(1000), |_| (), |line| line.sweep(now, &rules())).0);
        }
        assert!(shard.lines.is_empty() && shard.rounds.len() <= LOOKS, "{} left", shard.lines.len());
        assert!(shard.has_retired, "they may come back");
    }
}
