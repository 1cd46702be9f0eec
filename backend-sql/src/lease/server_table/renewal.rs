//! Renewals of many leases: one statement where none was lost, and few where some were.

use super::{ServerTable, micros};
use crate::lease::{LeaseRow, LeaseTable, RowState};
use crate::server::{PoolClass, Value};
use futures_util::{StreamExt, stream};
use leasehold_core::{Claim, Error, ErrorKind, LockName, OwnerId, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How many are renewed side by side, each by itself. Fewer than there are connections by default: others renew too.
const AT_ONCE: usize = 4;

impl ServerTable {
    /// Renews claims of one ttl in one statement, which answers only how many it has renewed. If some were not, a read of the rows
    /// shows most of the claims that were, and the rest is renewed again: each by itself, unless all of the rest are lost.
    pub(super) async fn renew_alike(&self, ttl: Duration, claims: &[&Claim]) -> Vec<Result<bool>> {
        let start = Instant::now();
        let of_all = |answer: &Result<bool>| claims.iter().map(|_| answer.clone()).collect();
        match self.renew_some(ttl, claims).await {
            Ok(renewed) if renewed == claims.len() => return of_all(&Ok(true)),
            Ok(0) => return of_all(&self.nothing_held().await),
            Ok(_) => {}
            Err(error) if claims.len() > 1 => return self.renew_each(ttl, claims, &error).await,
            Err(error) => return of_all(&Err(error)),
        }
        let last = match self.last(claims, ttl, start).await {
            Ok(last) => last,
            Err(error) => return of_all(&Err(error.with_kind(ErrorKind::Indeterminate))),
        };
        let rest: Vec<&Claim> =
            claims.iter().filter(|claim| !last.contains(&claim.owner())).copied().collect();
        let mut rest = self.renew_rest(ttl, &rest).await.into_iter();
        let renewed = |claim: &&Claim| match last.contains(&claim.owner()) {
            true => Ok(true),
            false => rest.next().unwrap_or(Ok(false)),
        };
        claims.iter().map(renewed).collect()
    }

    /// Renews each by itself after the statement for all has failed. One row may be the cause: another program keeps it locked, or
    /// has written a value that does not fit. If none of the first can be renewed, no row is the cause, and the others are not
    /// tried.
    async fn renew_each(&self, ttl: Duration, claims: &[&Claim], of_all: &Error) -> Vec<Result<bool>> {
        let (failed, is_any_renewed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let renew = |claim: Claim| async {
            let claim = claim;
            if failed.load(Ordering::Relaxed) >= AT_ONCE && !is_any_renewed.load(Ordering::Relaxed) {
                return Err(of_all.clone());
            }
            let renewed = match self.renew_some(ttl, &[&claim]).await {
                Ok(0) => self.nothing_held().await,
                renewed => renewed.map(|renewed| renewed == 1),
            };
            match &renewed {
                Ok(_) => is_any_renewed.store(true, Ordering::Relaxed),
                Err(_) => _ = failed.fetch_add(1, Ordering::Relaxed),
            }
            renewed
        };
        let claims: Vec<Claim> = claims.iter().map(|claim| (*claim).clone()).collect();
        stream::iter(claims.into_iter().map(renew)).buffered(AT_ONCE).collect().await
    }

    /// The claims whose rows show that their leases last for a ttl from `start`, when the renewal was sent.
    ///
    /// Such a row promises as much as another renewal would. A row whose end is earlier by the time that the answer took may be
    /// from the renewal before, a third of a ttl earlier, so a slow answer shows nothing. Any other row, perhaps read from a
    /// replica that is behind, proves nothing: only an `UPDATE` shows that a lease is lost.
    async fn last(&self, claims: &[&Claim], ttl: Duration, start: Instant) -> Result<HashSet<OwnerId>> {
        let names: Vec<&LockName> = claims.iter().map(|claim| claim.name()).collect();
        let owners: HashSet<OwnerId> = claims.iter().map(|claim| claim.owner()).collect();
        let asked = Instant::now();
        let mut rows = self.look_at_each(&names).await?;
        if asked.elapsed() > ttl / 4 {
            rows.clear();
        }
        let elapsed = start.elapsed();
        let lasts =
            |row: &&LeaseRow| matches!(row.state, RowState::Held { ends_in } if ends_in + elapsed >= ttl);
        Ok(rows.iter().filter(lasts).map(|row| row.owner).filter(|owner| owners.contains(owner)).collect())
    }

    /// Renews claims that are probably lost: if all are, one statement shows it.
    async fn renew_rest(&self, ttl: Duration, claims: &[&Claim]) -> Vec<Result<bool>> {
        if claims.len() > 1 {
            match self.renew_some(ttl, claims).await {
                Ok(0) => return claims.iter().map(|_| Ok(false)).collect(),
                Ok(_) => {}
                Err(error) => return claims.iter().map(|_| Err(error.clone())).collect(),
            }
        }
        let mut answers: Vec<Result<bool>> = Vec::with_capacity(claims.len());
        for claim in claims {
            answers.push(match answers.last() {
                // The others need not wait for as long.
                Some(Err(error)) => Err(error.clone()),
                _ => self.renew_some(ttl, &[claim]).await.map(|renewed| renewed == 1),
            });
        }
        answers
    }

    async fn renew_some(&self, ttl: Duration, claims: &[&Claim]) -> Result<usize> {
        let (statement, size) = self.statements.renew.for_claims(claims.len());
        // Filled up with the first one again, which a list may name as often as it likes.
        let places = || claims.iter().chain(std::iter::repeat(&claims[0])).take(size);
        let names = places().map(|claim| Value::bytes(self.stored(claim.name())));
        let owners = places().map(|claim| Value::bytes(claim.owner().to_bytes()));
        let values: Vec<Value> = std::iter::once(micros(ttl)).chain(names).chain(owners).collect();
        let answer = self.server.write(PoolClass::Renewal, statement, &values).await?;
        if answer.changed > 0 {
            self.server.target().headroom.holds_for(ttl);
        }
        usize::try_from(answer.changed).map_err(|_| self.server.unreadable())
    }
}
