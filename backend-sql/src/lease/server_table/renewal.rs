//! Renewals of many leases: one statement where none was lost, and few where some were.

use super::{ServerTable, micros};
use crate::lease::{LeaseRow, RowState};
use crate::server::{PoolClass, Value};
use futures_util::{StreamExt, stream};
use leasehold_core::{Claim, Error, ErrorKind, LockName, OwnerId, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How many are renewed side by side, each by itself. Fewer than there are connections by default: others renew too.
const AT_ONCE: usize = 4;

impl ServerTable {
    /// Renews claims of one ttl in one statement, which answers only how many it has renewed. If some were not, a read of the rows
    /// shows which.
    pub(super) async fn renew_alike(&self, ttl: Duration, claims: &[&Claim]) -> Vec<Result<bool>> {
        let start = Instant::now();
        let of_all = |answer: Result<bool>| vec![answer; claims.len()];
        match self.renew_some(ttl, claims).await {
            Ok(renewed) if renewed == claims.len() => return of_all(Ok(true)),
            Ok(0) => return of_all(self.nothing_held().await),
            Ok(_) => {}
            Err(error) if claims.len() > 1 => return self.renew_each(ttl, claims, &error).await,
            Err(error) => return of_all(Err(error)),
        }
        let held = match self.held(claims).await {
            Ok(held) => held,
            Err(error) => return of_all(Err(error.with_kind(ErrorKind::Indeterminate))),
        };
        let elapsed = start.elapsed();
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            answers.push(match held.get(&claim.owner()) {
                // The row promises as much as another renewal would.
                Some(ends_in) if *ends_in + elapsed >= ttl => Ok(true),
                // The clock of the server was set, or another server answers: only a renewal tells.
                Some(_) => self.renew_some(ttl, &[claim]).await.map(|renewed| renewed == 1),
                None => Ok(false),
            });
        }
        answers
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

    /// The leases of these claims that go on, by their owners, and the time until each ends. The rows are read where writes go: that of a
    /// replica that is behind would prove nothing.
    async fn held(&self, claims: &[&Claim]) -> Result<HashMap<OwnerId, Duration>> {
        let names: Vec<&LockName> = claims.iter().map(|claim| claim.name()).collect();
        let rows = self.rows_of(&self.statements.look_where_writes_go, &names).await?;
        let held = |row: LeaseRow| match row.state {
            RowState::Held { ends_in } => Some((row.owner, ends_in)),
            RowState::Free | RowState::Lingering { .. } => None,
        };
        Ok(rows.into_iter().filter_map(held).collect())
    }

    async fn renew_some(&self, ttl: Duration, claims: &[&Claim]) -> Result<usize> {
        let (statement, size) = self.statements.renew.for_claims(claims.len());
        // Filled up with the same ones again, which a list may name as often as it likes.
        let places = claims.iter().cycle().take(size);
        let names = places.clone().map(|claim| Value::bytes(self.stored(claim.name())));
        let owners = places.map(|claim| Value::bytes(claim.owner().to_bytes()));
        let values: Vec<Value> = std::iter::once(micros(ttl)).chain(names).chain(owners).collect();
        let answer = self.server.write(PoolClass::Renewal, statement, &values).await?;
        if answer.changed > 0 {
            self.server.target().headroom.holds_for(ttl);
        }
        usize::try_from(answer.changed).map_err(|_| self.server.unreadable())
    }
}
