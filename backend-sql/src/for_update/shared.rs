//! Readers, and the marks by which waiting writers keep new readers out.
//!
//! PostgreSQL admits a new reader even while a writer waits for the row, and on every database some writers wait in the client, where the
//! server cannot see them. So a writer that is refused by readers, and waits, leaves a mark beside them, and a reader looks for marks
//! before it asks for the row. A reader that looked before the mark was written may still get the row ahead of the writer.

use super::claims::ClaimState;
use super::holder::{Holder, HolderRow, MARK_LASTS};
use super::rows::Rows;
use super::wait::RowWait;
use super::{HeldRow, busy};
use crate::lease::ReadFor;
use crate::lock_mutex;
use crate::server::{PoolClass, Value};
use leasehold_core::{Attempt, Busy, Claim, LockName, Result};
use std::time::Duration;

/// A mark is renewed once half of its time is over.
const MARK_IS_RENEWED_FROM: Duration = MARK_LASTS.checked_div(2).unwrap();

/// The number of readers and marks of a name above which new readers remove those that have ended.
const MANY_SHARERS: usize = 64;

impl HeldRow {
    /// Refuses a new reader while a writer of this client waits in the server, or the mark of one lasts; `None` if there is none. Some
    /// calls also remove what has ended.
    pub(super) async fn give_way(&self, claim: &Claim) -> Result<Option<Attempt>> {
        // PostgreSQL lets a reader pass a writer that waits in the server.
        let is_writer = |it: &RowWait| it.name == *claim.name() && !it.mode.is_shared();
        let waits = |state: &ClaimState| matches!(state, ClaimState::Waiting(it) if is_writer(it));
        if lock_mutex(&self.claims.0).values().any(waits) {
            return Ok(Some(busy()));
        }
        let Some(entered) = self.rows.look(ReadFor::Attempt, claim.name()).await? else { return Ok(None) };
        let sharers = entered.holders.len() + entered.marks.len();
        // A look at each costs requests, and perhaps none has ended: beside N of them, one attempt in N does it.
        if sharers > MANY_SHARERS && fastrand::usize(..sharers) == 0 {
            self.remove_ended(claim.name(), &entered).await;
        }
        Ok(entered.readers_blocked_for().map(|left| Attempt::Busy(Busy::new().with_end(left))))
    }

    async fn remove_ended(&self, name: &LockName, entered: &HolderRow) {
        for reader in entered.readers() {
            if matches!(self.rows.entry_may_hold(reader).await, Ok(false)) {
                self.rows.leave(name, reader.mode, reader.token).await;
            }
        }
        for (owner, _) in entered.marks.iter().filter(|(_, left)| left.is_zero()) {
            self.rows.remove_sharer(name, owner).await;
        }
    }

    /// Notes the refusal of a claim.
    ///
    /// A writer that waits for readers leaves a mark, and does not wait in the server: MySQL and MariaDB let no reader pass a request
    /// in their queue, and do not notice that the caller has gone.
    pub(super) async fn refused(&self, claim: &Claim) -> Attempt {
        if !self.leave_mark(claim).await {
            self.claims.note_refusal(claim.owner());
        }
        busy()
    }

    /// Leaves the mark of a writer that waits, if readers are entered. True if they are: a mark that was not written is left next time.
    pub(super) async fn leave_mark(&self, claim: &Claim) -> bool {
        if claim.mode().is_shared() || !claim.waits() {
            return false;
        }
        let Ok(Some(entered)) = self.rows.look(ReadFor::Attempt, claim.name()).await else { return false };
        if entered.readers().next().is_none() {
            return false;
        }
        let owner = claim.owner().to_hex();
        if !entered.marks.iter().any(|(marked, left)| *marked == owner && *left > MARK_IS_RENEWED_FROM) {
            // Noted before it is sent: the caller may be gone before the answer comes.
            lock_mutex(&self.marks).insert(claim.owner());
            let values = [self.rows.stored(claim.name()), Value::text(&owner)];
            let _ = self.rows.server.write(PoolClass::Attempt, &self.rows.mark, &values).await;
        }
        true
    }

    /// Removes the mark of a writer that has stopped waiting. A mark that stays ends by itself.
    pub(super) async fn remove_mark(&self, claim: &Claim) {
        if lock_mutex(&self.marks).remove(&claim.owner()) {
            self.rows.remove_sharer(claim.name(), &claim.owner().to_hex()).await;
        }
    }
}

impl Rows {
    /// False if an owner that is entered has surely ended. Numbers of connections are used again: PostgreSQL tells the transaction of this
    /// owner from a later one by the server's clock; MySQL and MariaDB only since the start of the server.
    pub(super) async fn entry_may_hold(&self, holder: &Holder) -> Result<bool> {
        let (number, token) = (holder.connection, Value::int(holder.token.get()));
        self.is_in_transaction(number, token, Value::text(&holder.user)).await
    }

    /// False if the connection of a reader of this client is gone. A later connection with its number is taken for it: no clock decides.
    pub(super) async fn own_connection_may_hold(&self, number: i64) -> Result<bool> {
        self.is_in_transaction(number, Value::int(i64::MAX), Value::Text(None)).await
    }

    async fn is_in_transaction(&self, number: i64, begun_by: Value, user: Value) -> Result<bool> {
        let values = [Value::int(number), begun_by, user];
        Ok(!self.server.read(PoolClass::Attempt, &self.in_transaction, &values).await?.rows.is_empty())
    }
}
