//! Readers, and the marks by which waiting writers keep new readers out.
//!
//! PostgreSQL lets a reader lock a row that other readers have locked, whoever waits for it, and on no database do all writers
//! wait in the server. So a writer that is refused by readers, and waits, leaves a mark beside them, and a reader looks for marks before it
//! asks for the row. A reader that has looked before the mark was left may pass the writer once.

use super::HeldRow;
use super::holder::{Entered, Holder};
use super::rows::Rows;
use crate::server::{PoolClass, Value};
use leasehold_core::{Attempt, Busy, Claim, LockName, OwnerId, Result};
use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};

/// A mark is renewed once half of its time is over, in microseconds: see `mark.sql`.
const MARK_IS_RENEWED_FROM: i64 = 1_000_000;

/// The number of readers and marks of a name above which a new reader removes those that have ended.
const MANY_SHARERS: usize = 64;

impl HeldRow {
    /// The refusal of a reader, if a writer waits.
    pub(super) async fn give_way(&self, claim: &Claim) -> Result<Option<Attempt>> {
        let Some(entered) = self.rows.look(PoolClass::Attempt, claim.name()).await? else { return Ok(None) };
        if entered.holders.len() + entered.marks.len() > MANY_SHARERS {
            self.remove_ended(claim.name(), &entered).await;
        }
        Ok(entered.readers_blocked_for().map(|left| Attempt::Busy(Busy::new().with_end(left))))
    }

    async fn remove_ended(&self, name: &LockName, entered: &Entered) {
        for reader in entered.readers() {
            if matches!(self.rows.may_hold(reader).await, Ok(false)) {
                self.rows.leave(name, reader.mode, reader.token).await;
            }
        }
        for (owner, _) in entered.marks.iter().filter(|(_, until)| *until <= entered.now) {
            self.rows.remove_sharer(name, owner).await;
        }
    }

    /// Leaves the mark of a writer that waits, if readers are entered; true if they are. Without an answer, the next attempt leaves the
    /// mark.
    pub(super) async fn leave_mark(&self, claim: &Claim) -> bool {
        if claim.mode().is_shared() || !claim.waits() {
            return false;
        }
        let Ok(Some(entered)) = self.rows.look(PoolClass::Attempt, claim.name()).await else { return false };
        if entered.readers().next().is_none() {
            return false;
        }
        let owner = claim.owner().to_hex();
        let lasts = |(marked, until): &(String, i64)| {
            *marked == owner && until.saturating_sub(entered.now) > MARK_IS_RENEWED_FROM
        };
        if !entered.marks.iter().any(lasts) {
            // Noted before it is sent: the caller may be gone before the answer comes.
            self.marks().insert(claim.owner());
            let _ = self.rows.mark(claim).await;
        }
        true
    }

    /// Removes the mark of a writer that has gone. A mark that stays ends by itself.
    pub(super) async fn remove_mark(&self, claim: &Claim) {
        if self.marks().remove(&claim.owner()) {
            self.rows.remove_sharer(claim.name(), &claim.owner().to_hex()).await;
        }
    }

    /// The owners that may have left a mark.
    pub(super) fn marks(&self) -> MutexGuard<'_, HashSet<OwnerId>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    async fn mark(&self, claim: &Claim) -> Result<()> {
        let values = [self.stored(claim.name()), Value::text(&claim.owner().to_hex())];
        self.server().write(PoolClass::Attempt, &self.mark, &values).await.map(drop)
    }

    /// False if the transaction of a reader has ended: its connection is gone, or is in another one.
    pub(super) async fn may_hold(&self, reader: &Holder) -> Result<bool> {
        if !self.is_of_this_run(reader.token).await? {
            return Ok(false);
        }
        let token = Value::int(reader.token.get());
        let values = [Value::int(reader.connection), token, Value::text(&reader.user)];
        let sessions = self.server().read(PoolClass::Attempt, &self.may_hold, &values).await?;
        Ok(!sessions.rows.is_empty())
    }
}
