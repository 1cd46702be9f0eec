//! Shared holds on a table of leases: a change reads the row, lets a rule of `sharers.rs` decide, and writes the row back if it has not
//! changed since.

use super::sharers::{Decision, Reader, SharedRow, Sharers, admit, extend, mark};
use super::{ReadFor, RowLease, TURNS, hash_of, perhaps_held};
use futures_util::{StreamExt as _, stream};
use leasehold_core::{
    Attempt, Claim, Error, ErrorKind, FencingToken, LockName, LockStatus, LossCause, Release, Renewal, Result,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

/// How long a change is tried again because the row has changed between its read and its write.
const CHANGE_WITHIN: Duration = Duration::from_secs(5);
/// The longest pause before a change is tried again.
const CHANGE_AGAIN_WITHIN: Duration = Duration::from_millis(20);
/// The longest pause before a mark is tried again: shorter, so that a writer succeeds beside readers that come and go.
const MARK_AGAIN_WITHIN: Duration = Duration::from_millis(1);
/// How many times a missing row is made before the attempt fails.
const ROW_TRIES: usize = 3;
/// How many names are changed at once by one renewal. Fewer than there are connections by default.
const AT_ONCE: usize = 4;

impl RowLease {
    /// Reads the row, lets `decide` change it, and writes it if it is as it was read; else begins again. `None` if there is no
    /// row.
    async fn change<T: Send + Sync>(
        &self,
        name: &LockName,
        is_holder: bool,
        longest_pause: Duration,
        mut decide: impl FnMut(&SharedRow, Sharers) -> Result<Decision<T>> + Send,
    ) -> Result<Option<T>> {
        let start = Instant::now();
        // A statement is sent again after its connection broke: the first copy may have changed the row, and then the second changes none.
        let mut is_sent = false;
        let mut reason = if is_holder { ReadFor::Holder } else { ReadFor::Attempt };
        while start.elapsed() < CHANGE_WITHIN {
            // Tasks of one process would make each other's writes fail. A task waits for its turn for a pause at most, and goes on
            // without it: the task before it may not be polled, or its answer may be late.
            let turn = timeout(CHANGE_AGAIN_WITHIN, self.turn(name).lock()).await;
            let unknown = |error: Error| if is_sent { perhaps_held(error) } else { error };
            let row = self.table.read_shared(name, reason).await.map_err(unknown)?;
            let Some(row) = row else {
                if reason == ReadFor::Holder {
                    reason = ReadFor::Loss;
                    continue;
                }
                return Ok(None);
            };
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
            is_sent = true;
            sleep(longest_pause.mul_f64(fastrand::f64())).await;
        }
        let message = format!("the readers of {name:?} changed all the time for {CHANGE_WITHIN:?}");
        let error = Error::new(ErrorKind::Unavailable, message)
            .with_help("many clients use this lock at the same time; try again");
        Err(perhaps_held(error))
    }

    fn turn(&self, name: &LockName) -> &Mutex<()> {
        &self.turns[hash_of(name) as usize % TURNS]
    }

    pub(super) async fn acquire_shared(&self, claim: &Claim) -> Result<Attempt> {
        for _ in 0..ROW_TRIES {
            if let Some(attempt) = self
                .change(claim.name(), false, CHANGE_AGAIN_WITHIN, |row, sharers| admit(claim, row, sharers))
                .await?
            {
                return Ok(attempt);
            }
            self.table.make_row(claim.name()).await?;
        }
        let message = format!("the row of {:?} is gone each time after it was made", claim.name());
        Err(Error::new(ErrorKind::Misconfigured, message)
            .with_help("look at triggers of the table, and at programs that delete rows from it"))
    }

    /// Renews readers, those of one name together. The answers are in the order of the claims.
    pub(super) async fn renew_shared(&self, claims: &[&Claim]) -> Vec<Result<Renewal>> {
        let mut by_name: BTreeMap<LockName, Vec<usize>> = BTreeMap::new();
        for (at, claim) in claims.iter().enumerate() {
            by_name.entry(claim.name().clone()).or_default().push(at);
        }
        let mut answers: Vec<Result<Renewal>> =
            claims.iter().map(|_| Ok(Renewal::Lost(LossCause::Gone))).collect();
        let renew = by_name.into_iter().map(|(name, places)| self.renew_readers(name, claims, places));
        let renewed: Vec<_> = stream::iter(renew).buffer_unordered(AT_ONCE).collect().await;
        for (places, renewed) in renewed {
            for (nth, at) in places.into_iter().enumerate() {
                answers[at] = match &renewed {
                    Ok(Some(renewals)) => Ok(renewals[nth]),
                    Ok(None) => Ok(Renewal::Lost(LossCause::Gone)),
                    Err(error) => Err(error.clone()),
                };
            }
        }
        answers
    }

    /// Renews the claims at these places, all of one name.
    async fn renew_readers(
        &self,
        name: LockName,
        claims: &[&Claim],
        places: Vec<usize>,
    ) -> (Vec<usize>, Result<Option<Vec<Renewal>>>) {
        let of_name: Vec<&Claim> = places.iter().map(|at| claims[*at]).collect();
        let renewed = self
            .change(&name, true, CHANGE_AGAIN_WITHIN, |row, sharers| extend(&of_name, row, sharers))
            .await;
        (places, renewed)
    }

    pub(super) async fn release_shared(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        // As in `change`: the first copy of a statement may have removed the reader.
        let mut was_there = false;
        let released = self.change(claim.name(), true, CHANGE_AGAIN_WITHIN, |row, mut sharers| {
            let Some(reader) = sharers.reader(claim.owner()) else { return Ok(Decision::Keep(())) };
            was_there = true;
            (reader.owner, reader.ends_at) = (None, row.ends(linger));
            sharers.readers.retain(|reader| reader.ends_at > row.now);
            Ok(Decision::Write(row.next_row(row.token, &sharers)?, ()))
        });
        released.await?;
        Ok(if was_there { Release::Released } else { Release::NotHeld })
    }

    /// Leaves the mark of a writer that waits for readers, or renews it.
    pub(super) async fn leave_mark(&self, claim: &Claim) -> Result<()> {
        let marked = self
            .change(claim.name(), false, MARK_AGAIN_WITHIN, |row, sharers| mark(claim.owner(), row, sharers));
        marked.await.map(|_| ())
    }

    /// Removes the mark of a writer that has gone.
    pub(super) async fn remove_mark(&self, claim: &Claim) -> Result<()> {
        let removed = self.change(claim.name(), false, CHANGE_AGAIN_WITHIN, |row, mut sharers| {
            if !sharers.remove_mark(claim.owner()) {
                return Ok(Decision::Keep(()));
            }
            Ok(Decision::Write(row.next_row(row.token, &sharers)?, ()))
        });
        removed.await.map(|_| ())
    }

    /// The readers that hold a name.
    pub(super) async fn readers(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let statuses = self.change(name, false, CHANGE_AGAIN_WITHIN, |row, sharers| {
            let statuses = sharers.readers.iter().map(|reader| reader.status(name, row.now));
            Ok(Decision::Keep(statuses.collect()))
        });
        Ok(statuses.await?.unwrap_or_default())
    }

    /// Ends all readers of a name, or the one with this token.
    pub(super) async fn end_readers(
        &self,
        name: &LockName,
        only_if: Option<FencingToken>,
    ) -> Result<Vec<LockStatus>> {
        // As in `change`: the first copy of a statement may have ended them.
        let mut ended = Vec::new();
        let change = self.change(name, false, CHANGE_AGAIN_WITHIN, |row, mut sharers| {
            let is_meant = |reader: &Reader| only_if.is_none_or(|token| token.get() == reader.token);
            let meant: Vec<LockStatus> =
                sharers.readers.iter().filter(|it| is_meant(it)).map(|it| it.status(name, row.now)).collect();
            if meant.is_empty() {
                return Ok(Decision::Keep(()));
            }
            ended = meant;
            sharers.readers.retain(|reader| !is_meant(reader));
            Ok(Decision::Write(row.next_row(row.token, &sharers)?, ()))
        });
        change.await?;
        Ok(ended)
    }
}
