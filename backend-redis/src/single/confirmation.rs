//! Grants that replicas must have before they are believed.
//!
//! Every grant, whichever way it came: one that was asked for, one that a heartbeat found, one that was handed over. A
//! hand-over is the server's own work and cannot wait in the middle of a script, so its new holder asks for it once more,
//! which writes it once more, and waits then. Renewals wait too: a replica that has the grant and not its renewal would,
//! once promoted, end the lease earlier than its holder does.

use super::RedisBackend;
use super::holding::Args;
use crate::link::Confirmed;
use crate::reply::{self, Asked};
use crate::scripts;
use crate::target::Replicas;
use leasehold_core::{Claim, Error, ErrorKind, Result};
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
        let (keys, args) = (self.keys.of(claim.name()), Args::of(claim));
        let (reply, confirmed) = self
            .servers
            .run_confirmed(
                &scripts::ACQUIRE,
                &keys.of_grant(),
                &args.words(claim),
                replicas.for_lease(claim.ttl()),
            )
            .await?;
        let asked = reply::attempt(&reply)?;
        match (&asked, confirmed) {
            (Asked::Granted(_), Confirmed::By(count)) => {
                Err(self.take_back(claim, too_few(count, replicas)).await)
            }
            (Asked::Granted(_), Confirmed::Unasked(why)) => Err(self.take_back(claim, why).await),
            _ => Ok(asked),
        }
    }

    /// Makes sure that enough replicas have a grant that the server has made.
    pub(super) async fn confirm(&self, claim: &Claim, asked: Asked) -> Result<Asked> {
        let (Some(replicas), Asked::Granted(grant)) = (self.replicas, &asked) else {
            return Ok(asked);
        };
        match self.ask_confirmed(claim, replicas).await? {
            // Asked for again, it tells nothing of the other tokens that were reserved with it.
            Asked::Granted(again) if again.token == grant.token => Ok(asked),
            other => Ok(other),
        }
    }

    /// Ends a grant that is not to be believed, and says why it is not. If that fails, nobody knows how it stands.
    async fn take_back(&self, claim: &Claim, why: Error) -> Error {
        match self.end(claim, Duration::ZERO).await {
            Ok(_) => why,
            Err(error) => {
                let message = format!("{why}; whether the grant was taken back is not known");
                Error::new(ErrorKind::Indeterminate, message).with_source(error)
            }
        }
    }
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
