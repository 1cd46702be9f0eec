use super::line::Line;
use crate::sync::Mutex;
use crate::{LockName, lock_up};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::task::Waker;

/// The names are spread over so many mutexes.
const SHARDS: usize = 16;

/// The lines of all names that somebody here wants, has, or has still to end.
#[derive(Default)]
pub(super) struct Lines {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    lines: HashMap<LockName, Line>,
    /// True if somebody was taken out of a line that is forgotten.
    has_taken_out: bool,
}

impl Lines {
    /// Asks the line of this name, forgets it if it is empty then, and wakes who is to hear of it.
    pub(super) fn ask<T>(&self, name: &LockName, ask: impl FnOnce(&mut Line) -> T) -> T {
        let shard = self.hasher.hash_one(name) as usize % SHARDS;
        let Some(shard) = self.shards.get(shard) else {
            return ask(&mut Line::default());
        };
        let mut shard = lock_up(shard);
        let (answer, to_wake) = shard.ask(name, ask);
        drop(shard);
        to_wake.into_iter().for_each(Waker::wake);
        answer
    }

    /// The first that is found in any line.
    pub(super) fn find<T>(&self, find: impl Fn(&Line) -> Option<T>) -> Option<T> {
        self.shards.iter().find_map(|shard| lock_up(shard).lines.values().find_map(&find))
    }

    #[cfg(test)]
    pub(super) fn are_free(&self) -> bool {
        self.shards.iter().all(|shard| shard.try_lock().is_ok())
    }
}

impl Shard {
    fn ask<T>(&mut self, name: &LockName, ask: impl FnOnce(&mut Line) -> T) -> (T, Vec<Waker>) {
        let line = match self.lines.get_mut(name) {
            Some(line) => line,
            None => self.lines.entry(name.clone()).or_insert(Line::after(self.has_taken_out)),
        };
        let answer = (ask(line), line.take_wakers());
        if line.is_empty() {
            self.has_taken_out |= line.has_taken_out();
            self.lines.remove(name);
        }
        answer
    }
}
