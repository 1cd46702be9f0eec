//! How a hold begins and ends.
//!
//! An attempt asks all nodes to hold the name. If a majority does, a token is chosen that is larger than all that those
//! nodes know, and written back: by a node only if it still holds the name for this attempt, and knows of no larger one.
//! Only when a majority has written it, the lock is granted.
//!
//! Why that is enough. Two grants have a node in common that has written both tokens, and a node writes in one order
//! only, each token larger than the last: so no two are the same, and the order of tokens is the order in which that
//! node held the name for them. No clock and no timing is needed for that, and a lease may end at any moment. The crate
//! `leasehold-models` explores it.

use super::RedlockBackend;
use super::attempt::{AttemptFilter, NumberedAttempt, named_twice, withdraw};
use super::follower::{AttemptResult, Follower};
use super::nodes::Rest;
use super::quorum::{Ballot, Verdict, not_answered};
use super::reply::{ClaimReply, Claimed};
use leasehold_core::{Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, Release, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

/// Why an attempt was not granted.
#[derive(Debug)]
enum NotGranted {
    /// Others are in the way, until then if that is known.
    Busy(Option<Duration>),
    Failed(Error),
}

/// What the nodes have said to the question whether they hold the name.
#[derive(Debug)]
struct Held {
    ballot: Ballot<ClaimReply>,
    /// Nodes that may hold the name for this attempt now.
    touched: Vec<usize>,
}

impl RedlockBackend {
    /// One attempt: granted by a majority, or taken back from every node.
    pub(super) async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        if let Some(twins) = self.twins.get() {
            return Err(twins.clone());
        }
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        let attempt = Arc::new(NumberedAttempt::new(claim, self.keys.of(claim.name()), number));
        let underway = Arc::new(self.unfinished.begin(claim.owner()));
        let (fate, told) = watch::channel(AttemptResult::Open);

        let (held, rest) = self.ask_to_hold(claim, &attempt).await;
        let all_heard = rest.is_empty();
        let follower = Follower { attempt: Arc::clone(&attempt), underway, told };
        rest.finish(move |node, answer| follower.clone().follow(node, answer));

        let outcome = match held.ballot.verdict() {
            Some(Verdict::Agreed) => self.grant(claim, &attempt, &held.ballot).await,
            Some(Verdict::Refused) => Err(NotGranted::Busy(held.ballot.ends_in())),
            Some(Verdict::NotAnswered) | None => Err(NotGranted::Failed(held.ballot.to_error())),
        };
        match outcome {
            Ok(token) => {
                fate.send_replace(AttemptResult::Granted(token));
                Ok(Attempt::Granted(Grant::new(token)))
            }
            Err(why) => {
                fate.send_replace(AttemptResult::Failed);
                let is_taken_back = self.take_back(claim, &attempt, &held).await;
                not_granted(why, is_taken_back, all_heard)
            }
        }
    }

    async fn ask_to_hold(&self, claim: &Claim, attempt: &Arc<NumberedAttempt>) -> (Held, Rest<Claimed>) {
        let mut held = Held { ballot: Ballot::new(self.nodes.quorum()), touched: Vec::new() };
        let rest = self
            .nodes
            .ask(
                self.nodes.patience(claim.ttl()),
                |node| Some(Box::pin(Arc::clone(attempt).claim(node))),
                |place, answer| {
                    if answer.as_ref().is_ok_and(|claimed| matches!(claimed, Claimed::Mine(_)))
                        || answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Indeterminate)
                    {
                        held.touched.push(place);
                    }
                    match answer {
                        Ok(Claimed::Mine(bid)) => held.ballot.agree(place, bid),
                        Ok(Claimed::Busy(ends_in)) => held.ballot.refuse(ends_in),
                        Ok(Claimed::Late) => held.ballot.refuse(None),
                        Ok(Claimed::Twice(other)) => held.ballot.fail(self.named_twice(place, other)),
                        Err(error) => held.ballot.fail(error),
                    }
                    held.ballot.verdict().is_some()
                },
            )
            .await;
        if held.ballot.verdict().is_none() {
            rest.unheard().for_each(|error| held.ballot.fail(error));
        }
        (held, rest)
    }

    /// A majority holds the name: chooses the token, and has it written back by a majority.
    async fn grant(
        &self,
        claim: &Claim,
        attempt: &Arc<NumberedAttempt>,
        held: &Ballot<ClaimReply>,
    ) -> Result<FencingToken, NotGranted> {
        if let Some(token) = held.token_of_majority() {
            return Ok(token);
        }
        let token = held.next_token().ok_or_else(|| NotGranted::Failed(Error::tokens_used_up()))?;
        let majority = self.nodes.quorum().majority();
        let (mut written, mut refused, mut failed) = (0, 0, Vec::new());
        let asked = held.agreed().count();
        let rest = self
            .nodes
            .ask(
                self.nodes.patience(claim.ttl()),
                |node| {
                    let write = held.has_agreed(node.place);
                    write.then(|| Box::pin(Arc::clone(attempt).write_token(node, token)) as _)
                },
                |_, answer| {
                    match answer {
                        Ok(true) => written += 1,
                        Ok(false) => refused += 1,
                        Err(error) => failed.push(error),
                    }
                    written >= majority || asked - refused - failed.len() < majority
                },
            )
            .await;
        failed.extend(rest.unheard());
        rest.detach();
        if written >= majority {
            return Ok(token);
        }
        if failed.is_empty() {
            // Taken from under us, on enough nodes: by hand, or because the leases have ended meanwhile.
            return Err(NotGranted::Busy(None));
        }
        let error = not_answered(self.nodes.quorum(), written + refused, &failed);
        Err(NotGranted::Failed(error))
    }

    /// Takes back what an attempt has taken, from every node on which it may have taken something. Waits for those that
    /// said so; true if none is left.
    async fn take_back(&self, claim: &Claim, attempt: &Arc<NumberedAttempt>, held: &Held) -> bool {
        let (mut waited_for, mut is_clean) = (held.ballot.agreed().count(), true);
        if held.touched.is_empty() {
            return true;
        }
        let rest = self
            .nodes
            .ask(
                self.nodes.patience(claim.ttl()),
                |node| {
                    let touched = held.touched.contains(&node.place);
                    touched.then(|| Box::pin(Arc::clone(attempt).take_back(node)) as _)
                },
                |place, answer| {
                    is_clean &= answer.is_ok();
                    waited_for -= usize::from(held.ballot.has_agreed(place));
                    waited_for == 0
                },
            )
            .await;
        is_clean &= rest.is_empty();
        rest.detach();
        is_clean
    }

    fn named_twice(&self, place: usize, other: usize) -> Error {
        let twins = named_twice(self.nodes.address(other), self.nodes.address(place));
        self.twins.get_or_init(|| twins).clone()
    }

    /// Ends a claim on every node, those that did not answer its attempts included.
    pub(super) async fn end(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.unfinished.end(claim.owner());
        let quorum = self.nodes.quorum();
        let (keys, owner) = (Arc::new(self.keys.of(claim.name())), claim.owner().to_hex());
        let (mut ended, mut nothing, mut failed) = (0, 0, Vec::new());
        let rest = self
            .nodes
            .ask(
                None,
                |node| {
                    let (keys, owner) = (Arc::clone(&keys), owner.clone());
                    Some(Box::pin(
                        async move { withdraw(&node, &keys, &owner, AttemptFilter::Any, linger).await },
                    ))
                },
                |_, answer| {
                    match answer {
                        Ok(true) => ended += 1,
                        Ok(false) => nothing += 1,
                        Err(error) => failed.push(error),
                    }
                    ended >= quorum.majority() || quorum.blocked_by(nothing)
                },
            )
            .await;
        rest.detach();
        if quorum.blocked_by(nothing) {
            return Ok(Release::NotHeld);
        }
        if ended + nothing >= quorum.majority() {
            return Ok(Release::Released);
        }
        let error = not_answered(quorum, ended + nothing, &failed);
        let applied = ended > 0 && error.kind() == ErrorKind::Unavailable;
        Err(if applied { error.with_kind(ErrorKind::Indeterminate) } else { error })
    }
}

fn not_granted(why: NotGranted, is_taken_back: bool, all_heard: bool) -> Result<Attempt> {
    match why {
        NotGranted::Busy(ends_in) => {
            let busy = ends_in.map_or_else(Busy::new, |ends_in| Busy::new().with_end(ends_in));
            // What may be left is no place in a queue, but as with one, only a release makes sure that it goes.
            let is_clean = is_taken_back && all_heard;
            Ok(Attempt::Busy(if is_clean { busy } else { busy.with_place_in_queue() }))
        }
        // Only who does not know what became of an attempt comes back to end what may be left of it.
        NotGranted::Failed(error) if !is_taken_back => Err(error.with_kind(ErrorKind::Indeterminate)),
        NotGranted::Failed(error) if !all_heard && error.kind() == ErrorKind::Unavailable => {
            Err(error.with_kind(ErrorKind::Indeterminate))
        }
        // The follower of a node that has not answered yet takes the lock back there.
        NotGranted::Failed(error) => Err(error),
    }
}
