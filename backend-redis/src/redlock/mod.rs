//! Redlock: locks on a majority of independent nodes.
//!
//! An attempt asks all nodes to hold the name. If a majority does, a token is chosen that is larger than all that those
//! nodes know, and written back: by a node only if it still holds the name for this attempt, and knows of no larger one.
//! Only when a majority has written it, the lock is granted.
//!
//! Why that is enough. Two grants have a node in common that has written both tokens, and a node writes in one order
//! only, each token larger than the last: so no two are the same, and the order of tokens is the order in which that
//! node held the name for them. No clock and no timing is needed for that, and a lease may end at any moment. The crate
//! `leasehold-models` explores it.

mod admin;
mod background;
mod node_claim;
mod nodes;
mod quorum;
mod renewal;
mod reply;

use crate::keys::Keys;
use crate::semantics;
use crate::target::Target;
use async_trait::async_trait;
use background::{BackgroundRequests, finish_late_claim};
use futures_util::FutureExt;
use leasehold_core::{
    Attempt, Claim, Error, ErrorKind, FencingToken, Grant, LockAdmin, LockBackend, Namespace, OwnerId,
    Release, Renewal, Result, Semantics,
};
use leasehold_store_url::StoreUrl;
use node_claim::NodeClaim;
use nodes::{PendingRequests, RedlockNode, YesNoAnswers, ask, ask_yes_no, finish, overdue, round_timeout};
use quorum::{ClaimVotes, Decision, Quorum, not_answered};
use reply::Claimed;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// Locks on a majority of independent Redis or Valkey servers, after the algorithm of redis.io, *Distributed Locks with
/// Redis*, with fencing tokens that a majority confirms.
///
/// All nodes are asked at once, over one connection to each. A name is held by the owner that holds it on more than half of
/// them.
#[derive(Debug)]
pub struct RedlockBackend {
    nodes: Vec<Arc<RedlockNode>>,
    keys: Keys,
    /// The number of the next attempt, or renewal.
    attempts: AtomicU64,
    background: BackgroundRequests,
    /// Two places of the URL that were found to be one server.
    twins: OnceLock<Error>,
}

impl RedlockBackend {
    /// A backend for the nodes at `url`. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](leasehold_core::ErrorKind::Invalid) for fewer than three nodes, for one that is named twice, and for
    /// what else is wrong with the URL, the files that it names, or the prefix;
    /// [`Misconfigured`](leasehold_core::ErrorKind::Misconfigured) if its scheme is none of these, or asks for TLS and this
    /// build has none.
    pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        let (targets, keys) = (Target::nodes(url)?, Keys::new(namespace)?);
        Ok(Self {
            nodes: targets.into_iter().enumerate().map(RedlockNode::new).collect(),
            keys,
            attempts: AtomicU64::new(1),
            background: BackgroundRequests::default(),
            twins: OnceLock::new(),
        })
    }
}

#[async_trait]
impl LockBackend for RedlockBackend {
    fn semantics(&self) -> Semantics {
        semantics::redlock()
    }

    /// One attempt: granted by a majority, or taken back from every node.
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if let Some(twins) = self.twins.get() {
            return Err(twins.clone());
        }
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        let node_claim = Arc::new(NodeClaim::new(claim, &self.keys, number));
        let within = round_timeout(claim.ttl());
        let request = self.background.begin(claim.owner());

        let (votes, pending) = self.ask_to_hold(&node_claim, within).await;
        let all_answered = pending.is_empty();
        let (decide, decided) = oneshot::channel();
        let (late, decided) = (Arc::clone(&node_claim), decided.shared());
        finish(pending, move |node, answer| {
            finish_late_claim(Arc::clone(&late), Arc::clone(&request), decided.clone(), node, answer)
        });

        let granted = match votes.decision() {
            Some(Decision::Agreed) => self.write_back(&node_claim, &votes, within).await,
            Some(Decision::Refused) => Ok(None),
            Some(Decision::NotAnswered) | None => {
                Err(not_answered(self.quorum(), votes.agreed.len() + votes.refused.len(), &votes.failed))
            }
        };
        let _ = decide.send(granted.as_ref().ok().copied().flatten());
        if let Ok(Some(token)) = granted {
            return Ok(Attempt::Granted(Grant::new(token)));
        }
        let is_taken_back = self.take_back(&node_claim, &votes, within).await;
        match granted {
            Ok(_) if is_taken_back && all_answered => Ok(Attempt::Busy(votes.busy())),
            // What may be left is no place in a queue, but as with one, only a release makes sure that it goes.
            Ok(_) => Ok(Attempt::Busy(votes.busy().with_place_in_queue())),
            // An owner that does not know what became of an attempt comes back to end what may be left of it.
            Err(error) if !is_taken_back || (!all_answered && error.kind() == ErrorKind::Unavailable) => {
                Err(error.with_kind(ErrorKind::Indeterminate))
            }
            // Where a node has not answered yet, the lock is taken back later.
            Err(error) => Err(error),
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.renew_together(claims).await
    }

