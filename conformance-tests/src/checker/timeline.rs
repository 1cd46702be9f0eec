//! The grants of one name in their order, each at the first moment at which the store can have made it.
//!
//! Tokens say in which order the store granted, so no search is needed: every grant is placed as early as its question and
//! the ends of those before that conflict with it allow, every end as early as a release or the lease allows. If that fails,
//! everything does, because whatever is placed later only leaves less room for the next.

use super::circumstances::Circumstances;
use super::locks::Lock;
use crate::history::{Acquisition, Answer, Call};
use std::ops::Range;

/// The grants of one name.
pub(super) struct Timeline<'a> {
    pub(super) name: &'a str,
    /// The slot, if the name is one of a semaphore.
    pub(super) slot: Option<u32>,
    pub(super) grants: Vec<Placed<'a>>,
    pub(super) clashes: Vec<Clash>,
}

pub(super) struct Placed<'a> {
    pub(super) acquisition: &'a Acquisition,
    /// When the store granted it, at the earliest.
    pub(super) from: u64,
    /// When it ended in the store, at the earliest.
    pub(super) to: u64,
    /// The last grants before it that conflict with it: one writer, or all readers since a writer. Those ended before it began.
    pub(super) after: Range<usize>,
}

/// Two grants of which the later one cannot be placed after the earlier one.
pub(super) struct Clash {
    pub(super) before: usize,
    pub(super) grant: usize,
    /// What was confirmed to the earlier one after it can have been the owner, if it would fit without.
    pub(super) impostor: Option<u64>,
}

impl<'a> Timeline<'a> {
    /// Places these grants of one name. `in_order` if their tokens can be trusted to say in which order; else it is that
    /// of the answers, as far as anybody can tell.
    pub(super) fn new(lock: &'a Lock<'a>, circumstances: &Circumstances<'_>, in_order: bool) -> Self {
        let mut grants = lock.grants.clone();
        grants.sort_unstable_by_key(|one| if in_order { one.hold.token } else { one.answered_by() });
        let placed = Vec::with_capacity(grants.len());
        let mut timeline = Self { name: &lock.name, slot: lock.slot, grants: placed, clashes: Vec::new() };
        for grant in grants {
            timeline.place(grant, circumstances);
        }
        timeline
    }

    fn place(&mut self, acquisition: &'a Acquisition, circumstances: &Circumstances<'_>) {
        let after = self.in_the_way_of(acquisition);
        let last = after.clone().max_by_key(|before| self.grants[*before].to);
        let free = last.map_or(0, |before| self.grants[before].to);
        // Readers too are granted in the order of their tokens.
        let mut from = self.grants.last().map_or(0, |before| before.from).max(free).max(acquisition.asked_at);
        let by = acquisition.answered_by();
        if let Some(before) = last.filter(|_| free > by) {
            let impostor = self.grants[before].impostor(by, circumstances);
            self.clashes.push(Clash { before, grant: self.grants.len(), impostor });
        }
        // After a clash, the grant counts as regular, so that later grants are judged by themselves.
        from = from.min(by);
        let mut placed = Placed { acquisition, from, to: from, after };
        placed.to = placed.end(u64::MAX, circumstances);
        self.grants.push(placed);
    }

    /// See [`Placed::after`].
    fn in_the_way_of(&self, next: &Acquisition) -> Range<usize> {
        let count = self.grants.len();
        match self.grants.last() {
            Some(last) if last.acquisition.mode.conflicts_with(next.mode) => {
                // All readers since the last writer, or that writer.
                let start = if last.acquisition.mode.is_shared() { last.after.end } else { count - 1 };
                start..count
            }
            // A reader after a reader waits for the same writer.
            Some(last) => last.after.clone(),
            None => 0..0,
        }
    }
}

impl Placed<'_> {
    /// When it ended at the earliest, by what its holder had asked for until `known`.
    fn end(&self, known: u64, circumstances: &Circumstances<'_>) -> u64 {
        let Self { acquisition, from, .. } = self;
        let hold = &acquisition.hold;
        let (mut alive, mut ttl) = (*from, acquisition.ttl);
        let mut expires = circumstances.earliest_end(acquisition, alive, ttl, hold.until);
        let confirmed = hold.renewals.iter().filter(|renewal| renewal.answer == Answer::Ok);
        for renewal in confirmed.take_while(|renewal| renewal.asked_at <= known) {
            alive = alive.max(renewal.asked_at);
            ttl = ttl.max(renewal.ttl);
            expires = circumstances.earliest_end(acquisition, alive, ttl, renewal.until.unwrap_or(alive));
        }
        match hold.release.as_ref().filter(|release| release.asked_at <= known) {
            // The store has said that it was the owner until then.
            Some(Call { answer: Answer::Ok, asked_at, .. }) => alive.max(*asked_at),
            // Refused or not: a holder that gives back tells the store so in any case, and goes on telling it.
            Some(Call { asked_at, .. }) => expires.min(alive.max(*asked_at)),
            None => expires,
        }
    }

    /// The first thing that was confirmed to this grant although, without it, the lock could have been somebody else's
    /// by `taken`.
    fn impostor(&self, taken: u64, circumstances: &Circumstances<'_>) -> Option<u64> {
        if self.end(taken, circumstances) > taken {
            return None;
        }
        let hold = &self.acquisition.hold;
        let mut calls = hold.renewals.iter().chain(&hold.release);
        calls.find(|call| call.answer == Answer::Ok && call.asked_at > taken).map(|call| call.op)
    }
}
