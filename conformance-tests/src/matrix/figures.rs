//! What a history says, in figures.

use super::cell::Figures;
use super::cell_run::Observation;
use crate::checker::{Rule, belief};
use crate::history::Acquisition;
use crate::time_scale::nanos;
use leasehold_core::HoldKind;

/// A grant, and for how long its holder believed in it.
#[derive(Clone, Copy)]
pub(super) struct BelievedGrant<'a> {
    pub(super) acquisition: &'a Acquisition,
    pub(super) from: u64,
    /// By what it saw and did, until its death.
    pub(super) until: u64,
    /// By the last limit that it had from the store, whatever it did not live to see.
    pub(super) limit: u64,
}

impl Observation {
    /// The grants of the lock that all want, in the order of their answers.
    pub(super) fn wanted(&self) -> Vec<BelievedGrant<'_>> {
        self.grants(true)
    }

    /// The grants of the lock that one takes again and again.
    pub(super) fn passed(&self) -> Vec<BelievedGrant<'_>> {
        self.grants(false)
    }

    fn grants(&self, wanted: bool) -> Vec<BelievedGrant<'_>> {
        let kills = self.history.kills();
        let granted = self.history.grants().filter(|one| (one.name == self.name.as_str()) == wanted);
        let mut grants: Vec<_> = granted
            .map(|acquisition| {
                let (from, until) = belief(acquisition, &kills);
                let hold = &acquisition.hold;
                let given_back = hold.release.as_ref().map_or(u64::MAX, |release| release.asked_at);
                // A connection dies with its process; a lease and a session do not.
                let dead = kills.get(&acquisition.process).filter(|_| self.hold == HoldKind::Connection);
                let limit = hold.seen_until.min(given_back).min(dead.copied().unwrap_or(u64::MAX));
                BelievedGrant { acquisition, from, until, limit }
            })
            .collect();
        grants.sort_unstable_by_key(|grant| grant.from);
        grants
    }

    /// The grant that the fault met.
    pub(super) fn met(&self) -> Option<BelievedGrant<'_>> {
        let wanted = self.wanted();
        if self.fault.is_from_the_start() {
            return wanted.into_iter().find(|grant| grant.acquisition.process == self.holder);
        }
        wanted.into_iter().find(|grant| grant.from <= self.injected && self.injected < grant.until)
    }

    pub(super) fn figures(&self) -> Figures {
        let wanted = self.wanted();
        let measured = &self.report.measured;
        let tokens = self.report.count(Rule::TokenUnique) + self.report.count(Rule::TokenOrder);
        let after = |at: u64| millis(at.saturating_sub(self.injected));
        let met = self.met();
        // Given back by its holder, it is no loss, and who comes next shows nothing.
        let given_back =
            met.and_then(|met| met.acquisition.hold.release.as_ref()).map_or(u64::MAX, |call| call.asked_at);
        let next = wanted.iter().find(|grant| grant.from > self.injected && !self.is_met(grant));
        Figures {
            trials: 1,
            grants: measured.grants as u64,
            two_holders: two_holders(&wanted) + self.report.count(Rule::OwnerOnly) as u64,
            belief_overlap_ms: millis(nanos(measured.belief_overlap)),
            fenced_lost: self.report.count(Rule::Effects) as u64,
            plain_lost: measured.plain.lost as u64,
            tokens_repeated: tokens as u64,
            unavailable_ms: millis(longest_gap(&wanted).max(longest_gap(&self.passed()))),
            detected_ms: met.and_then(|met| met.acquisition.hold.seen_ended).map(after),
            recovered_ms: next.map(|next| next.from).filter(|at| *at < given_back).map(after),
            residue: self.residue,
        }
    }

    fn is_met(&self, grant: &BelievedGrant<'_>) -> bool {
        self.met().is_some_and(|met| met.acquisition.id() == grant.acquisition.id())
    }
}

/// Grants that were answered while somebody else, by the last word it had from the store, still held.
fn two_holders(grants: &[BelievedGrant<'_>]) -> u64 {
    let mut limit = 0;
    let mut count = 0;
    for grant in grants {
        count += u64::from(grant.from < limit);
        limit = limit.max(grant.limit);
    }
    count
}

/// The longest time without anybody who believes, between the first and the last who did.
fn longest_gap(grants: &[BelievedGrant<'_>]) -> u64 {
    let (mut until, mut longest) = (grants.first().map_or(0, |first| first.from), 0);
    for grant in grants {
        longest = longest.max(grant.from.saturating_sub(until));
        until = until.max(grant.until);
    }
    longest
}

pub(super) fn millis(nanos: u64) -> f64 {
    // Microseconds are enough, and figures of one run that is written down should be short.
    (nanos / 1_000) as f64 / 1_000.0
}
