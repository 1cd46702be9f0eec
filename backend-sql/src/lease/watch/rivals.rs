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

/// So often in a row it may have the lock sooner than after all others, before it believes that there are fewer of them.
const BELIEVES_AFTER: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// Over what time the looks of competing processes are to be spread. Grows when somebody else was quicker, shrinks
    /// when nobody was: so the looks at one name are a few for each time that it goes from process to process.
    spread: Duration,
    /// How often the lock was given up since this process had it, and waited for it again.
    missed: u32,
    /// How often it was given up before this process had it, at the most, lately.
    turns: u32,
    /// How often in a row it was given up once less than that.
    early: u32,
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

    /// This process has it.
    pub(super) fn won(&mut self) {
        let missed = std::mem::take(&mut self.missed);
        match self.turns.saturating_sub(missed) {
            // In a run of its own.
            _ if missed == 0 => {}
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
    /// for longer.
    pub(super) fn given_up(&mut self) -> Duration {
        let before_it = self.turns.saturating_sub(self.missed);
        let share = self.spread / self.turns.saturating_add(1);
        self.missed = self.missed.saturating_add(1);
        self.turns = self.turns.max(self.missed - 1);
        share * before_it + jittered(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many processes, who all lose against the one that looks first, until so many turns are over; who had each turn.
    fn played(processes: &mut [Rivals], turns: usize) -> Vec<usize> {
        let turn = |_| {
            let pauses = processes.iter_mut().map(Rivals::given_up);
            let (winner, _) = pauses.enumerate().min_by_key(|(_, pause)| *pause).unwrap();
            for (process, rivals) in processes.iter_mut().enumerate() {
                match process == winner {
                    true => rivals.won(),
                    false => rivals.was_quicker(),
                }
            }
            winner
        };
        (0..turns).map(turn).collect()
    }

    /// Jain's index: by luck, it would be 0.93 for four and 0.91 for sixteen.
    #[test]
    fn those_who_compete_have_it_in_turn() {
        for (count, seed) in [2, 4, 16].into_iter().flat_map(|count| (0..20).map(move |seed| (count, seed))) {
            fastrand::seed(seed);
            let mut processes: Vec<Rivals> =
                (0..count).map(|_| Rivals { spread: WIDEST, ..Rivals::default() }).collect();
            // Until everybody knows how many they are.
            played(&mut processes, 20 * count);
            let turns = played(&mut processes, 10 * count);
            let had = |process| turns.iter().filter(|winner| **winner == process).count();
            let squares: usize = (0..count).map(|process| had(process).pow(2)).sum();
            let fairness = (turns.len() * turns.len()) as f64 / (count * squares) as f64;
            assert!(fairness >= 0.95, "{count} processes, {fairness}: {turns:?}");
        }
    }

    #[test]
    fn those_who_are_gone_are_waited_for_no_longer_than_some_turns() {
        let mut processes: Vec<Rivals> =
            (0..16).map(|_| Rivals { spread: WIDEST, ..Rivals::default() }).collect();
        played(&mut processes, 320);
        processes.truncate(2);
        played(&mut processes, 2 * 16 * BELIEVES_AFTER as usize);
        assert!(processes.iter().all(|rivals| rivals.turns <= 2), "{processes:?}");
    }

    #[test]
    fn who_is_alone_does_not_wait() {
        let mut rivals = Rivals::default();
        for _ in 0..3 {
            assert_eq!(rivals.given_up(), Duration::ZERO);
            rivals.won();
        }
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
