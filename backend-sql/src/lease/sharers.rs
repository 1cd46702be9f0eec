//! The rules of shared holds: the readers of a name, and the writers that wait for them, in one column of its row.
//!
//! While readers hold, the row belongs to the owner [`READERS`], and its lease ends with the last of theirs: an exclusive attempt need
//! not know the column. In a row of another owner the column means nothing. A writer that waits for readers leaves a mark, and keeps
//! new readers out while the mark is fresh.
//!
//! Each rule is a pure function of a row that was read. `shared.rs` writes what it decides. The optimistic mode decides an exclusive
//! attempt in the same way.

use super::row::{LeaseRow, micros};
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, HolderInfo, LockMode, LockName, LockStatus,
    LossCause, OwnerId, Renewal, Result,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// The owner of a row while readers hold it. No acquisition has this id.
pub(crate) const READERS: OwnerId = OwnerId::from_u128(u128::MAX);
/// How long a mark is fresh, in microseconds: more than twice the longest pause between two attempts of the writer that left it, because
/// an attempt renews the mark only if half of the time is over.
const MARK_LASTS: i64 = 2_000_000;

/// What a row is changed to.
#[derive(Clone, Debug)]
pub(crate) struct NextRow {
    /// The exclusive claim that takes the row in the optimistic mode; `None` for a row of [`READERS`].
    #[cfg_attr(not(feature = "_server"), expect(dead_code, reason = "SQLite has no optimistic mode"))]
    pub(crate) taker: Option<Claim>,
    pub(crate) token: FencingToken,
    /// The end of the last reader's lease, else 0. For a taker: its end by the clock of the read; servers count it anew from the write.
    pub(crate) ends_at: i64,
    pub(crate) sharers: String,
    /// The change counts only before this time. A renewal may not bring back a lease that has ended since the read.
    pub(crate) before: i64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sharers {
    pub(super) readers: Vec<Reader>,
    /// The writers that wait, and until when their marks are fresh.
    writers: Vec<(String, i64)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reader {
    /// `None` after a release that lingers.
    pub(super) owner: Option<String>,
    pub(super) token: u64,
    pub(super) ends_at: i64,
    /// Microseconds since 1970.
    acquired_at: u64,
    holder: String,
}

impl LeaseRow {
    /// The readers that hold, and the marks that are fresh. `None` if another program has written the column.
    pub(super) fn live_sharers(&self) -> Option<Sharers> {
        if self.owner != Some(READERS) || self.sharers.is_empty() {
            return Some(Sharers::default());
        }
        let mut sharers: Sharers = serde_json::from_str(&self.sharers).ok()?;
        sharers.readers.retain(|reader| reader.ends_at > self.now && self.ends_at > self.now);
        // A mark that would last for longer than any is one from before the clock was set back.
        sharers.writers.retain(|(_, until)| *until > self.now && *until <= self.now + MARK_LASTS);
        Some(sharers)
    }

    /// How long another hold, its linger, or a mark keeps a reader out from now on.
    fn reader_blocked_for(&self, sharers: &Sharers) -> Option<Duration> {
        let until = match self.owner {
            Some(READERS) => sharers.writers.iter().map(|(_, until)| *until).max()?,
            _ => self.ends_at,
        };
        Some(micros(until.saturating_sub(self.now))).filter(|left| !left.is_zero())
    }

    pub(super) fn next_row(&self, token: FencingToken, sharers: &Sharers) -> Result<NextRow> {
        let ends_at = sharers.readers.iter().map(|reader| reader.ends_at).max().unwrap_or(0);
        let sharers = serde_json::to_string(sharers).map_err(|error| {
            Error::new(ErrorKind::Misconfigured, "the readers of a row cannot be written as JSON")
                .with_source(error)
        })?;
        Ok(NextRow { taker: None, token, ends_at, sharers, before: i64::MAX })
    }

    pub(super) fn ends(&self, ttl: Duration) -> i64 {
        self.now.saturating_add(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Sharers {
    pub(super) fn reader(&mut self, owner: OwnerId) -> Option<&mut Reader> {
        let owner = owner.to_hex();
        self.readers.iter_mut().find(|reader| reader.owner.as_ref() == Some(&owner))
    }

    pub(super) fn remove_mark(&mut self, owner: OwnerId) -> bool {
        let (owner, before) = (owner.to_hex(), self.writers.len());
        self.writers.retain(|(writer, _)| *writer != owner);
        self.writers.len() < before
    }
}

impl Reader {
    pub(super) fn status(&self, name: &LockName, now: i64) -> LockStatus {
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
pub(super) enum Decision<T> {
    Keep(T),
    Write(NextRow, T),
}

pub(super) fn admit(claim: &Claim, row: &LeaseRow, mut sharers: Sharers) -> Result<Decision<Attempt>> {
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

/// Decides the attempt of an exclusive claim in the optimistic mode.
pub(super) fn take(claim: &Claim, row: &LeaseRow, sharers: Sharers) -> Result<Decision<Attempt>> {
    if let Some(busy) = row.busy_for(claim.owner()) {
        if row.owner != Some(READERS) || !claim.waits() {
            return Ok(Decision::Keep(Attempt::Busy(busy)));
        }
        let busy = Attempt::Busy(busy.with_place_in_queue());
        return Ok(match mark(claim.owner(), row, sharers)? {
            Decision::Keep(()) => Decision::Keep(busy),
            Decision::Write(next, ()) => Decision::Write(next, busy),
        });
    }
    // If the claim holds the row, the reply to an earlier attempt was lost.
    let is_free = row.ends_in().is_none();
    let token = match is_free {
        true => FencingToken::after(Some(row.token), row.unix_now).ok_or_else(Error::tokens_used_up)?,
        false => row.token,
    };
    let before = if is_free { i64::MAX } else { row.ends_at };
    let (taker, ends_at) = (Some(claim.clone()), row.ends(claim.ttl()));
    let next = NextRow { taker, token, ends_at, sharers: String::new(), before };
    Ok(Decision::Write(next, Attempt::Granted(Grant::new(token))))
}

/// Extends the leases of those claims that still hold, and shortens none.
pub(super) fn extend(
    claims: &[&Claim],
    row: &LeaseRow,
    mut sharers: Sharers,
) -> Result<Decision<Vec<Renewal>>> {
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

pub(super) fn mark(owner: OwnerId, row: &LeaseRow, mut sharers: Sharers) -> Result<Decision<()>> {
    let writer = owner.to_hex();
    let lasts = |(other, until): &(String, i64)| *other == writer && until - row.now > MARK_LASTS / 2;
    if sharers.readers.is_empty() || sharers.writers.iter().any(lasts) {
        return Ok(Decision::Keep(()));
    }
    sharers.remove_mark(owner);
    sharers.writers.push((writer, row.now.saturating_add(MARK_LASTS)));
    Ok(Decision::Write(row.next_row(row.token, &sharers)?, ()))
}

#[cfg(test)]
mod tests;