    /// Ends a claim on every node, those that did not answer its attempts included.
    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.background.end(claim.owner());
        let (quorum, claim) = (self.quorum(), Arc::new(NodeClaim::new(claim, &self.keys, 0)));
        let withdraw = |node| Arc::clone(&claim).withdraw(node, linger);
        let is_decided =
            |answers: &YesNoAnswers| answers.yes >= quorum.majority() || quorum.blocked_by(answers.no);
        let answers = ask_yes_no(&self.nodes, |_| true, None, withdraw, is_decided).await;
        if quorum.blocked_by(answers.no) {
            return Ok(Release::NotHeld);
        }
        if answers.yes + answers.no >= quorum.majority() {
            return Ok(Release::Released);
        }
        let error = not_answered(quorum, answers.yes + answers.no, &answers.failed);
        let applied = answers.yes > 0 && error.kind() == ErrorKind::Unavailable;
        Err(if applied { error.with_kind(ErrorKind::Indeterminate) } else { error })
    }

    /// Never: no node knows when a majority is free.
    async fn changed(&self, _claim: &Claim) {
        std::future::pending::<()>().await;
    }

    /// Never: a holder hears of a loss from its next renewal.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.nodes.iter().for_each(|node| node.link.close());
        Ok(())
    }
}

impl RedlockBackend {
    fn quorum(&self) -> Quorum {
        Quorum { nodes: self.nodes.len() }
    }

    async fn ask_to_hold(
        &self,
        claim: &Arc<NodeClaim>,
        within: Option<Duration>,
    ) -> (ClaimVotes, PendingRequests<Claimed>) {
        let mut votes = ClaimVotes::new(self.quorum());
        let take = |place, answer| {
            match answer {
                Ok(Claimed::Mine(reply)) => votes.agreed.push((place, reply)),
                Ok(Claimed::Busy(ends_in)) => votes.refused.push(ends_in),
                Ok(Claimed::Twice(other)) => votes.fail(place, self.named_twice(place, other)),
                Err(error) => votes.fail(place, error),
            }
            votes.decision().is_some()
        };
        let pending = ask(&self.nodes, |_| true, within, |node| Arc::clone(claim).hold(node), take).await;
        if votes.decision().is_none() {
            votes.failed.extend(overdue(&pending));
        }
        (votes, pending)
    }

    /// A majority holds the name: chooses the token, and has it written back by a majority. `None` if the name was taken from this
    /// attempt on enough nodes: by hand, or because the leases have ended meanwhile.
    async fn write_back(
        &self,
        claim: &Arc<NodeClaim>,
        votes: &ClaimVotes,
        within: Option<Duration>,
    ) -> Result<Option<FencingToken>> {
        if let Some(token) = votes.token_of_majority() {
            return Ok(Some(token));
        }
        let token = votes.next_token().ok_or_else(Error::tokens_used_up)?;
        let (majority, asked) = (self.quorum().majority(), votes.agreed.len());
        let write = |node| Arc::clone(claim).write_token(node, token);
        let is_decided = |answers: &YesNoAnswers| {
            answers.yes >= majority || asked - answers.no - answers.failed.len() < majority
        };
        let has_agreed = |place| votes.has_agreed(place);
        let answers = ask_yes_no(&self.nodes, has_agreed, within, write, is_decided).await;
        match answers.yes >= majority {
            true => Ok(Some(token)),
            false if answers.failed.is_empty() => Ok(None),
            false => Err(not_answered(self.quorum(), answers.yes + answers.no, &answers.failed)),
        }
    }

    /// Takes back what an attempt has taken, from every node on which it may have taken something. Waits for as many answers as
    /// nodes said that they hold it; true if nothing is left.
    async fn take_back(&self, claim: &Arc<NodeClaim>, votes: &ClaimVotes, within: Option<Duration>) -> bool {
        let agreed = votes.agreed.len();
        let take_back = |node| Arc::clone(claim).take_back(node);
        let is_decided = |answers: &YesNoAnswers| answers.yes + answers.no + answers.failed.len() >= agreed;
        let may_hold = |place| votes.may_hold(place);
        let answers = ask_yes_no(&self.nodes, may_hold, within, take_back, is_decided).await;
        answers.failed.is_empty()
    }

    /// Two places of the URL lead to one server. It is counted once, whatever the URL says: it holds a name under one place.
    fn named_twice(&self, place: usize, other: usize) -> Error {
        let address = |place: usize| self.nodes.get(place).map_or("?", |node| &*node.address);
        let twins = named_twice(address(other), address(place));
        self.twins.get_or_init(|| twins).clone()
    }
}

fn named_twice(one: &str, other: &str) -> Error {
    let message = format!("{one} and {other} are the same server, and a majority may count it once only");
    Error::new(ErrorKind::Misconfigured, message).with_help("take one of them out of the URL")
}
