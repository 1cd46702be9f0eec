//! Attempts and releases: first the short request for a name without a queue, then the one with the keys of the queue.

use super::RedisBackend;
use super::batch::{Batches, Joined};
use crate::reply::{self, Asked, Released};
use crate::script_arg::ScriptArg;
use crate::scripts;
use leasehold_core::{Attempt, Claim, ErrorKind, LockName, Release, Result};
use std::time::Duration;

impl RedisBackend {
    /// An attempt of an owner that does not wait.
    pub(super) async fn attempt_once(&self, claim: &Claim) -> Result<Attempt> {
        match self.ask_as_if_free(claim).await? {
            Asked::AskWithQueue => {
                let asked = self.ask_in_full(claim).await?;
                self.confirm(claim, asked).await?.into_attempt()
            }
            asked => asked.into_attempt(),
        }
    }

    /// An attempt of an owner that waits. Repeated, it is the heartbeat that keeps the place in the queue and finds a grant
    /// whose message was lost.
    pub(super) async fn attempt_or_queue(&self, claim: &Claim) -> Result<Attempt> {
        let (name, owner) = (claim.name(), claim.owner());
        if self.believes_messages()
            && let Some(grant) = self.mailbox.take(owner)
        {
            return Ok(Attempt::Granted(grant));
        }
        if !self.contention.is_expected(name) && !self.mailbox.listens(owner) {
            match self.ask_as_if_free(claim).await? {
                asked @ Asked::Granted(_) => return asked.into_attempt(),
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
        // An owner that holds nothing may be in the queue although this process does not remember it: an earlier release whose
        // answer was lost has forgotten it. A place left behind would be handed the lock.
        let may_stand_in_queue = claim.waits() && released == Released::NotHeld;
        if released == Released::AskWithQueue || may_stand_in_queue {
            released = self.release_by(&self.keys.of(name).all(), claim, linger).await?;
            self.learn(name, released);
        }
        released.into_release()
    }

    /// Grants the lock to the owner, or puts it into the queue with a channel on which it is told of its grant.
    async fn join_queue(&self, claim: &Claim) -> Result<Asked> {
        let (asked, hears) = self.ask_listening(claim).await?;
        let unheard = !hears && matches!(asked, Asked::Queued(..));
        if unheard && self.servers.listen(self.keys.of(claim.name()).lock()).await {
            // Once for each connection: the entry in the queue names no channel yet. Without an answer to the second request,
            // the first one stands.
            return Ok(self.ask_listening(claim).await.map_or(asked, |(asked, _)| asked));
        }
        Ok(asked)
    }

    /// Without the keys of the queue; confirmed by the replicas, where the URL wants that.
    async fn ask_as_if_free(&self, claim: &Claim) -> Result<Asked> {
        if let Some(replicas) = self.replicas {
            return Box::pin(self.ask_confirmed(claim, replicas)).await;
        }
        let asking = self.batches.as_ref().map(Batches::enter);
        if let Some(asking) = &asking {
            match asking.acquire(claim).await? {
                Joined::Done(token) => return Ok(Asked::Granted(token)),
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

    /// Also returns true if the owner will be told of its grant.
    async fn ask_listening(&self, claim: &Claim) -> Result<(Asked, bool)> {
        let (keys, args) = (self.keys.of(claim.name()), Args::of(claim));
        let words = args.words(claim);
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
                // Perhaps not held: the script says so without the keys of the queue.
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
