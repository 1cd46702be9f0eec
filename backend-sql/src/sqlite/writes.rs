//! What is written: grants, renewals, releases. Each is one statement for any number of claims.

use super::Shared;
use super::batch::Batch;
use super::connection::Query;
use super::host_clock::HostTime;
use super::link::Link;
use super::reads::{read_owner, read_token};
use leasehold_core::{Claim, FencingToken, LockName, OwnerId, Purge, Result};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Grants what is free; the token of each claim that was granted. No more than fit into one statement.
pub(super) async fn grant(
    shared: &Shared,
    link: &mut Link,
    claims: &[Claim],
) -> Result<Vec<Option<FencingToken>>> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let now = shared.clock.now();
    let unix_now = shared.clock.unix_micros();
    let (text, empty) = shared.statements.acquire.of(claims.len());
    let query = || {
        let mut query = sqlx::query(AssertSqlSafe(Arc::clone(&text)))
            .bind(now.0)
            .bind(unix_now)
            .bind(shared.clock.boot().map(str::to_owned));
        for claim in claims {
            query = bind_claim(query, shared, claim)
                .bind(now.plus(claim.ttl()).0)
                .bind(claim.holder().to_owned());
        }
        (0..empty).fold(query, |query, _| bind_nobody(query).bind(None::<String>))
    };
    let tokens = tokens_by_owner(shared, &link.rows(query).await?)?;
    Ok(claims.iter().map(|claim| tokens.get(&claim.owner()).copied()).collect())
}

/// Extends leases; the token of each claim that still had one. No more than fit into one statement.
pub(super) async fn renew(
    shared: &Shared,
    link: &mut Link,
    claims: &[Claim],
) -> Result<Vec<Option<FencingToken>>> {
    let now = shared.clock.now();
    let ends: Vec<(&Claim, i64)> = claims.iter().map(|claim| (claim, now.plus(claim.ttl()).0)).collect();
    let tokens = change_held(shared, link, &shared.statements.renew, now, &ends).await?;
    Ok(claims.iter().map(|claim| tokens.get(&claim.owner()).copied()).collect())
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
    let tokens = change_held(shared, link, &shared.statements.release, now, &lingers).await?;
    Ok(claims.iter().map(|(claim, _)| tokens.contains_key(&claim.owner())).collect())
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
        sqlx::query(AssertSqlSafe(Arc::clone(&shared.statements.end_grant)))
            .bind(now)
            .bind(shared.stored_name(name))
            .bind(i64::try_from(token.get()).unwrap_or(i64::MAX))
    };
    Ok(!link.rows(query).await?.is_empty())
}

/// Forgets, or counts, names that nobody has held for so long; no more than fit into one statement.
pub(super) async fn purge(shared: &Shared, link: &mut Link, idle: Duration, purge: Purge) -> Result<u64> {
    let first = shared.namespace.stored("").into_bytes();
    let behind = [first.as_slice(), &[0xff]].concat();
    let micros = i64::try_from(idle.as_micros()).unwrap_or(i64::MAX);
    let (now, token) = (shared.clock.now().0, shared.clock.unix_micros().saturating_sub(micros));
    let text = if purge == Purge::Delete { &shared.statements.purge } else { &shared.statements.idle };
    let query = || {
        let query = sqlx::query(AssertSqlSafe(Arc::clone(text))).bind(first.clone()).bind(behind.clone());
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
) -> Result<HashMap<OwnerId, FencingToken>> {
    if claims.is_empty() {
        return Ok(HashMap::new());
    }
    let (text, empty) = batch.of(claims.len());
    let query = || {
        let mut query = sqlx::query(AssertSqlSafe(Arc::clone(&text)))
            .bind(now.0)
            .bind(shared.clock.boot().map(str::to_owned));
        for (claim, time) in claims {
            query = bind_claim(query, shared, claim).bind(*time);
        }
        (0..empty).fold(query, |query, _| bind_nobody(query))
    };
    tokens_by_owner(shared, &link.rows(query).await?)
}

fn bind_claim(query: Query, shared: &Shared, claim: &Claim) -> Query {
    query.bind(shared.stored_name(claim.name())).bind(claim.owner().as_u128().to_be_bytes().to_vec())
}

/// An empty claim: its name is NULL, which is the name of no row.
fn bind_nobody(query: Query) -> Query {
    query.bind(None::<Vec<u8>>).bind(None::<Vec<u8>>).bind(None::<i64>)
}

/// Zero for no linger, rather than now: for a process whose look at the clock is a moment older, now is not over yet.
fn linger_until(now: HostTime, linger: Duration) -> i64 {
    if linger.is_zero() { 0 } else { now.plus(linger).0 }
}

/// What the statements return: `owner, token`.
fn tokens_by_owner(shared: &Shared, rows: &[SqliteRow]) -> Result<HashMap<OwnerId, FencingToken>> {
    let read = |row: &SqliteRow| Ok((read_owner(row.try_get(0)?)?, read_token(row.try_get(1)?)?));
    let tokens: Result<_, sqlx::Error> = rows.iter().map(read).collect();
    tokens.map_err(|error| shared.unreadable(error))
}
