//! Renewals: every node is asked once for many claims, and a claim is renewed if a majority has extended it.

use super::RedlockBackend;
use super::background;
use super::node_claim::{NodeClaim, WITHOUT_TOKEN};
use super::nodes::{RedlockNode, ask, detach, overdue, round_timeout};
use super::quorum::{Quorum, not_answered};
use crate::reply;
use crate::scripts::Script;
use crate::servers::{ClaimRequest, renewal_of};
use leasehold_core::{Claim, LossCause, Renewal, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

static RENEW: Script = Script::with_keys(include_str!("scripts/renew.lua"), WITHOUT_TOKEN);

/// What the nodes have said of one claim.
#[derive(Clone, Debug, Default)]
struct RenewalVotes {
    /// The nodes that hold it.
    held: Vec<usize>,
    taken: usize,
    /// The nodes that have nothing of it.
    gone: Vec<usize>,
}

impl RedlockBackend {
    pub(super) async fn renew_together(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let quorum = self.quorum();
        // Larger than that of every attempt before.
        let number = self.attempts.fetch_add(1, Ordering::Relaxed).to_string();
        let requests: Vec<_> = claims.iter().map(|claim| renewal_of(claim, &self.keys)).collect();
        let question = Arc::new((number, requests));
        let mut votes = vec![RenewalVotes::default(); claims.len()];
        let mut failed = Vec::new();
        // They fall due together, not for the same time: the shortest of them must not be waited past.
        let shortest = claims.iter().map(Claim::ttl).min().unwrap_or_default();
        let take = |place, answer: Result<Vec<Renewal>>| {
            match answer {
                Ok(answers) => {
                    votes.iter_mut().zip(answers).for_each(|(votes, answer)| votes.enter(place, answer));
                }
                Err(error) => failed.push(error),
            }
            votes.iter().all(|votes| votes.renewal(quorum).is_some())
        };
        let within = round_timeout(shortest);
        let renew = |node| renew_on(node, Arc::clone(&question));
        let pending = ask(&self.nodes, |_| true, within, renew, take).await;
        failed.extend(overdue(&pending));
        detach(pending);
        let answered = quorum.nodes - failed.len();
        let conclude = |(claim, votes): (&Claim, RenewalVotes)| {
            let renewal = votes.renewal(quorum);
            if renewal == Some(Renewal::Renewed) && !votes.gone.is_empty() {
                self.repair(claim, &votes);
            }
            // Neither held nor lost, by those that have answered.
            renewal.ok_or_else(|| not_answered(quorum, answered, &failed))
        };
        claims.iter().zip(votes).map(conclude).collect()
    }

    /// No caller waits for it.
    fn repair(&self, claim: &Claim, votes: &RenewalVotes) {
        let node = |place: usize| self.nodes.get(place).cloned();
        let Some(witness) = votes.held.last().and_then(|place| node(*place)) else { return };
        let gone = votes.gone.iter().filter_map(|place| node(*place)).collect();
        let request = self.background.begin(claim.owner());
        let claim = Arc::new(NodeClaim::new(claim, &self.keys, 0));
        tokio::spawn(background::repair(claim, request, witness, gone));
    }
}

async fn renew_on(
    node: Arc<RedlockNode>,
    question: Arc<(String, Vec<ClaimRequest>)>,
) -> Result<Vec<Renewal>> {
    let (number, requests) = &*question;
    let shared_args = [node.place.to_string(), number.clone()];
    let answers = node.servers.run_each(&RENEW, &shared_args, requests, None).await;
    answers.into_iter().map(|answer| reply::renewal(&answer?.0)).collect()
}

impl RenewalVotes {
    fn enter(&mut self, place: usize, answer: Renewal) {
        match answer {
            Renewal::Renewed | Renewal::Held => self.held.push(place),
            Renewal::Lost(LossCause::Taken) => self.taken += 1,
            Renewal::Lost(_) => self.gone.push(place),
        }
    }

    /// What they decide; `None` while that depends on others.
    fn renewal(&self, quorum: Quorum) -> Option<Renewal> {
        if self.held.len() >= quorum.majority() {
            return Some(Renewal::Renewed);
        }
        // On fewer nodes than a majority, another is a contender whose attempt fails.
        let cause = if self.taken >= quorum.majority() { LossCause::Taken } else { LossCause::Gone };
        quorum.blocked_by(self.gone.len() + self.taken).then_some(Renewal::Lost(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewal(held: usize, gone: usize, taken: usize) -> Option<Renewal> {
        let mut votes = RenewalVotes::default();
        (0..held).for_each(|place| votes.enter(place, Renewal::Renewed));
        (0..gone).for_each(|place| votes.enter(place, Renewal::Lost(LossCause::Gone)));
        (0..taken).for_each(|place| votes.enter(place, Renewal::Lost(LossCause::Taken)));
        votes.renewal(Quorum { nodes: 5 })
    }

    #[test]
    fn claim_is_renewed_or_lost_by_a_majority_only() {
        assert_eq!(renewal(3, 0, 0), Some(Renewal::Renewed));
        assert_eq!(renewal(3, 1, 1), Some(Renewal::Renewed));
        assert_eq!(renewal(2, 2, 0), None);
        assert_eq!(renewal(2, 3, 0), Some(Renewal::Lost(LossCause::Gone)));
        assert_eq!(renewal(0, 2, 1), Some(Renewal::Lost(LossCause::Gone)));
        assert_eq!(renewal(1, 1, 3), Some(Renewal::Lost(LossCause::Taken)));
        assert_eq!(renewal(0, 0, 0), None);
    }
}
