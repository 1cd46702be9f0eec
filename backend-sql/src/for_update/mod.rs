//! The strategy of held transactions: a lock is held exactly as long as one row is locked by an open transaction, which
//! has a connection of its own. Readers have the row locked together.
//!
//! | looking for | it is in |
//! |---|---|
//! | the statements | `rows.rs`, and the `.sql` files of each database |
//! | the state of each claim | `claims.rs` |
//! | a hold, and how its end is noticed | `hold.rs` |
//! | the release, and its unknown outcome | `ending.rs` |
//! | waiting in the server | `wait.rs` |
//! | readers, and the marks of waiting writers | `shared.rs` |
//! | the row of a name in the table of holders | `holder.rs` |
//! | looking at locks, breaking them, and forgetting names | `admin.rs` |
//!
//! The database frees the lock when the connection ends, so a process that dies frees it at once. A process that stands
//! still must not hold it for ever: the server ends a transaction that was idle for one ttl. The holder asks something every third of a
//! ttl, and its own deadline is earlier than that of the server.
//!
//! The token is not written by the transaction that holds the lock: what that one writes is gone when the holder dies,
//! and the next token would be the same. It is taken after the lock, by a statement of its own; and after that the
//! transaction is heard to be alive still. So the holds have the order of their tokens.

mod admin;
mod claims;
mod ending;
mod hold;
mod holder;
mod rows;
mod semantics;
mod shared;
#[cfg(all(test, feature = "postgres"))]
mod tests;
mod wait;

use crate::lease::{REASONS_WITHIN, ReadFor, hash_of, perhaps_held};
use crate::lock_mutex;
use crate::server::{Server, read_only};
use async_trait::async_trait;
use claims::{ClaimState, Claims};
use hold::{KeepAlive, TransactionHold};
use holder::Holder;
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, Grant, KnownServers, LockAdmin, LockBackend, LossCause,
    Namespace, OwnerId, Release, Renewal, Result, Semantics, renew_each,
};
use rows::{LockedRow, Rows};
use semantics::ASK_EVERY;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use wait::RowWait;

/// How often a row is locked in one attempt, because the connection that had it locked ended at once.
const ENTER_TRIES: usize = 2;

/// One connection in so many may wait in the server for a row; all others are for holding.
const WAITING_PART: usize = 4;

/// Locks as rows that open transactions have locked, with one connection per held lock.
#[derive(Debug)]
pub(crate) struct HeldRow {
    rows: Arc<Rows>,
    claims: Claims,
    /// The waiting writers that may have left a mark.
    marks: Mutex<HashSet<OwnerId>>,
    /// How many may wait in the server.
    waiting: Arc<Semaphore>,
}

impl HeldRow {
    pub(crate) fn new(server: Server, namespace: &Namespace) -> Self {
        let waiting = (server.target().holds / WAITING_PART).max(1);
        Self {
            rows: Arc::new(Rows::new(server, namespace)),
            claims: Claims::default(),
            marks: Mutex::default(),
            waiting: Arc::new(Semaphore::new(waiting)),
        }
    }
}

#[async_trait]
impl LockBackend for HeldRow {
    fn semantics(&self) -> Semantics {
        semantics::semantics(self.rows.server.target().name)
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let seen = self.claims.get(claim.owner());
        match &seen {
            Some(ClaimState::Held(hold)) if hold.keep_alive(&self.rows).await? == KeepAlive::Holds => {
                return Ok(Attempt::Granted(Grant::new(hold.token)));
            }
            Some(ClaimState::Waiting(waiting)) => match waiting.progress() {
                Poll::Pending => {
                    // PostgreSQL lets readers pass a writer that waits in the server.
                    self.leave_mark(claim).await;
                    return Ok(busy());
                }
                Poll::Ready(Some(locked)) => {
                    self.claims.forget_seen(claim.owner(), seen.as_ref());
                    return self.enter(claim, locked).await?.ok_or_else(lost_at_once);
                }
                Poll::Ready(None) => {}
            },
            Some(ClaimState::Held(_) | ClaimState::Refused | ClaimState::Unsettled(_)) | None => {}
        }
        self.claims.forget_seen(claim.owner(), seen.as_ref());
        // The lock was held by this client a moment ago.
        if self.has_hold(|hold| hold.excludes(claim)) {
            return Ok(self.refused(claim).await);
        }
        if claim.mode().is_shared()
            && let Some(busy) = self.give_way(claim).await?
        {
            return Ok(busy);
        }
        for _ in 0..ENTER_TRIES {
            let Some(locked) = self.rows.lock_now(claim).await? else {
                return Ok(self.refused(claim).await);
            };
            if let Some(attempt) = self.enter(claim, locked).await? {
                return Ok(attempt);
            }
        }
        Err(lost_at_once())
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renew_each(claims, |claim| self.renew_one(claim)).await
    }

