//! Shared holds on a table of leases, and the optimistic mode: a change reads the row, lets a rule of `sharers.rs` decide, and writes the
//! row back if it has not changed since.

use super::sharers::{Decision, Reader, Sharers, admit, extend, mark, take};
use super::{ATTEMPTS, LeaseRow, ReadFor, RowLease, TURNS, hash_of, perhaps_held};
use futures_util::{StreamExt as _, stream};
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, LockName, LockStatus, LossCause, OwnerId, Release, Renewal,
    Result,
};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long a change is tried again because the row has changed between its read and its write.
const CHANGE_WITHIN: Duration = Duration::from_secs(5);
/// The longest pause before a change is tried again.
const CHANGE_AGAIN_WITHIN: Duration = Duration::from_millis(20);
/// The longest pause before a writer tries again: shorter, so that it succeeds beside readers that come and go.
const MARK_AGAIN_WITHIN: Duration = Duration::from_millis(1);
/// How many times a missing row is made before the attempt fails.
const ROW_TRIES: usize = 3;
/// How many names are changed at once by one renewal. Fewer than there are connections by default.
const AT_ONCE: usize = 4;

type Decide = fn(&Claim, &LeaseRow, Sharers) -> Result<Decision<Attempt>>;

impl RowLease {
    /// Reads the row, lets `decide` change it, and writes it if it is as it was read; else begins again. `None` without a row.
    async fn change<T: Send + Sync>(
        &self,
        name: &LockName,
        first_read: ReadFor,
        longest_pause: Duration,
        mut decide: impl FnMut(&LeaseRow, Sharers) -> Result<Decision<T>> + Send,
    ) -> Result<Option<T>> {
        let start = Instant::now();
        // The version of the row that a change has not found. A statement is sent again after its connection broke: the first copy may
        // have changed the row, and then the second changes none.
        let mut refused = None;
        let (mut reason, is_holder) = (first_read, first_read == ReadFor::Holder);
        while start.elapsed() < CHANGE_WITHIN {
            // Tasks of one process would make each other's writes fail. A task waits for its turn for a pause at most, and goes on
            // without it: the task before it may not be polled, or its answer may be late.
            let turn = &self.turns[hash_of(name) as usize % TURNS];
            let turn = timeout(CHANGE_AGAIN_WITHIN, turn.lock()).await;
            let unknown = |error: Error| if refused.is_some() { perhaps_held(error) } else { error };
            let row = self.table.look(name, reason).await.map_err(unknown)?;
            // A replica that is behind does not show what was written.
            let may_be_behind = row.as_ref().is_none_or(|row| refused.as_ref() == Some(&row.version));
            if may_be_behind && reason == ReadFor::Holder {
                reason = ReadFor::Loss;
                continue;
            }
            let Some(row) = row else { return Ok(None) };
            let sharers = row.live_sharers().ok_or_else(|| self.table.foreign(name))?;
            match decide(&row, sharers)? {
                Decision::Keep(_) if reason == ReadFor::Holder => {
                    reason = ReadFor::Loss;
                    continue;
                }
                Decision::Keep(answer) => return Ok(Some(answer)),
                Decision::Write(next, answer) => {
                    if self.table.replace(name, &row, &next, is_holder).await.map_err(unknown)? {
                        return Ok(Some(answer));
                    }
                }
            }
            drop(turn);
            (refused, reason) = (Some(row.version), ReadFor::Holder);
            sleep(longest_pause.mul_f64(fastrand::f64())).await;
        }
        let message = format!("the readers of {name:?} changed all the time for {CHANGE_WITHIN:?}");
        let error = Error::new(ErrorKind::Unavailable, message)
            .with_help("many clients use this lock at the same time; try again");
        Err(perhaps_held(error))
    }

