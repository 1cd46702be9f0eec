//! Grants that replicas must have before they are believed.
//!
//! Every grant, whichever way it came: one that was asked for, one that a heartbeat found, one that was handed over. A
//! hand-over is the server's own work and cannot wait in the middle of a script, so its new holder asks for it once more,
//! which writes it once more, and waits then. Renewals wait too: a replica that has the grant and not its renewal would,
//! once promoted, end the lease earlier than its holder does.

use super::RedisBackend;
use super::holding::Args;
use crate::link::{Confirmed, Matter};
use crate::reply::{self, Asked};
use crate::scripts;
use crate::target::Replicas;
use leasehold_core::{Busy, Claim, Error, ErrorKind, FencingToken, Result};
use std::time::Duration;

impl Replicas {
    /// The same for leases of this length: what comes late is of no use.
    pub(super) fn for_lease(self, ttl: Duration) -> Self {
        Self { within: self.within.min(ttl / 4), ..self }
    }
}

impl RedisBackend {
    /// Asks as one who expects no queue, and believes no grant that too few replicas have.
    pub(super) async fn ask_confirmed(&self, claim: &Claim, replicas: Replicas) -> Result<Asked> {
        let (asked, confirmed) = self.ask_with_replicas(claim, replicas).await?;
        self.if_confirmed(claim, asked, confirmed, replicas).await
    }

    /// Makes sure that enough replicas have a grant that the server has made.
    pub(super) async fn confirm(&self, claim: &Claim, asked: Asked) -> Result<Asked> {
        let (Some(replicas), &Asked::Granted(token)) = (self.replicas, &asked) else {
            return Ok(asked);
        };
        let (again, confirmed) = match Box::pin(self.ask_with_replicas(claim, replicas)).await {
            Ok(answer) => answer,
            // The error says that this request did nothing; the grant stands nevertheless.
            Err(why) if self.taken_back.take_back(claim.owner(), token) => {
                return Err(self.take_back(claim, token, why).await);
            }
            Err(_) => return Ok(asked),
        };
        match self.if_confirmed(claim, again, confirmed, replicas).await? {
            // The grant has ended meanwhile, and other owners wait.
            Asked::AskWithQueue => Ok(Asked::Busy(Busy::new())),
            other => Ok(other),
        }
    }

    async fn ask_with_replicas(&self, claim: &Claim, replicas: Replicas) -> Result<(Asked, Confirmed)> {
        let (keys, args) = (self.keys.only_of_grant(claim.name()), Args::of(claim));
        let (keys, words, replicas) = (keys.all(), args.words(claim), replicas.for_lease(claim.ttl()));
        let (script, matter) = (&scripts::ACQUIRE, Matter::Grant);
        let (reply, confirmed) = self.servers.run_confirmed(script, &keys, &words, replicas, matter).await?;
        Ok((reply::attempt(&reply)?, confirmed))
    }

    /// The answer, unless it is a grant that too few replicas have.
    async fn if_confirmed(
        &self,
        claim: &Claim,
        asked: Asked,
        confirmed: Confirmed,
        replicas: Replicas,
    ) -> Result<Asked> {
        let Asked::Granted(token) = asked else {
            return Ok(asked);
        };
        let why_not = match confirmed {
            Confirmed::Yes if self.taken_back.believe(claim.owner(), token) => return Ok(asked),
            Confirmed::Yes => to_be_taken_back(),
            Confirmed::By(count) => too_few(count, replicas),
            Confirmed::Unasked(why) => why,
        };
        // Another call for this claim has the confirmation of the replicas, and believes the grant.
        if !self.taken_back.take_back(claim.owner(), token) {
            return Ok(asked);
        }
        Err(self.take_back(claim, token, why_not).await)
    }

    /// Ends a grant that is not to be believed, and says why it is not. If that fails, nobody knows how it stands.
    ///
    /// By its token: the owner may ask again before this is carried out, and what it is granted then is its own.
    async fn take_back(&self, claim: &Claim, token: FencingToken, why: Error) -> Error {
        let (keys, owner, token_word) = (self.keys.of(claim.name()), claim.owner(), token.to_string());
        let words = [&*owner.to_hex(), "0", &token_word];
        let reply = self.servers.run(&scripts::TAKE_BACK, &keys.all(), &words).await;
        match reply.and_then(|reply| reply::release(&reply)) {
            Ok(released) => {
                self.learn(claim.name(), released);
                why
            }
            Err(error) => {
                self.taken_back.leave_unknown(owner);
                let message = format!("{why}; whether the grant was taken back is not known");
                Error::new(ErrorKind::Indeterminate, message).with_source(error)
            }
        }
    }
}

fn to_be_taken_back() -> Error {
    Error::new(ErrorKind::Unavailable, "the grant was to be taken back before, and is now")
        .with_help("ask again")
}

fn too_few(count: u32, replicas: Replicas) -> Error {
    let message = format!(
        "{count} of {} replicas have confirmed the grant in time, so it was taken back",
        replicas.count
    );
    Error::new(ErrorKind::Unavailable, message).with_help(
        "look at the replicas: INFO replication; or lower wait_replicas in the URL, or raise timeout",
    )
}
