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
mod late;
mod nodes;
mod quorum;
mod renewal;
mod reply;

use crate::backend::whole_millis;
use crate::keys::{Keys, LockKeys};
use crate::scripts::{HOLDER, LOCK, Script, TOKEN};
use crate::semantics;
use crate::target::Target;
use async_trait::async_trait;
use futures_util::FutureExt;
use late::{Unfinished, follow};
use leasehold_core::{
    Attempt, Claim, Error, ErrorKind, FencingToken, Grant, LockAdmin, LockBackend, Namespace, OwnerId,
    Release, Renewal, Result, Semantics,
};
use leasehold_store_url::StoreUrl;
use nodes::{Node, Nodes, Rest, Tally};
use quorum::{Ballot, Verdict, not_answered};
use reply::{Claimed, HolderRecord};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

const WITH_TOKEN: &[usize] = &[LOCK, HOLDER, TOKEN];
const WITHOUT_TOKEN: &[usize] = &[LOCK, HOLDER];

// Each is one atomic step on one node, and knows of no other.
static CLAIM: Script = Script::with_keys(include_str!("scripts/claim.lua"), WITH_TOKEN);
static WRITE_TOKEN: Script = Script::with_keys(include_str!("scripts/write_token.lua"), WITH_TOKEN);
static REPAIR: Script = Script::with_keys(include_str!("scripts/repair.lua"), WITH_TOKEN);
static WITHDRAW: Script = Script::with_keys(include_str!("scripts/withdraw.lua"), WITHOUT_TOKEN);
static RENEW: Script = Script::with_keys(include_str!("scripts/renew.lua"), WITHOUT_TOKEN);

/// Locks on a majority of independent Redis or Valkey servers, after the algorithm of redis.io, *Distributed Locks with
/// Redis*, with fencing tokens that a majority confirms.
///
/// All nodes are asked at once, over one connection to each. A name is held by the owner that holds it on more than half of
/// them.
#[derive(Debug)]
pub struct RedlockBackend {
    nodes: Nodes,
    keys: Keys,
    /// The number of the next attempt, or renewal.
    attempts: AtomicU64,
    unfinished: Arc<Unfinished>,
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
            nodes: Nodes::new(targets),
            keys,
            attempts: AtomicU64::new(1),
            unfinished: Arc::default(),
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
        let patience = Nodes::patience(claim.ttl());
        let underway = Arc::new(self.unfinished.begin(claim.owner()));

        let (held, rest) = self.ask_to_hold(&node_claim, patience).await;
        let all_heard = rest.is_empty();
        let (decide, decided) = oneshot::channel();
        let (late, decided) = (Arc::clone(&node_claim), decided.shared());
        rest.finish(move |node, answer| {
            follow(Arc::clone(&late), Arc::clone(&underway), decided.clone(), node, answer)
        });

        let granted = match held.verdict() {
            Some(Verdict::Agreed) => self.write_back(&node_claim, &held, patience).await,
            Some(Verdict::Refused) => Ok(None),
            Some(Verdict::NotAnswered) | None => Err(held.to_error()),
        };
        let _ = decide.send(granted.as_ref().ok().copied().flatten());
        if let Ok(Some(token)) = granted {
            return Ok(Attempt::Granted(Grant::new(token)));
        }
        let is_taken_back = self.take_back(&node_claim, &held, patience).await;
        match granted {
            Ok(_) if is_taken_back && all_heard => Ok(Attempt::Busy(held.busy())),
            // What may be left is no place in a queue, but as with one, only a release makes sure that it goes.
            Ok(_) => Ok(Attempt::Busy(held.busy().with_place_in_queue())),
            // An owner that does not know what became of an attempt comes back to end what may be left of it.
            Err(error) if !is_taken_back || (!all_heard && error.kind() == ErrorKind::Unavailable) => {
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
        self.unfinished.end(claim.owner());
        let (quorum, claim) = (self.nodes.quorum(), Arc::new(NodeClaim::new(claim, &self.keys, 0)));
        let withdraw = |node| Arc::clone(&claim).withdraw(node, linger);
        let is_decided = |tally: &Tally| tally.yes >= quorum.majority() || quorum.blocked_by(tally.no);
        let tally = self.nodes.tally(|_| true, None, withdraw, is_decided).await;
        if quorum.blocked_by(tally.no) {
            return Ok(Release::NotHeld);
        }
        if tally.yes + tally.no >= quorum.majority() {
            return Ok(Release::Released);
        }
        let error = not_answered(quorum, tally.yes + tally.no, &tally.failed);
        let applied = tally.yes > 0 && error.kind() == ErrorKind::Unavailable;
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
        self.nodes.close();
        Ok(())
    }
}

impl RedlockBackend {
    async fn ask_to_hold(
        &self,
        claim: &Arc<NodeClaim>,
        patience: Option<Duration>,
    ) -> (Ballot, Rest<Claimed>) {
        let mut held = Ballot::new(self.nodes.quorum());
        let take = |place, answer| {
            match answer {
                Ok(Claimed::Mine(reply)) => held.agree(place, reply),
                Ok(Claimed::Busy(ends_in)) => held.refuse(ends_in),
                Ok(Claimed::Late) => held.refuse(None),
                Ok(Claimed::Twice(other)) => held.fail(place, self.named_twice(place, other)),
                Err(error) => held.fail(place, error),
            }
            held.verdict().is_some()
        };
        let rest = self.nodes.ask(|_| true, patience, |node| Arc::clone(claim).hold(node), take).await;
        if held.verdict().is_none() {
            held.fail_unheard(rest.unheard());
        }
        (held, rest)
    }