    /// Each hold lives on a connection of its own, and one that is dead without a word holds up nobody else.
    fn renewal_group(&self, claim: &Claim) -> u64 {
        hash_of(claim.owner())
    }

    async fn release(&self, claim: &Claim, _linger: Duration) -> Result<Release> {
        let seen = self.claims.get(claim.owner());
        let released = match &seen {
            Some(ClaimState::Held(hold)) => self.end(claim, hold).await,
            Some(ClaimState::Unsettled(unsettled)) => {
                self.settle(claim, *unsettled).await.map_err(perhaps_held)
            }
            Some(ClaimState::Waiting(_) | ClaimState::Refused) | None => {
                self.claims.forget_seen(claim.owner(), seen.as_ref());
                if let Some(ClaimState::Waiting(waiting)) = &seen {
                    waiting.leave(&self.rows).await;
                }
                self.remove_mark(claim).await;
                Ok(Release::NotHeld)
            }
        };
        // After an error that is no outage the core does not ask again.
        if released.as_ref().is_err_and(|error| !error.is_outage()) {
            self.claims.forget(claim.owner());
        }
        released
    }

    /// Waits in the server, as long as there are connections for it. The core wakes the next waiter of this process.
    async fn changed(&self, claim: &Claim) {
        match self.wait_in_the_server(claim) {
            Some(waiting) => waiting.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Never returns: each renewal uses the connection of its hold, and notices its end.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn servers(&self) -> Option<&KnownServers> {
        Some(&self.rows.server.target().servers)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        // Unsettled releases are kept: the answer to their repetition must not be that there is nothing to end.
        let ended: Vec<_> = lock_mutex(&self.claims.0)
            .extract_if(|_, state| !matches!(state, ClaimState::Unsettled(_)))
            .collect();
        drop(ended);
        self.rows.server.close().await;
        Ok(())
    }
}

impl HeldRow {
    /// Makes a locked row a hold: takes a token, and proves that the row was still locked after that. On an error the row is
    /// unlocked. If the server does not answer, it keeps the row locked until it notices that the connection is gone.
    ///
    /// `None` if the connection ended in between, and the lock with it: the claim has held nothing, and another connection may serve.
    async fn enter(&self, claim: &Claim, mut locked: LockedRow) -> Result<Option<Attempt>> {
        let token = match self.rows.enter(claim, &mut locked).await {
            Ok(Some(token)) => token,
            Ok(None) => return Ok(None),
            Err(error) => {
                // The connection is not given back: the entry may have been written, and names its number.
                let rolled_back = self.rows.end_transaction(&mut locked.connection).await;
                return Err(match rolled_back {
                    // The token may have been taken; the lock was given back, and a token without the lock harms nobody.
                    Ok(true) if error.kind() == ErrorKind::Indeterminate => {
                        error.with_kind(ErrorKind::Unavailable)
                    }
                    Ok(true) => error,
                    Ok(false) | Err(_) => perhaps_held(error),
                });
            }
        };
        // A mark of this owner is gone with the entry.
        lock_mutex(&self.marks).remove(&claim.owner());
        let hold = Arc::new(TransactionHold::new(claim, token, locked));
        match hold.keep_alive(&self.rows).await? {
            KeepAlive::Holds => Ok(Some(self.keep(claim, hold).await)),
            KeepAlive::Demoted => Err(read_only(self.rows.server.target())),
            KeepAlive::Dead => Ok(None),
        }
    }

    /// Keeps a hold. A reader may be granted by two calls for one claim that run at once: the first hold is kept.
    async fn keep(&self, claim: &Claim, hold: Arc<TransactionHold>) -> Attempt {
        let kept = {
            let mut claims = lock_mutex(&self.claims.0);
            match claims.get(&claim.owner()) {
                Some(ClaimState::Held(first)) if claim.mode().is_shared() => Arc::clone(first),
                _ => {
                    claims.insert(claim.owner(), ClaimState::Held(Arc::clone(&hold)));
                    Arc::clone(&hold)
                }
            }
        };
        if !Arc::ptr_eq(&kept, &hold)
            && let Ok(Some(connection)) = hold.end(&self.rows).await
        {
            hold.leave(&self.rows, connection).await;
        }
        Attempt::Granted(Grant::new(kept.token))
    }

    async fn renew_one(&self, claim: &Claim) -> Result<Renewal> {
        if let Some(ClaimState::Held(hold)) = self.claims.get(claim.owner()) {
            match hold.keep_alive(&self.rows).await? {
                KeepAlive::Holds => return Ok(Renewal::Renewed),
                KeepAlive::Demoted => return Ok(Renewal::Lost(LossCause::ReadOnly)),
                KeepAlive::Dead => {}
            }
        }
        // The claim stays known until its release: with it goes the connection, and with that the lock.
        let excludes = |it: &Holder| !it.is_of(claim.owner()) && it.mode.conflicts_with(claim.mode());
        Ok(Renewal::Lost(match timeout(REASONS_WITHIN, self.rows.look(ReadFor::Loss, claim.name())).await {
            Ok(Ok(Some(entered))) if entered.holders.iter().any(excludes) => LossCause::Taken,
            _ => LossCause::Gone,
        }))
    }

    /// The wait of this claim in the server; a new one, if there is a connection for it and no other claim of this process
    /// waits there for the same name. None for a claim that was not refused: on a server that is out of order, the next attempt would
    /// take a wait that has just begun for a lock that is held.
    fn wait_in_the_server(&self, claim: &Claim) -> Option<Arc<RowWait>> {
        let mut claims = lock_mutex(&self.claims.0);
        match claims.get(&claim.owner()) {
            Some(ClaimState::Waiting(waiting)) => return Some(Arc::clone(waiting)),
            Some(ClaimState::Held(_) | ClaimState::Unsettled(_)) | None => return None,
            Some(ClaimState::Refused) => {}
        }
        let concerns = |state: &ClaimState| match state {
            ClaimState::Held(hold) => hold.excludes(claim) && self.is_believed(hold),
            ClaimState::Waiting(waiting) => waiting.name == *claim.name(),
            ClaimState::Refused | ClaimState::Unsettled(_) => false,
        };
        if claims.values().any(concerns) {
            return None;
        }
        let place = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        let waiting = Arc::new(RowWait::begin(Arc::clone(&self.rows), claim.clone(), place));
        claims.insert(claim.owner(), ClaimState::Waiting(Arc::clone(&waiting)));
        Some(waiting)
    }

    /// True if this client has such a hold, and it is believed.
    fn has_hold(&self, is_meant: impl Fn(&TransactionHold) -> bool) -> bool {
        let is_believed = |hold: &TransactionHold| is_meant(hold) && self.is_believed(hold);
        lock_mutex(&self.claims.0)
            .values()
            .any(|state| matches!(state, ClaimState::Held(hold) if is_believed(hold)))
    }

    /// True if the server need not be asked whether this hold lives: it was alive so short a time ago that a waiter would not have asked
    /// again by now. It may have ended since: an administrator can end a connection.
    ///
    /// Or if the server cannot be asked, because the connection for asking may be the one that holds. Within a ttl the server has not
    /// ended it of its own accord.
    fn is_believed(&self, hold: &TransactionHold) -> bool {
        hold.was_alive_within(ASK_EVERY)
            || hold.was_alive_within(hold.ttl) && !self.rows.server.has_connection_to_hold()
    }
}

/// Each claim may have a place in the server's queue.
fn busy() -> Attempt {
    Attempt::Busy(Busy::new().with_place_in_queue())
}

fn lost_at_once() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection that had the row locked ended before it could be held")
        .with_help("look at who restarts the server, or kills connections in it")
}
