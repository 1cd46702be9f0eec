//! How a hold is given up, and what is said of it if nobody answered.
//!
//! "Nothing to end", after a call of which the outcome is unknown, is what a success looks like to the core. So a hold that was to
//! be ended is kept in mind, with its token, until one of two things is known: its row is free, and nobody was entered since; or
//! somebody was, with a larger token, and then the lock may not have covered the work to its end.

use super::hold::Hold;
use super::{Entry, HeldRow};
use crate::lease::perhaps_held;
use leasehold_core::{Claim, Error, ErrorKind, FencingToken, Loss, LossCause, Release, Result};
use std::time::Duration;
use tokio::time::timeout;

/// How long it may take to find out what became of a lock that is lost: its holder waits for the answer.
pub(super) const REASON_WITHIN: Duration = Duration::from_millis(250);

impl HeldRow {
    /// Ends a hold.
    pub(super) async fn end(&self, claim: &Claim, hold: &Hold) -> Result<Release> {
        // Before anything is said: whoever asks may not stay for the answer.
        self.entries().insert(claim.owner(), Entry::Unsettled(hold.token()));
        let ended = match hold.end(&self.rows).await {
            Err(_) if self.is_known_to_be_given_since(claim, hold.token()).await => Ok(Release::NotHeld),
            ended => ended,
        };
        self.ended.notify_waiters();
        if ended.is_ok() {
            self.has_left(claim).await;
        }
        ended
    }

    /// What became of a hold that was to be ended.
    pub(super) async fn settle(&self, claim: &Claim, token: FencingToken) -> Result<Release> {
        if self.was_given_since(claim, token).await.map_err(perhaps_held)? {
            self.forget(claim.owner());
            return Err(Loss::new(LossCause::Taken).into());
        }
        if self.rows.is_locked(claim.name()).await.map_err(perhaps_held)? {
            return Err(still_locked());
        }
        self.has_left(claim).await;
        Ok(Release::NotHeld)
    }

    /// For people, and later than it could be: the next holder need not wait for it.
    async fn has_left(&self, claim: &Claim) {
        self.forget(claim.owner());
        self.rows.leave(claim.name(), claim.owner()).await;
    }

    /// False if that is not heard in time.
    async fn is_known_to_be_given_since(&self, claim: &Claim, token: FencingToken) -> bool {
        let given = timeout(REASON_WITHIN, self.was_given_since(claim, token)).await;
        matches!(given, Ok(Ok(true)))
    }

    /// True if another was entered since, also if it has left: the token stays.
    async fn was_given_since(&self, claim: &Claim, token: FencingToken) -> Result<bool> {
        Ok(self.rows.last_token(claim.name()).await?.is_some_and(|last| last > token))
    }
}

fn still_locked() -> Error {
    let message = "the row is locked, perhaps by the connection that was to let it go";
    Error::new(ErrorKind::Indeterminate, message)
        .with_help("the server ends a transaction in which nothing is said for one ttl")
}