    /// A majority holds the name: chooses the token, and has it written back by a majority. `None` if the name was taken from this
    /// attempt on enough nodes: by hand, or because the leases have ended meanwhile.
    async fn write_back(
        &self,
        claim: &Arc<NodeClaim>,
        held: &Ballot,
        patience: Option<Duration>,
    ) -> Result<Option<FencingToken>> {
        if let Some(token) = held.token_of_majority() {
            return Ok(Some(token));
        }
        let token = held.next_token().ok_or_else(Error::tokens_used_up)?;
        let (majority, asked) = (self.nodes.quorum().majority(), held.agreed().count());
        let write = |node| Arc::clone(claim).write_token(node, token);
        let is_decided =
            |tally: &Tally| tally.yes >= majority || asked - tally.no - tally.failed.len() < majority;
        let tally = self.nodes.tally(|place| held.has_agreed(place), patience, write, is_decided).await;
        match tally.yes >= majority {
            true => Ok(Some(token)),
            false if tally.failed.is_empty() => Ok(None),
            false => Err(not_answered(self.nodes.quorum(), tally.yes + tally.no, &tally.failed)),
        }
    }

    /// Takes back what an attempt has taken, from every node on which it may have taken something. Waits for as many answers as
    /// nodes said that they hold it; true if nothing is left.
    async fn take_back(&self, claim: &Arc<NodeClaim>, held: &Ballot, patience: Option<Duration>) -> bool {
        let agreed = held.agreed().count();
        let take_back = |node| Arc::clone(claim).take_back(node);
        let is_decided = |tally: &Tally| tally.yes + tally.no + tally.failed.len() >= agreed;
        let tally = self.nodes.tally(|place| held.may_hold(place), patience, take_back, is_decided).await;
        tally.failed.is_empty()
    }

    /// Two places of the URL lead to one server. It is counted once, whatever the URL says: it holds a name under one place.
    fn named_twice(&self, place: usize, other: usize) -> Error {
        let twins = named_twice(self.nodes.address(other), self.nodes.address(place));
        self.twins.get_or_init(|| twins).clone()
    }
}

/// A claim, as nodes are asked for it.
#[derive(Debug)]
struct NodeClaim {
    keys: LockKeys,
    owner: String,
    /// The number of the attempt. Each has its own, so that nothing of a later one is taken back with it.
    attempt: String,
    ttl: String,
    description: Arc<str>,
}

impl NodeClaim {
    fn new(claim: &Claim, keys: &Keys, attempt: u64) -> Self {
        Self {
            keys: keys.of(claim.name()),
            owner: claim.owner().to_hex(),
            attempt: attempt.to_string(),
            ttl: claim.ttl_millis().to_string(),
            description: Arc::clone(claim.holder()),
        }
    }

    /// Asks a node to hold the name for this owner.
    async fn hold(self: Arc<Self>, node: Arc<Node>) -> Result<Claimed> {
        let args = [&*self.owner, &self.attempt, &node.place.to_string(), &self.ttl];
        reply::claimed(&node.servers.run(&CLAIM, &self.keys, &args).await?)
    }

    /// Writes the token on a node. False if the node does not hold the name for this attempt any more, or has a token
    /// that is as large.
    async fn write_token(self: Arc<Self>, node: Arc<Node>, token: FencingToken) -> Result<bool> {
        let args = [&*self.value(&self.attempt, &node), &token.to_string(), &self.ttl, &self.description];
        reply::done(&node.servers.run(&WRITE_TOKEN, &self.keys, &args).await?)
    }

    /// Takes back what this attempt has on a node, and nothing of a later one.
    async fn take_back(self: Arc<Self>, node: Arc<Node>) -> Result<bool> {
        let args = [&*self.owner, &self.attempt, "0"];
        reply::done(&node.servers.run(&WITHDRAW, &self.keys, &args).await?)
    }

    /// Ends whatever the owner has on a node. False if there was nothing to end.
    async fn withdraw(self: Arc<Self>, node: Arc<Node>, linger: Duration) -> Result<bool> {
        let args = [&*self.owner, "", &whole_millis(linger).to_string()];
        reply::done(&node.servers.run(&WITHDRAW, &self.keys, &args).await?)
    }

    /// The record of the grant, from a node that has it.
    async fn record(&self, node: &Node) -> Option<HolderRecord> {
        reply::record(&node.link.command(redis::cmd("GET").arg(self.keys.all()[HOLDER])).await.ok()?)
    }

    /// Sets the lock on a node that is without it. False if it is not free there.
    async fn repair(&self, node: &Node, record: &HolderRecord) -> Result<bool> {
        let HolderRecord { attempt, token, rest } = record;
        let args = [&*self.value(attempt, node), token, &self.ttl, rest];
        reply::done(&node.servers.run(&REPAIR, &self.keys, &args).await?)
    }

    /// What stands in the lock key of a node.
    fn value(&self, attempt: &str, node: &Node) -> String {
        format!("{}:{attempt}:{}", self.owner, node.place)
    }
}

fn named_twice(one: &str, other: &str) -> Error {
    let message = format!("{one} and {other} are the same server, and a majority may count it once only");
    Error::new(ErrorKind::Misconfigured, message).with_help("take one of them out of the URL")
}
