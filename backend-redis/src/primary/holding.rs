//! How a hold begins and ends: what the free path asks of the server, and what is asked where somebody waits.

use super::RedisBackend;
use super::batch::{Batches, Joined};
use crate::reply::{self, Asked, Released};
use crate::script_arg::ScriptArg;
use crate::scripts;
use leasehold_core::{Attempt, Claim, ErrorKind, Grant, LockName, Release, Result};
use std::time::Duration;

impl RedisBackend {
    /// Asks for a claim whose owner goes if it is not granted.
    pub(super) async fn attempt_once(&self, claim: &Claim) -> Result<Attempt> {
        match self.ask_as_if_free(claim).await? {
            Asked::AskWithQueue => {
                let asked = self.ask_in_full(claim).await?;
                self.confirm(claim, asked).await?.into_attempt()
            }
            asked => asked.into_attempt(),
        }
    }

    /// Asks for a claim whose owner will wait. Asked again, this is the heartbeat that keeps its place in the queue, and
    /// that finds a grant whose message was lost.
    pub(super) async fn attempt_or_queue(&self, claim: &Claim) -> Result<Attempt> {
        let (name, owner) = (claim.name(), claim.owner());
        if self.believes_messages()
            && let Some(grant) = self.mailbox.take(owner)
        {
            return Ok(Attempt::Granted(grant));
        }
        // Several tokens are wanted where others wait in this process.
        let is_contended = claim.tokens() > 1 || self.contention.is_expected(name);
        if !is_contended && !self.mailbox.listens(owner) {
            match self.ask_as_if_free(claim).await? {
                Asked::Granted(grant) => return Ok(Attempt::Granted(grant)),
                _ => self.contention.seen(name),
            }
        }
        self.mailbox.listen(owner);
        let asked = self.join_queue(claim).await;
        match &asked {
            Ok(Asked::Queued(_, place)) => self.mailbox.waits_at(owner, *place),
            Err(error) if error.kind() == ErrorKind::Indeterminate => {}
            Err(_) => self.mailbox.forget_unless_queued(owner),
            Ok(_) => drop(self.mailbox.forget(owner)),
        }
        self.confirm(claim, asked?).await?.into_attempt()
    }

    /// Ends a claim: its hold, or its place in the queue.
    pub(super) async fn end(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        let name = claim.name();
        self.taken_back.forget(claim.owner());
        let listened = claim.waits() && self.mailbox.forget(claim.owner());
        let mut released = Released::AskWithQueue;
        if !listened && !self.contention.is_expected(name) {
            released = self.release_as_if_alone(claim, linger).await?;
        }
        // Who holds nothing may still stand in the queue, whatever is remembered of it here: a withdrawal without an answer
        // has forgotten that already. A place that is left can be handed the lock when nobody is behind it any more.
        let may_stand_in_queue = claim.waits() && released == Released::NotHeld;
        if released == Released::AskWithQueue || may_stand_in_queue {
            released = self.release_by(&self.keys.of(name).all(), claim, linger).await?;
            self.learn(name, released);
        }
        released.into_release()
    }

    /// Makes sure that the owner stands in the queue, if it is not granted the lock, and can be told when it is.
    async fn join_queue(&self, claim: &Claim) -> Result<Asked> {
        let (asked, hears) = self.ask_listening(claim).await?;
        let unheard = !hears && matches!(asked, Asked::Queued(..));
        if unheard && self.servers.listen(self.keys.of(claim.name()).lock()).await {
            // Once for each connection: the queue has it that this owner hears nothing. If this gets no answer, the first
            // one stands.
            return Ok(self.ask_listening(claim).await.map_or(asked, |(asked, _)| asked));
        }
        Ok(asked)
    }

    /// Without the keys of the queue; and with the word of the replicas, where they are asked for it.
    async fn ask_as_if_free(&self, claim: &Claim) -> Result<Asked> {
        if let Some(replicas) = self.replicas {
            return Box::pin(self.ask_confirmed(claim, replicas)).await;
        }
        let asking = self.batches.as_ref().map(Batches::enter);
        if let Some(asking) = &asking {
            match asking.acquire(claim).await? {
                Joined::Done(token) => return Ok(Asked::Granted(Grant::new(token))),
                Joined::AskInFull if claim.waits() => return Ok(Asked::AskWithQueue),
                Joined::AskInFull | Joined::AskAlone | Joined::Refused => {}
            }
        }
        let (keys, args) = (self.keys.only_of_grant(claim.name()), Args::of(claim));
        let reply = self.servers.run(&scripts::ACQUIRE, &keys.all(), &args.words(claim)).await?;
        reply::attempt(&reply)
    }

    async fn ask_in_full(&self, claim: &Claim) -> Result<Asked> {
        let (keys, args) = (self.keys.of(claim.name()), Args::of(claim));
        let reply = self.servers.run(&scripts::ACQUIRE, &keys.all(), &args.words(claim)).await?;
        reply::attempt(&reply)
    }

    /// Also says whether the owner will hear of its grant.
    async fn ask_listening(&self, claim: &Claim) -> Result<(Asked, bool)> {
        let (keys, args) = (self.keys.of(claim.name()), Args::of(claim));
        let [owner, ttl, holder] = args.words(claim);
        let words = [owner, ttl, holder, &ScriptArg::number(claim.tokens())];
        let (reply, hears) = self.servers.run_listening(&scripts::ACQUIRE, &keys.all(), &words).await?;
        Ok((reply::attempt(&reply)?, hears))
    }

    /// Without the keys of the queue.
    async fn release_as_if_alone(&self, claim: &Claim, linger: Duration) -> Result<Released> {
        let asking = self.batches.as_ref().map(Batches::enter);
        if let Some(asking) = &asking
            && linger.is_zero()
        {
            match asking.release(claim).await? {
                Joined::Done(()) => return Ok(Released::ToNobody),
                // Not held, perhaps, which takes no other keys to find out.
                Joined::AskInFull | Joined::AskAlone | Joined::Refused => {}
            }
        }
        self.release_by(&self.keys.only_of_hold(claim.name()).all(), claim, linger).await
    }

    async fn release_by(&self, keys: &[&str], claim: &Claim, linger: Duration) -> Result<Released> {
        let (owner, linger) = (ScriptArg::owner(claim.owner()), ScriptArg::at_least(linger));
        let reply = self.servers.run(&scripts::RELEASE, keys, &[&owner, &linger]).await?;
        reply::release(&reply)
    }

    pub(super) fn learn(&self, name: &LockName, released: Released) {
        match released {
            Released::ToTheNext => self.contention.seen(name),
            Released::ToNobody => self.contention.not_seen(name),
            Released::NotHeld | Released::AskWithQueue => {}
        }
    }
}

/// The arguments of `acquire.lua`.
pub(super) struct Args {
    owner: ScriptArg,
    ttl: ScriptArg,
}

impl Args {
    pub(super) fn of(claim: &Claim) -> Self {
        Self { owner: ScriptArg::owner(claim.owner()), ttl: ScriptArg::number(claim.ttl_millis()) }
    }

    pub(super) fn words<'a>(&'a self, claim: &'a Claim) -> [&'a str; 3] {
        [&self.owner, &self.ttl, claim.holder()]
    }
}
