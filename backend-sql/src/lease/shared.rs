//! Shared holds: the readers of a name, and the writers that wait for them, in one column of its row.
//!
//! The column is read, changed here, and written back if the row has not changed since. While readers hold, the row belongs to
//! the owner [`READERS`], and its lease ends with the last of theirs: an exclusive attempt need not know the column. In a row of
//! another owner the column means nothing.
//!
//! A writer that waits for readers leaves a mark, and keeps new readers out while the mark is fresh.

use super::{RowLease, perhaps_held};
use futures_util::{StreamExt as _, stream};
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, HolderInfo, LockMode, LockName, LockStatus,
    LossCause, OwnerId, Release, Renewal, Result,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep};

/// The owner of a row while readers hold it. No acquisition has this id.
pub(crate) const READERS: OwnerId = OwnerId::from_u128(u128::MAX);
/// How long a mark is fresh, in microseconds: more than twice the longest pause between two attempts of the writer that left it, because
/// an attempt renews the mark only if half of the time is over.
const MARK_LASTS: i64 = 2_000_000;
/// How long a change is tried again because the row has changed between its read and its write, and the longest pause between two tries.
const CHANGE_WITHIN: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// How often a row is made that is gone when it is read next.
const ROW_TRIES: usize = 3;
/// How many names are changed at once by one renewal. Fewer than there are connections by default.
const AT_ONCE: usize = 4;

/// A row as it was read for a change. Times are in microseconds of the clock that counts leases.
#[derive(Clone, Debug)]
pub(crate) struct SharedRow {
    /// The owner that holds, or held last; `None` after a release that lingers.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) token: FencingToken,
    /// The end of the lease, or of the linger after it.
    pub(crate) ends_at: i64,
    /// The column, as it is stored.
    pub(crate) sharers: String,
    pub(crate) now: i64,
    /// The clock from which tokens are made, in microseconds since 1970.
    pub(crate) unix_now: u64,
    /// Further values that `replace` compares beside the column. Each table chooses its own.
    pub(crate) version: Vec<i64>,
}

