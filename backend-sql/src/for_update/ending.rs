//! The release of a hold, and the answer if its outcome is unknown.
//!
//! After a call with an unknown outcome, the core takes "not held" for a success. So a hold whose release has begun is kept, with its
//! token, until one of two things is known: its row is free, or another owner was entered since, with a larger token. In the second
//! case the hold lasted to its release if no other owner had been entered when that began; otherwise it may have been lost before.

use super::HeldRow;
use super::admin::LOOK_EVERY;
use super::entries::Entry;
use super::hold::Hold;
use crate::lease::perhaps_held;
use leasehold_core::{Claim, Error, ErrorKind, FencingToken, Loss, LossCause, Release, Result};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long it may take to find out what became of a lock that is lost: its holder waits for the answer.
pub(super) const REASON_WITHIN: Duration = Duration::from_millis(250);

impl HeldRow {
    /// Ends a hold.
    pub(super) async fn end(&self, claim: &Claim, hold: &Hold) -> Result<Release> {
        let token = hold.token();
        let unsettled = |held_to_its_end| Entry::Unsettled { token, held_to_its_end };
        // Before the request is sent: the caller may be gone before the answer comes.
        self.entries().insert(claim.owner(), unsettled(false));
        let ended = match hold.end(&self.rows).await.map_err(perhaps_held) {
            Err(error) => match timeout(REASON_WITHIN, self.was_given_since(claim, token)).await {
                Ok(Ok(true)) => Ok(Release::NotHeld),
                Ok(Ok(false)) => {
                    self.entries().insert(claim.owner(), unsettled(true));
                    Err(error)
                }
                _ => Err(error),
            },
            ended => ended,
        };
        if ended.is_ok() {
            self.has_left(claim).await;
        }
        self.asked_for_the_last_time(claim, &ended);
        ended
    }

    /// The outcome of a release that had no answer.
    pub(super) async fn settle(
        &self,
        claim: &Claim,
        token: FencingToken,
        held_to_its_end: bool,
    ) -> Result<Release> {
        let settled = self.read_outcome(claim, token, held_to_its_end).await.map_err(perhaps_held);
        self.asked_for_the_last_time(claim, &settled);
        settled
    }

    async fn read_outcome(
        &self,
        claim: &Claim,
        token: FencingToken,
        held_to_its_end: bool,
    ) -> Result<Release> {
        // The server takes a moment to notice that a connection has ended.
        let enough = Instant::now() + REASON_WITHIN;
        loop {
            let was_given = self.was_given_since(claim, token).await?;
            if was_given && !held_to_its_end {
                self.forget(claim.owner());
                return Err(Loss::new(LossCause::Taken).into());
            }
            if was_given || !self.rows.is_locked(claim.name()).await? {
                self.has_left(claim).await;
                return Ok(Release::NotHeld);
            }
            if Instant::now() >= enough {
                return Err(still_locked());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// After an error that is no outage the core does not ask again.
    fn asked_for_the_last_time(&self, claim: &Claim, answer: &Result<Release>) {
        if answer.as_ref().is_err_and(|error| !error.is_outage()) {
            self.forget(claim.owner());
        }
    }

    /// For people. The next holder need not wait for it.
    async fn has_left(&self, claim: &Claim) {
        self.forget(claim.owner());
        self.rows.leave(claim.name(), claim.owner()).await;
    }

    /// True if another owner was entered since, also if it has released the lock: its token stays.
    async fn was_given_since(&self, claim: &Claim, token: FencingToken) -> Result<bool> {
        Ok(self.rows.last_token(claim.name()).await?.is_some_and(|last| last > token))
    }
}

fn still_locked() -> Error {
    let message = "the row is locked, perhaps by the connection that was to let it go";
    Error::new(ErrorKind::Indeterminate, message)
        .with_help("the server ends a transaction that was idle for one ttl")
}