    /// The attempt of a reader, or of any claim in the optimistic mode.
    pub(super) async fn acquire_by_version(&self, claim: &Claim) -> Result<Attempt> {
        let (decide, pause): (Decide, _) = match claim.mode().is_shared() {
            true => (admit, CHANGE_AGAIN_WITHIN),
            false => (take, MARK_AGAIN_WITHIN),
        };
        let (mut tries, mut first_read) = (0, ReadFor::Attempt);
        for _ in 0..ROW_TRIES {
            let attempt = self.change(claim.name(), first_read, pause, |row, sharers| {
                tries += 1;
                match tries > ATTEMPTS && !claim.mode().is_shared() && row.owner != Some(claim.owner()) {
                    // Or the lease of another owner has ended by the clock of a replica alone.
                    true => Ok(Decision::Keep(Attempt::Busy(Busy::new()))),
                    false => decide(claim, row, sharers),
                }
            });
            if let Some(attempt) = attempt.await? {
                return Ok(attempt);
            }
            self.table.make_row(claim.name()).await?;
            // A replica that is behind does not have it yet.
            first_read = ReadFor::Loss;
        }
        let message = format!("the row of {:?} is gone each time after it was made", claim.name());
        Err(Error::new(ErrorKind::Misconfigured, message)
            .with_help("look at triggers of the table, and at programs that delete rows from it"))
    }

    /// Renews readers, those of one name together; the answers by their owners.
    pub(super) async fn renew_shared(&self, claims: Vec<&Claim>) -> HashMap<OwnerId, Result<Renewal>> {
        let mut by_name: BTreeMap<&LockName, Vec<&Claim>> = BTreeMap::new();
        for claim in claims {
            by_name.entry(claim.name()).or_default().push(claim);
        }
        let renewals: Vec<_> =
            by_name.into_iter().map(|(name, claims)| self.renew_readers(name, claims)).collect();
        stream::iter(renewals).buffer_unordered(AT_ONCE).concat().await.into_iter().collect()
    }

    async fn renew_readers(&self, name: &LockName, claims: Vec<&Claim>) -> Vec<(OwnerId, Result<Renewal>)> {
        let renewed = self
            .change(name, ReadFor::Holder, CHANGE_AGAIN_WITHIN, |row, sharers| extend(&claims, row, sharers))
            .await
            .map(|renewals| renewals.unwrap_or_else(|| vec![Renewal::Lost(LossCause::Gone); claims.len()]));
        let answer = |(nth, claim): (usize, &&Claim)| {
            (claim.owner(), renewed.as_ref().map(|renewals| renewals[nth]).map_err(Error::clone))
        };
        claims.iter().enumerate().map(answer).collect()
    }

    pub(super) async fn release_shared(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        let owner = Some(claim.owner().to_hex());
        let ended =
            self.end_readers(claim.name(), ReadFor::Holder, linger, |reader| reader.owner == owner).await?;
        Ok(if ended.is_empty() { Release::NotHeld } else { Release::Released })
    }

    pub(super) async fn leave_mark(&self, claim: &Claim) {
        let leave = |row: &LeaseRow, sharers| mark(claim.owner(), row, sharers);
        let _ = self.change(claim.name(), ReadFor::Attempt, MARK_AGAIN_WITHIN, leave).await;
    }

    /// Removes the mark of a writer that has gone. A mark that stays ends by itself.
    pub(super) async fn remove_mark(&self, claim: &Claim) {
        let removed = self.change(claim.name(), ReadFor::Attempt, CHANGE_AGAIN_WITHIN, |row, mut sharers| {
            if !sharers.remove_mark(claim.owner()) {
                return Ok(Decision::Keep(()));
            }
            Ok(Decision::Write(row.next_row(row.token, &sharers)?, ()))
        });
        let _ = removed.await;
    }

    /// Ends the readers that are meant, each with this linger, and answers them.
    pub(super) async fn end_readers(
        &self,
        name: &LockName,
        first_read: ReadFor,
        linger: Duration,
        is_meant: impl Fn(&Reader) -> bool + Send + Sync,
    ) -> Result<Vec<LockStatus>> {
        // As in `change`: the first copy of a statement may have ended them.
        let mut ended = Vec::new();
        let change = self.change(name, first_read, CHANGE_AGAIN_WITHIN, |row, mut sharers| {
            let mut meant = Vec::new();
            for reader in sharers.readers.iter_mut().filter(|reader| is_meant(reader)) {
                meant.push(reader.status(name, row.now));
                (reader.owner, reader.ends_at) = (None, row.ends(linger));
            }
            if meant.is_empty() {
                return Ok(Decision::Keep(()));
            }
            ended = meant;
            sharers.readers.retain(|reader| reader.ends_at > row.now);
            Ok(Decision::Write(row.next_row(row.token, &sharers)?, ()))
        });
        change.await?;
        Ok(ended)
    }
}