/// What a row is changed to: a row of [`READERS`].
#[derive(Clone, Debug)]
pub(crate) struct NextRow {
    pub(crate) token: FencingToken,
    /// The end of the last reader's lease; zero if none is left.
    pub(crate) ends_at: i64,
    pub(crate) sharers: String,
    /// The change counts only before this time. A renewal may not bring back a lease that has ended since the read.
    pub(crate) before: i64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Sharers {
    readers: Vec<Reader>,
    /// The writers that wait, and until when their marks are fresh.
    writers: Vec<(String, i64)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reader {
    /// `None` after a release that lingers.
    owner: Option<String>,
    token: u64,
    ends_at: i64,
    /// Microseconds since 1970.
    acquired_at: u64,
    holder: String,
}

impl SharedRow {
    /// The readers that hold, and the marks that are fresh. `None` if another program has written the column.
    fn live_sharers(&self) -> Option<Sharers> {
        if self.owner != Some(READERS) || self.sharers.is_empty() {
            return Some(Sharers::default());
        }
        let mut sharers: Sharers = serde_json::from_str(&self.sharers).ok()?;
        sharers.readers.retain(|reader| reader.ends_at > self.now && self.ends_at > self.now);
        sharers.writers.retain(|(_, until)| *until > self.now);
        Some(sharers)
    }

    /// How long another hold, its linger, or a mark keeps a reader out from now on.
    fn reader_blocked_for(&self, sharers: &Sharers) -> Option<Duration> {
        let until = match self.owner {
            Some(READERS) => sharers.writers.iter().map(|(_, until)| *until).max()?,
            _ => self.ends_at,
        };
        Some(micros(until - self.now)).filter(|left| !left.is_zero())
    }

    fn next_row(&self, token: FencingToken, sharers: &Sharers) -> Result<NextRow> {
        let ends_at = sharers.readers.iter().map(|reader| reader.ends_at).max().unwrap_or(0);
        let sharers = serde_json::to_string(sharers).map_err(|error| {
            Error::new(ErrorKind::Misconfigured, "the readers of a row cannot be written as JSON")
                .with_source(error)
        })?;
        Ok(NextRow { token, ends_at, sharers, before: i64::MAX })
    }

    fn ends(&self, ttl: Duration) -> i64 {
        self.now.saturating_add(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Sharers {
    fn reader(&mut self, owner: OwnerId) -> Option<&mut Reader> {
        let owner = owner.to_hex();
        self.readers.iter_mut().find(|reader| reader.owner.as_ref() == Some(&owner))
    }

    fn remove_mark(&mut self, owner: OwnerId) -> bool {
        let (owner, before) = (owner.to_hex(), self.writers.len());
        self.writers.retain(|(writer, _)| *writer != owner);
        self.writers.len() < before
    }
}

impl Reader {
    fn status(&self, name: &LockName, now: i64) -> LockStatus {
        let mut status = LockStatus::new(name.clone());
        status.mode = LockMode::Shared;
        status.owner = self.owner.as_deref().and_then(OwnerId::from_hex);
        status.token = Some(FencingToken::new(self.token));
        status.ends_in = Some(micros(self.ends_at - now));
        status.acquired_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(self.acquired_at));
        if status.owner.is_some() {
            status.holder = HolderInfo::from_json(&self.holder);
        }
        status
    }
}

/// The decision about a row that was read.
enum Decision<T> {
    /// The row stays as it is.
    Keep(T),
    /// The row is to be changed to this.
    Write(NextRow, T),
}

impl RowLease {
    /// Reads the row, lets `decide` change it, and writes it if it is as it was read; else begins again. `None` if there is no
    /// row.
    async fn change<T: Send + Sync>(
        &self,
        name: &LockName,
        is_holder: bool,
        mut decide: impl FnMut(&SharedRow, Sharers) -> Result<Decision<T>> + Send,
    ) -> Result<Option<T>> {
        let start = Instant::now();
        // A statement that was sent twice may have changed the row the first time.
        let mut is_sent = false;
        while start.elapsed() < CHANGE_WITHIN {
            let unknown = |error: Error| if is_sent { perhaps_held(error) } else { error };
            let Some(row) = self.table.read_shared(name, is_holder).await.map_err(unknown)? else {
                return Ok(None);
            };
            let sharers = row.live_sharers().ok_or_else(|| self.table.foreign(name))?;
            match decide(&row, sharers)? {
                Decision::Keep(answer) => return Ok(Some(answer)),
                Decision::Write(next, answer) => {
                    if self.table.replace(name, &row, &next, is_holder).await.map_err(unknown)? {
                        return Ok(Some(answer));
                    }
                }
            }
            is_sent = true;
            sleep(LONGEST_PAUSE.mul_f64(fastrand::f64())).await;
        }
        let message = format!("the readers of {name:?} changed all the time for {CHANGE_WITHIN:?}");
        let error = Error::new(ErrorKind::Unavailable, message)
            .with_help("many clients use this lock at the same time; try again");
        Err(perhaps_held(error))
    }

    pub(super) async fn acquire_shared(&self, claim: &Claim) -> Result<Attempt> {
        for _ in 0..ROW_TRIES {
            if let Some(attempt) =
                self.change(claim.name(), false, |row, sharers| admit(claim, row, sharers)).await?
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
        let renewed = self.change(&name, true, |row, sharers| extend(&of_name, row, sharers)).await;
        (places, renewed)
    }

    pub(super) async fn release_shared(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        // A statement that was sent twice may have removed the reader the first time.
        let mut was_there = false;
        let released = self.change(claim.name(), true, |row, mut sharers| {
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
        let marked = self.change(claim.name(), false, |row, mut sharers| {
            let owner = claim.owner().to_hex();
            let lasts =
                |(writer, until): &(String, i64)| *writer == owner && until - row.now > MARK_LASTS / 2;
            if sharers.readers.is_empty() || sharers.writers.iter().any(lasts) {
                return Ok(Decision::Keep(()));
            }
            sharers.remove_mark(claim.owner());
            sharers.writers.push((owner, row.now.saturating_add(MARK_LASTS)));
            Ok(Decision::Write(row.next_row(row.token, &sharers)?, ()))
        });
        marked.await.map(|_| ())
    }

    /// Removes the mark of a writer that has gone.
    pub(super) async fn remove_mark(&self, claim: &Claim) -> Result<()> {
        let removed = self.change(claim.name(), false, |row, mut sharers| {
            if !sharers.remove_mark(claim.owner()) {
                return Ok(Decision::Keep(()));
            }
            Ok(Decision::Write(row.next_row(row.token, &sharers)?, ()))
        });
        removed.await.map(|_| ())
    }

    /// The readers that hold a name.
    pub(super) async fn readers(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let statuses = self.change(name, false, |row, sharers| {
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
        // A statement that was sent twice may have ended them the first time.
        let mut ended = Vec::new();
        let change = self.change(name, false, |row, mut sharers| {
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

/// Decides the attempt of a reader.
fn admit(claim: &Claim, row: &SharedRow, mut sharers: Sharers) -> Result<Decision<Attempt>> {
    let ends_at = row.ends(claim.ttl());
    if let Some(own) = sharers.reader(claim.owner()) {
        // The reply to an earlier attempt was lost.
        let (token, before) = (FencingToken::new(own.token), own.ends_at);
        own.ends_at = own.ends_at.max(ends_at);
        let next = NextRow { before, ..row.next_row(row.token, &sharers)? };
        return Ok(Decision::Write(next, Attempt::Granted(Grant::new(token))));
    }
    if let Some(ends_in) = row.reader_blocked_for(&sharers) {
        return Ok(Decision::Keep(Attempt::Busy(Busy::new().with_end(ends_in))));
    }
    let token = FencingToken::after(Some(row.token), row.unix_now).ok_or_else(Error::tokens_used_up)?;
    sharers.readers.push(Reader {
        owner: Some(claim.owner().to_hex()),
        token: token.get(),
        ends_at,
        acquired_at: row.unix_now,
        holder: claim.holder().to_string(),
    });
    Ok(Decision::Write(row.next_row(token, &sharers)?, Attempt::Granted(Grant::new(token))))
}

/// Extends the leases of those claims that still hold, and shortens none.
fn extend(claims: &[&Claim], row: &SharedRow, mut sharers: Sharers) -> Result<Decision<Vec<Renewal>>> {
    let is_taken = row.owner != Some(READERS) && row.ends_at > row.now;
    let lost = Renewal::Lost(if is_taken { LossCause::Taken } else { LossCause::Gone });
    let mut before = i64::MAX;
    let mut renew = |claim: &&Claim| match sharers.reader(claim.owner()) {
        Some(own) => {
            before = before.min(own.ends_at);
            own.ends_at = own.ends_at.max(row.ends(claim.ttl()));
            Renewal::Renewed
        }
        None => lost,
    };
    let renewals: Vec<Renewal> = claims.iter().map(&mut renew).collect();
    Ok(if renewals.contains(&Renewal::Renewed) {
        Decision::Write(NextRow { before, ..row.next_row(row.token, &sharers)? }, renewals)
    } else {
        Decision::Keep(renewals)
    })
}

fn micros(time: i64) -> Duration {
    Duration::from_micros(u64::try_from(time).unwrap_or(0))
}

#[cfg(test)]
mod tests;
