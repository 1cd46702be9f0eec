//! When the answers of some nodes decide for all.

use super::reply::ClaimReply;
use leasehold_core::{Busy, Error, ErrorKind, FencingToken};
use std::time::Duration;

/// How many nodes there are, and how many of them decide: any two majorities have a node in common, and every promise
/// of this mode rests on that node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quorum {
    pub(super) nodes: usize,
}

impl Quorum {
    /// More than half. Half of an even number is no majority: there could be two of them.
    pub(super) fn majority(self) -> usize {
        self.nodes / 2 + 1
    }

    /// True if so many are lost to one answer that the others cannot be a majority.
    pub(super) fn blocked_by(self, others: usize) -> bool {
        self.nodes - others < self.majority()
    }
}

/// What became of a round in which every node could agree, refuse or fail.
#[derive(Debug)]
pub(super) enum Decision {
    /// A majority has agreed.
    Agreed,
    /// No majority can agree, and it is others that keep it from doing so.
    Refused,
    /// Too few answer to tell.
    NotAnswered,
}

/// The answers to one attempt, as they come.
#[derive(Debug)]
pub(super) struct ClaimVotes {
    quorum: Quorum,
    pub(super) agreed: Vec<(usize, ClaimReply)>,
    /// For each refusal, when it may end.
    pub(super) refused: Vec<Option<Duration>>,
    /// Also one for each node that has not answered in time.
    pub(super) failed: Vec<Error>,
    /// Nodes of which it is not known whether they have agreed.
    unknown: Vec<usize>,
}

impl ClaimVotes {
    pub(super) fn new(quorum: Quorum) -> Self {
        let (agreed, refused, failed, unknown) = <_>::default();
        Self { quorum, agreed, refused, failed, unknown }
    }

    pub(super) fn fail(&mut self, node: usize, error: Error) {
        self.unknown.extend(error.is_indeterminate().then_some(node));
        self.failed.push(error);
    }

    /// The decision that no further answer can change; `None` while there is none.
    pub(super) fn decision(&self) -> Option<Decision> {
        let (agreed, refused, failed) = (self.agreed.len(), self.refused.len(), self.failed.len());
        let open = self.quorum.nodes - agreed - refused - failed;
        if agreed >= self.quorum.majority() {
            return Some(Decision::Agreed);
        }
        if agreed + open >= self.quorum.majority() {
            return None;
        }
        // A majority can be asked, and did not agree: another owner is in the way, not the network.
        if refused > 0 && (self.quorum.blocked_by(refused) || agreed + refused >= self.quorum.majority()) {
            return Some(Decision::Refused);
        }
        (agreed + refused + open < self.quorum.majority()).then_some(Decision::NotAnswered)
    }

    pub(super) fn has_agreed(&self, node: usize) -> bool {
        self.agreed.iter().any(|(agreed, _)| *agreed == node)
    }

    /// True if the node has answered, and may have agreed.
    pub(super) fn may_hold(&self, node: usize) -> bool {
        self.has_agreed(node) || self.unknown.contains(&node)
    }

    /// Other owners are in the way.
    pub(super) fn busy(&self) -> Busy {
        self.ends_in().map_or_else(Busy::new, |ends_in| Busy::new().with_end(ends_in))
    }

    /// When enough of those that refused may agree to make a majority, if that is known.
    fn ends_in(&self) -> Option<Duration> {
        let mut ends: Vec<Duration> = self.refused.iter().copied().collect::<Option<_>>()?;
        ends.sort_unstable();
        let missing = self.quorum.majority().checked_sub(self.agreed.len() + 1)?;
        ends.get(missing).copied()
    }

    /// The token that a majority has written for this owner already: its reply was lost.
    pub(super) fn token_of_majority(&self) -> Option<FencingToken> {
        self.agreed.iter().filter_map(|(_, reply)| reply.own).find(|token| {
            let same = self.agreed.iter().filter(|(_, reply)| reply.own == Some(*token)).count();
            same >= self.quorum.majority()
        })
    }

    /// The token to write: larger than every one that the majority knows, so larger than every one that was granted,
    /// since each of those stands on a node of this majority. Any such number would do. The clocks make it one that
    /// goes on growing where nodes have forgotten the last one; the middle one of them, so that no single clock that is
    /// wrong takes all tokens with it. `None` when the numbers are used up.
    pub(super) fn next_token(&self) -> Option<FencingToken> {
        let last = self.agreed.iter().map(|(_, reply)| reply.last).max();
        let mut clocks: Vec<u64> = self.agreed.iter().map(|(_, reply)| reply.clock).collect();
        clocks.sort_unstable();
        let middle = clocks.get(clocks.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        FencingToken::after(last.map(FencingToken::new), middle)
    }
}

/// The error of a round that too few nodes have answered. An outcome that is not known outweighs those that are;
/// failures that waiting does not heal outweigh outages if the others cannot make a majority without them.
pub(super) fn not_answered(quorum: Quorum, answered: usize, failed: &[Error]) -> Error {
    let lasting_decide = quorum.blocked_by(failed.iter().filter(|error| !error.is_outage()).count());
    let rank = |error: &&Error| match error.kind() {
        _ if !error.is_outage() => u8::from(lasting_decide) * 3,
        ErrorKind::Indeterminate => 2,
        _ => 1,
    };
    let worst = failed.iter().max_by_key(rank);
    let (missing, majority) = (quorum.nodes - answered, quorum.majority());
    let message = format!("{missing} of {} nodes cannot be used, and {majority} must be", quorum.nodes);
    let help =
        worst.and_then(Error::help).unwrap_or("look at the nodes and at the network to them").to_owned();
    match worst.cloned() {
        Some(worst) => {
            // Not known as a lasting failure if the nodes that have none could do without it.
            let kind = if rank(&&worst) == 0 { ErrorKind::Unavailable } else { worst.kind() };
            Error::new(kind, format!("{message}: {worst}")).with_help(help).with_source(worst)
        }
        None => Error::new(ErrorKind::Indeterminate, format!("{message}: the others did not answer in time"))
            .with_help(help),
    }
}

#[cfg(test)]
mod tests;
