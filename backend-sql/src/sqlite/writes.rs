//! Grants, renewals, releases. Each is one statement for any number of claims; a grant of one claim is a second one if the
//! row is not free or its last token is ahead of the clock.

use super::Shared;
use super::batch::Batch;
use super::connection::{Done, Query};
use super::host_clock::HostTime;
use super::link::Link;
use super::reads::{read_owner, read_token};
use super::writer::StoredNames;
use crate::lease::{NextRow, READERS, SharedRow};
use leasehold_core::{Claim, FencingToken, LockName, OwnerId, Purge, Result};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};
use std::sync::Arc;
use std::time::Duration;

/// Grants the rows that are free; the token of each claim that was granted. No more claims than fit into one statement.
pub(super) async fn grant(
    shared: &Shared,
    link: &mut Link,
    claims: &[Claim],
) -> Result<Vec<Option<FencingToken>>> {
    match claims {
        [] => return Ok(Vec::new()),
        [one] => {
            if let Some(token) = grant_by_clock(shared, link, one).await? {
                return Ok(vec![Some(token)]);
            }
        }
        _ => {}
    }
    let (now, unix_now) = (shared.clock.now(), shared.clock.unix_micros());
    let (text, empty) = shared.statements.acquire.of(claims.len());
    let query = || {
        let query = claims.iter().fold(query(&text), |query, claim| bind_wish(query, shared, now, claim));
        let nobody = |query, _| bind_nobody(query).bind(None::<String>);
        bind_times((0..empty).fold(query, nobody), shared, now, unix_now)
    };
    let granted = ByOwner::of(shared, &link.rows(query).await?, |row| read_token(row.try_get(1)?))?;
    Ok(claims.iter().map(|claim| granted.get(claim.owner())).collect())
}

/// Grants a free row with the time as the token. `None` if the row is not free, or if its last token is ahead of the clock.
async fn grant_by_clock(shared: &Shared, link: &mut Link, claim: &Claim) -> Result<Option<FencingToken>> {
    let (now, unix_now) = (shared.clock.now(), shared.clock.unix_micros());
    let text = &shared.statements.acquire_one;
    let query = || bind_times(bind_wish(query(text), shared, now, claim), shared, now, unix_now);
    let granted = link.run(query).await?.changed == 1;
    Ok(granted.then(|| FencingToken::new(unix_now.unsigned_abs())))
}

/// Extends leases; true for each claim that still had one. No more than fit into one statement.
pub(super) async fn renew(shared: &Shared, link: &mut Link, claims: &[Claim]) -> Result<Vec<bool>> {
    let now = shared.clock.now();
    let ends: Vec<(&Claim, i64)> = claims.iter().map(|claim| (claim, now.plus(claim.ttl()).0)).collect();
    let done = change_held(shared, link, &shared.statements.renew, now, &ends).await?;
    let changed = ByOwner::of(shared, &done.rows, |_| Ok(()))?;
    Ok(claims.iter().map(|claim| changed.has(claim.owner())).collect())
}

/// Ends leases, and keeps others out for a while; true for each claim that had one. No more than fit into one statement.
pub(super) async fn release(
    shared: &Shared,
    link: &mut Link,
    claims: &[(Claim, Duration)],
) -> Result<Vec<bool>> {
    let now = shared.clock.now();
    let lingers: Vec<(&Claim, i64)> =
        claims.iter().map(|(claim, linger)| (claim, linger_until(now, *linger))).collect();
    let done = change_held(shared, link, &shared.statements.release, now, &lingers).await?;
    if let [_] = claims {
        return Ok(vec![done.changed == 1]);
    }
    let changed = ByOwner::of(shared, &done.rows, |_| Ok(()))?;
    Ok(claims.iter().map(|(claim, _)| changed.has(claim.owner())).collect())
}

/// Makes the row of a name, free, if there is none.
pub(super) async fn make_row(shared: &Shared, link: &mut Link, name: &LockName) -> Result<()> {
    let (now, text) = (shared.clock.now(), &shared.statements.make_row);
    let make = || {
        let query = query(text).bind(shared.stored_name(name)).bind(READERS.to_bytes().to_vec());
        query.bind(now.0).bind(shared.clock.boot().map(str::to_owned))
    };
    link.run(make).await.map(|_| ())
}

/// Changes the readers of a name; false if the row is not as it was read.
pub(super) async fn replace(
    shared: &Shared,
    link: &mut Link,
    name: &LockName,
    was: &SharedRow,
    next: &NextRow,
) -> Result<bool> {
    let (now, unix_now, text) = (shared.clock.now(), shared.clock.unix_micros(), &shared.statements.replace);
    let replace = || {
        let query = query(text).bind(shared.stored_name(name)).bind(READERS.to_bytes().to_vec());
        let query = query.bind(next.token.get().cast_signed()).bind(next.ends_at).bind(next.sharers.clone());
        let query = query.bind(now.0).bind(unix_now).bind(shared.clock.boot().map(str::to_owned));
        was.version
            .iter()
            .fold(query, |query, number| query.bind(*number))
            .bind(was.sharers.clone())
            .bind(next.before)
    };
    Ok(link.run(replace).await?.changed == 1)
}

