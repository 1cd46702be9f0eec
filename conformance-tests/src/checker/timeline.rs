//! The grants of one name in their order, each at the first moment at which the store can have made it.
//!
//! Tokens say in which order the store granted, so no search is needed: every grant is placed as early as its question and
//! the ends of those before that conflict with it allow, every end as early as a release or the lease allows. If that fails,
//! everything does, because whatever is placed later only leaves less room for the next.

use super::Checker;
use super::locks::Lock;
use super::report::Rule;
use crate::history::{Acquisition, Answer, Call};
use std::ops::Range;

/// The grants of one lock.
pub(super) struct Timeline<'a> {
    pub(super) lock: &'a Lock<'a>,
    pub(super) grants: Vec<Placed<'a>>,
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

impl Checker<'_> {
    /// M1, O1, O2: places the grants of a lock. `in_order` if their tokens can be trusted to say in which order; else it is that
    /// of the answers, as far as anybody can tell.
    pub(super) fn check_exclusion<'a>(&mut self, lock: &'a Lock<'a>, in_order: bool) -> Timeline<'a> {
        let mut grants = lock.grants.clone();
        grants.sort_unstable_by_key(|one| if in_order { one.hold.token } else { one.answered_by() });
        let mut timeline = Timeline { lock, grants: Vec::with_capacity(grants.len()) };
        for acquisition in grants {
            let after = timeline.in_the_way_of(acquisition);
            let last = timeline.grants[after.clone()].iter().max_by_key(|before| before.to);
            let free = last.map_or(0, |last| last.to);
            let by = acquisition.answered_by();
            if let Some(before) = last.filter(|_| free > by) {
                self.clash(lock, before, acquisition);
            }
            // Readers too are granted in the order of their tokens.
            let from = timeline.grants.last().map_or(0, |before| before.from);
            // After a clash, the grant counts as regular, so that later grants are judged by themselves.
            let from = from.max(free).max(acquisition.asked_at).min(by);
            let mut placed = Placed { acquisition, from, to: from, after };
            placed.to = placed.end(u64::MAX, self);
            timeline.grants.push(placed);
        }
        timeline
    }

    /// A grant cannot be placed after this one before it.
    fn clash(&mut self, lock: &Lock<'_>, before: &Placed<'_>, grant: &Acquisition) {
        let (first, second, at) = (before.acquisition.hold.token, grant.hold.token, grant.answered_by());
        let (process, op) = before.acquisition.id();
        if let Some(op) = before.impostor(at, self) {
            let what = format!("confirmed to the holder of {first}, after {second} was granted");
            self.report.broken(Rule::OwnerOnly, &lock.name, at, &[(process, op), grant.id()], what);
        } else {
            let what = format!("{second} was granted while {first} was held: until {} at least", before.to);
            self.report.broken(Rule::Exclusion, &lock.name, at, &[(process, op), grant.id()], what);
        }
    }
}

impl Timeline<'_> {
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
    fn end(&self, known: u64, checker: &Checker<'_>) -> u64 {
        let Self { acquisition, from, .. } = self;
        let hold = &acquisition.hold;
        let (mut alive, mut ttl) = (*from, acquisition.ttl);
        let mut expires = checker.earliest_end(acquisition, alive, ttl, hold.until);
        let confirmed = hold.renewals.iter().filter(|renewal| renewal.answer == Answer::Ok);
        for renewal in confirmed.take_while(|renewal| renewal.asked_at <= known) {
            alive = alive.max(renewal.asked_at);
            ttl = ttl.max(renewal.ttl);
            expires = checker.earliest_end(acquisition, alive, ttl, renewal.until.unwrap_or(alive));
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
    fn impostor(&self, taken: u64, checker: &Checker<'_>) -> Option<u64> {
        if self.end(taken, checker) > taken {
            return None;
        }
        let hold = &self.acquisition.hold;
        let mut calls = hold.renewals.iter().chain(&hold.release);
        calls.find(|call| call.answer == Answer::Ok && call.asked_at > taken).map(|call| call.op)
    }
}
