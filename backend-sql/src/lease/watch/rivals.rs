//! Other processes that want the same lock, as far as this one notices them: when it looks at a lock that was given up.
//!
//! Nobody arranges the order. Each process counts how often others gave the lock up since it had it itself, and looks the
//! sooner the longer it has gone without: where all look after pauses of the same kind, luck decides, and who has lost
//! looks more rarely, and loses again.

use super::runs::jittered;
use std::time::Duration;

/// How far processes that compete for one name keep apart at most.
pub(super) const WIDEST: Duration = Duration::from_millis(16);
const NARROWEST: Duration = Duration::from_millis(1);

/// Over what time they look at a lock that was given up. The same for all, however many each believes that they are: who
/// believes in too many has narrower slots, and so is not late.
const CONTEST: Duration = Duration::from_millis(4);

/// So often in a row it may have the lock sooner than after all others, before it believes that there are fewer of them.
const BELIEVES_AFTER: u32 = 8;

#[derive(Debug)]
pub(super) struct Rivals {
    /// Over what time the looks of competing processes are to be spread. Grows when somebody else was quicker, shrinks
    /// when nobody was: so the looks at one name are a few for each time that it goes from process to process.
    spread: Duration,
    /// How often the lock was given up since this process had it, and waited for it again. The first time by itself.
    missed: u32,
    /// How often others had it before this process had it again, at the most, lately.
    turns: u32,
    /// How often in a row it was given up once less than that.
    early: u32,
}

/// A process that has just come has not had it.
impl Default for Rivals {
    fn default() -> Self {
        Self { spread: Duration::ZERO, missed: 1, turns: 0, early: 0 }
    }
}

impl Rivals {
    pub(super) fn spread(&self) -> Duration {
        self.spread
    }

    /// Somebody else was quicker.
    pub(super) fn was_quicker(&mut self) {
        self.spread = (self.spread * 2).clamp(NARROWEST, WIDEST);
    }

    /// Nobody was.
    pub(super) fn none_was_quicker(&mut self) {
        self.spread /= 2;
    }

    /// Nobody was seen to have it, and nobody but this process to give it up.
    fn is_alone(&self) -> bool {
        self.spread.is_zero() && self.turns == 0
    }

    /// This process has it.
    pub(super) fn won(&mut self) {
        let Some(others) = std::mem::take(&mut self.missed).checked_sub(1) else {
            // In a run of its own.
            return;
        };
        match self.turns.saturating_sub(others) {
            0 => self.early = 0,
            1 => self.early += 1,
            // It was many more turns once: by luck, or they are gone.
            fewer => self.turns -= fewer / 2,
        }
        if self.early >= BELIEVES_AFTER {
            (self.turns, self.early) = (self.turns.saturating_sub(1), 0);
        }
    }

    /// It was given up, and is waited for: how long to wait with a look, so that those look before who have gone without
    /// for longer. No part of the spread: that of who has lost is the widest.
    pub(super) fn given_up(&mut self) -> Duration {
        let (was_alone, had_it) = (self.is_alone(), self.missed == 0);
        let before_it = self.turns.saturating_sub(self.missed);
        let slot = CONTEST / self.turns.saturating_add(1);
        self.missed = self.missed.saturating_add(1);
        self.turns = self.turns.max(self.missed - 1);
        match (was_alone, had_it) {
            (false, _) => slot * before_it + jittered(slot),
            (true, false) => Duration::ZERO,
            // Who has had it every time does not know whether others never do.
            (true, true) => NARROWEST + jittered(NARROWEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has each of so many turns, if those who compete lose against the one that looks first. Some of them are blind:
    /// they look only when nobody has it, and never see that somebody else was quicker.
    fn played(processes: &mut [Rivals], blind: usize, turns: usize) -> Vec<usize> {
        let turn = |_| {
            let pauses = processes.iter_mut().map(Rivals::given_up);
            let (winner, _) = pauses.enumerate().min_by_key(|(_, pause)| *pause).unwrap();
            for (process, rivals) in processes.iter_mut().enumerate() {
                match process == winner {
                    true => rivals.won(),
                    false if process >= blind => rivals.was_quicker(),
                    false => {}
                }
            }
            winner
        };
        (0..turns).map(turn).collect()
    }

    fn some(count: usize) -> Vec<Rivals> {
        (0..count).map(|_| Rivals::default()).collect()
    }

    /// Jain's index: by luck, it would be 0.93 for four and 0.91 for sixteen.
    #[test]
    fn those_who_compete_have_it_in_turn() {
        for (count, seed) in [2, 4, 16].into_iter().flat_map(|count| (0..20).map(move |seed| (count, seed))) {
            for blind in [0, count / 2] {
                fastrand::seed(seed);
                let mut processes = some(count);
                // Until everybody knows how many they are.
                played(&mut processes, blind, 20 * count);
                let turns = played(&mut processes, blind, 10 * count);
                let had = |process| turns.iter().filter(|winner| **winner == process).count();
                let squares: usize = (0..count).map(|process| had(process).pow(2)).sum();
                let fairness = (turns.len() * turns.len()) as f64 / (count * squares) as f64;
                assert!(fairness >= 0.95, "{count} processes, {blind} blind, {fairness}: {turns:?}");
            }
        }
    }

    #[test]
    fn those_who_are_gone_are_waited_for_no_longer_than_some_turns() {
        let mut processes = some(16);
        played(&mut processes, 0, 320);
        processes.truncate(2);
        played(&mut processes, 0, 2 * 16 * BELIEVES_AFTER as usize);
        assert!(processes.iter().all(|rivals| rivals.turns <= 2), "{processes:?}");
    }

    #[test]
    fn who_is_alone_waits_for_a_moment_and_forgets_those_who_are_gone() {
        let mut rivals = Rivals { turns: 3, ..Rivals::default() };
        for _ in 0..3 * BELIEVES_AFTER {
            rivals.given_up();
            rivals.won();
        }
        assert!(rivals.given_up() < NARROWEST * 2, "{rivals:?}");
        assert_eq!(Rivals::default().given_up(), Duration::ZERO, "who waits for the first time");
    }

    #[test]
    fn no_pause_is_longer_than_the_spread() {
        let mut rivals = Rivals { spread: WIDEST, ..Rivals::default() };
        for round in 0..1000 {
            assert!(rivals.given_up() <= WIDEST);
            if round % 7 == 0 {
                rivals.won();
            }
        }
    }
}
