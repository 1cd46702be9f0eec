//! The grants of one name in their order, each at the first moment at which the store can have made it.
//!
//! Tokens say in which order the store granted, so no search is needed: every grant is placed as early as its question and
//! the ends of those before that conflict with it allow, every end as early as a release or the lease allows. If that fails,
//! everything does, because whatever is placed later only leaves less room for the next.

use super::locks::Lock;
use super::model::Model;
use crate::history::{Acquisition, Answer, Call, FaultSpan, History, HoldRecord};
use leasehold_core::{Fault, HoldKind};
use std::collections::HashMap;
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
    pub(super) hold: &'a HoldRecord,
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

/// What ends holds besides their releases and the store's clock.
pub(super) struct Ends<'a> {
    model: &'a Model,
    spans: Vec<&'a FaultSpan>,
    kills: HashMap<u32, u64>,
}

impl<'a> Ends<'a> {
    pub(super) fn new(model: &'a Model, history: &'a History) -> Self {
        let connection = model.hold == HoldKind::Connection;
        let ends = |span: &&FaultSpan| match span.fault {
            Fault::RecordDeleted => true,
            Fault::ConnectionKilled => connection,
            _ => false,
        };
        let kills = if connection { history.kills() } else { HashMap::new() };
        Self { model, spans: history.faults.iter().filter(ends).collect(), kills }
    }

    /// The first moment at which a hold that the store confirmed at `point` can have ended without a release.
    fn after(&self, grant: &Acquisition, name: &str, point: u64, ttl: u64, until: u64) -> u64 {
        let by_time = self.model.earliest_end(point, ttl, until);
        let spans = self.spans.iter().filter(|span| {
            span.to.is_none_or(|to| to >= point)
                && span.name.as_deref().is_none_or(|hit| hit == name)
                && span.target.is_none_or(|hit| hit == grant.process)
        });
        let faults = spans.map(|span| span.from);
        faults.chain(self.kills.get(&grant.process).copied()).fold(by_time, |end, at| end.min(at.max(point)))
    }
}

impl<'a> Timeline<'a> {
    /// Places these grants of one name. `in_order` if their tokens can be trusted to say in which order; else it is that
    /// of the answers, as far as anybody can tell.
    pub(super) fn new(lock: &'a Lock<'a>, ends: &Ends<'_>, in_order: bool) -> Self {
        let (name, mut grants) = (&*lock.name, lock.grants.clone());
        if in_order {
            grants.sort_unstable_by_key(|(_, hold)| hold.token);
        } else {
            grants.sort_unstable_by_key(|(grant, _)| grant.answered_by());
        }
        let placed = Vec::with_capacity(grants.len());
        let mut timeline = Self { name, slot: lock.slot, grants: placed, clashes: Vec::new() };
        for (acquisition, hold) in grants {
            timeline.place(acquisition, hold, ends);
        }
        timeline
    }

    fn place(&mut self, acquisition: &'a Acquisition, hold: &'a HoldRecord, ends: &Ends<'_>) {
        let after = self.in_the_way_of(acquisition);
        let last = after.clone().max_by_key(|before| self.grants[*before].to);
        let free = last.map_or(0, |before| self.grants[before].to);
        // Readers too are granted in the order of their tokens.
        let mut from = self.grants.last().map_or(0, |before| before.from).max(free).max(acquisition.asked_at);
        let by = acquisition.answered_by();
        if let Some(before) = last.filter(|_| free > by) {
            let impostor = self.grants[before].impostor(self.name, by, ends);
            self.clashes.push(Clash { before, grant: self.grants.len(), impostor });
        }
        // After a clash, the grant counts as regular, so that later grants are judged by themselves.
        from = from.min(by);
        let mut placed = Placed { acquisition, hold, from, to: from, after };
        placed.to = placed.end(self.name, u64::MAX, ends);
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
    fn end(&self, name: &str, known: u64, ends: &Ends<'_>) -> u64 {
        let Self { acquisition, hold, from, .. } = self;
        let (mut alive, mut ttl) = (*from, acquisition.ttl);
        let mut expires = ends.after(acquisition, name, alive, ttl, hold.until);
        for renewal in hold.renewals.iter().filter(|renewal| renewal.call.answer == Answer::Ok) {
            if renewal.call.asked_at > known {
                break;
            }
            alive = alive.max(renewal.call.asked_at);
            ttl = ttl.max(renewal.ttl);
            let until = renewal.until.unwrap_or(alive);
            expires = ends.after(acquisition, name, alive, ttl, until);
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
    fn impostor(&self, name: &str, taken: u64, ends: &Ends<'_>) -> Option<u64> {
        if self.end(name, taken, ends) > taken {
            return None;
        }
        let renewals = self.hold.renewals.iter().map(|renewal| &renewal.call);
        let calls = renewals.chain(&self.hold.release).filter(|call| call.answer == Answer::Ok);
        calls.filter(|call| call.asked_at > taken).map(|call| call.op).next()
    }
}