/// Ends the grant with this token, and any linger after it; true if there was something to end.
pub(super) async fn end_grant(
    shared: &Shared,
    link: &mut Link,
    name: &LockName,
    token: FencingToken,
) -> Result<bool> {
    let now = shared.clock.now().0;
    let query = || {
        query(&shared.statements.end_grant)
            .bind(now)
            .bind(shared.stored_name(name))
            .bind(i64::try_from(token.get()).unwrap_or(i64::MAX))
    };
    Ok(!link.rows(query).await?.is_empty())
}

/// Forgets, or counts, those of these names that nobody has held for so long.
pub(super) async fn purge(
    shared: &Shared,
    link: &mut Link,
    (first, behind): &StoredNames,
    idle: Duration,
    purge: Purge,
) -> Result<u64> {
    let micros = i64::try_from(idle.as_micros()).unwrap_or(i64::MAX);
    let (now, token) = (shared.clock.now().0, shared.clock.unix_micros().saturating_sub(micros));
    let text = if purge == Purge::Delete { &shared.statements.purge } else { &shared.statements.idle };
    let query = || {
        let query = query(text).bind(first.clone()).bind(behind.clone());
        query.bind(now).bind(token)
    };
    let rows = link.rows(query).await?;
    if purge == Purge::Delete {
        return Ok(rows.len() as u64);
    }
    let count = rows.first().map_or(Ok(0_i64), |row| row.try_get(0));
    count.map(i64::unsigned_abs).map_err(|error| shared.unreadable(error))
}

/// Runs a statement that changes the rows which these claims hold now, each with a time of its own.
async fn change_held(
    shared: &Shared,
    link: &mut Link,
    batch: &Batch,
    now: HostTime,
    claims: &[(&Claim, i64)],
) -> Result<Done> {
    if claims.is_empty() {
        return Ok(Done::default());
    }
    let (text, empty) = batch.of(claims.len());
    let query = || {
        let bind = |query, (claim, time): &(&Claim, i64)| bind_claim(query, shared, claim).bind(*time);
        let query = claims.iter().fold(query(&text), bind);
        let query = (0..empty).fold(query, |query, _| bind_nobody(query));
        query.bind(now.0).bind(shared.clock.boot().map(str::to_owned))
    };
    link.run(query).await
}

fn query(text: &Arc<str>) -> Query {
    sqlx::query(AssertSqlSafe(Arc::clone(text)))
}

fn bind_times(query: Query, shared: &Shared, now: HostTime, unix_now: i64) -> Query {
    query.bind(now.0).bind(unix_now).bind(shared.clock.boot().map(str::to_owned))
}

/// Of a claim that wants its name.
fn bind_wish(query: Query, shared: &Shared, now: HostTime, claim: &Claim) -> Query {
    let query = bind_claim(query, shared, claim).bind(now.plus(claim.ttl()).0);
    query.bind(claim.holder().to_owned())
}

fn bind_claim(query: Query, shared: &Shared, claim: &Claim) -> Query {
    query.bind(shared.stored_name(claim.name())).bind(claim.owner().to_bytes().to_vec())
}

/// An empty claim: its name is NULL, which is the name of no row.
fn bind_nobody(query: Query) -> Query {
    query.bind(None::<Vec<u8>>).bind(None::<Vec<u8>>).bind(None::<i64>)
}

/// Zero for no linger, rather than now: for a process whose look at the clock is a moment older, now is not over yet.
fn linger_until(now: HostTime, linger: Duration) -> i64 {
    if linger.is_zero() { 0 } else { now.plus(linger).0 }
}

/// What a statement returned of the claims that it changed, behind their owners and in the order of these; nearly always it is
/// one.
struct ByOwner<T>(Vec<(OwnerId, T)>);

impl<T: Copy> ByOwner<T> {
    fn of(
        shared: &Shared,
        rows: &[SqliteRow],
        read: impl Fn(&SqliteRow) -> Result<T, sqlx::Error>,
    ) -> Result<Self> {
        let read = |row: &SqliteRow| Ok((read_owner(row.try_get(0)?)?, read(row)?));
        let changed: Result<Vec<_>, sqlx::Error> = rows.iter().map(read).collect();
        let mut changed = changed.map_err(|error| shared.unreadable(error))?;
        changed.sort_unstable_by_key(|(owner, _)| owner.as_u128());
        Ok(Self(changed))
    }

    fn get(&self, owner: OwnerId) -> Option<T> {
        let at = self.0.binary_search_by_key(&owner.as_u128(), |(owner, _)| owner.as_u128()).ok()?;
        Some(self.0[at].1)
    }

    fn has(&self, owner: OwnerId) -> bool {
        self.get(owner).is_some()
    }
}
