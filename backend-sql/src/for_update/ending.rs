//! The release of a hold, and the answer if its outcome is unknown.
//!
//! After a call with an unknown outcome, the core takes "not held" for a success. So a hold whose release has begun is kept until one of
//! two things is known: the hold has ended, or an owner that it excludes was entered since. If no such owner was entered yet when the
//! release failed, the hold was good to its end; if one was, the hold may have been lost before.
//!
//! An exclusive hold has ended if a reader could lock its row now. A reader shares the row with others: its hold has ended if its
//! connection is gone. A larger token proves nothing for a reader, because it may be that of another reader. A missing entry does: an
//! exclusive grant removes the entries of all readers. (Beside many readers, another client may have removed the entry because the
//! connection was gone. The answer is then that of a hold that was lost.)
//!
//! A name that was forgotten counts as given: whoever deleted its rows had locked them, and nothing is left to show who else did.

use super::HeldRow;
use super::admin::LOOK_EVERY;
use super::claims::{ClaimState, UnsettledRelease};
use super::hold::TransactionHold;
use crate::lease::{REASONS_WITHIN, ReadFor, perhaps_held};
use crate::lock_mutex;
use leasehold_core::{Claim, Error, ErrorKind, FencingToken, Loss, LossCause, Release, Result};
use std::sync::Arc;
use tokio::time::{Instant, sleep, timeout};

impl HeldRow {
    pub(super) async fn end(&self, claim: &Claim, hold: &Arc<TransactionHold>) -> Result<Release> {
        let (token, number) = (hold.token, hold.number);
        let unsettled =
            |held_to_its_end| ClaimState::Unsettled(UnsettledRelease { token, number, held_to_its_end });
        // Before the request is sent: the caller may be gone before the answer comes.
        lock_mutex(&self.claims.0).insert(claim.owner(), unsettled(false));
        let released = match hold.end(&self.rows).await.map_err(perhaps_held) {
            Ok(Some(connection)) => {
                // Before the entry is removed: the next call, if this one is dropped meanwhile, is told "not held" and of no loss.
                self.claims.forget(claim.owner());
                hold.leave(&self.rows, connection).await;
                return Ok(Release::Released);
            }
            // In the first answer to a release this is a loss.
            Ok(None) => Ok(Release::NotHeld),
            // The server takes no writes any more.
            Err(error) if error.loss().is_some() => Err(error),
            Err(error) => match timeout(REASONS_WITHIN, self.was_given_since(claim, token)).await {
                Ok(Ok(true)) => Ok(Release::NotHeld),
                Ok(Ok(false)) => {
                    // Unless another call has settled it meanwhile.
                    lock_mutex(&self.claims.0)
                        .entry(claim.owner())
                        .and_modify(|state| *state = unsettled(true));
                    return Err(error);
                }
                _ => return Err(error),
            },
        };
        self.claims.forget(claim.owner());
        // The hold is over; the row is free as soon as the server has noticed that too.
        self.rows.leave(claim.name(), claim.mode(), token).await;
        released
    }

    /// Finds out what became of a release that had no answer, and forgets the claim once that is known.
    pub(super) async fn settle(&self, claim: &Claim, unsettled: UnsettledRelease) -> Result<Release> {
        let UnsettledRelease { token, number, held_to_its_end } = unsettled;
        // The server takes a moment to notice that a connection has ended.
        let enough = Instant::now() + REASONS_WITHIN;
        loop {
            let was_given = self.was_given_since(claim, token).await?;
            if was_given && !held_to_its_end {
                return Err(Loss::new(LossCause::Taken).into());
            }
            let may_hold = match claim.mode().is_shared() {
                true => self.rows.own_connection_may_hold(number).await?,
                false => !was_given && self.rows.is_locked_exclusively(claim.name()).await?,
            };
            if !may_hold {
                self.claims.forget(claim.owner());
                self.rows.leave(claim.name(), claim.mode(), token).await;
                return Ok(Release::NotHeld);
            }
            if Instant::now() >= enough {
                let message = "the row is locked, perhaps by the connection that was to let it go";
                let error = Error::new(ErrorKind::Indeterminate, message);
                return Err(error.with_help("the server ends a transaction that was idle for one ttl"));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// True if an owner that the hold excludes was entered since, also if that owner has left: tokens never become smaller, and the
    /// entries of readers stay removed. Also if the name was forgotten.
    async fn was_given_since(&self, claim: &Claim, token: FencingToken) -> Result<bool> {
        let entered = self.rows.look(ReadFor::Loss, claim.name()).await?;
        Ok(entered.is_none_or(|entered| match claim.mode().is_shared() {
            true => entered.readers().all(|reader| reader.token != token),
            false => entered.token > token,
        }))
    }
}
