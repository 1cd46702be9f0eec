//! Renewals of many leases: one statement where none was lost, and few where some were.

use super::{ServerTable, micros, read_row};
use crate::lease::{LeaseRow, REASONS_WITHIN};
use crate::server::{PoolClass, Value};
use futures_util::{StreamExt, stream};
use leasehold_core::{Claim, Error, ErrorKind, Renewal, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How many are renewed side by side, each by itself. Fewer than there are connections by default: others renew too.
const AT_ONCE: usize = 4;

impl ServerTable {
    /// Renews claims of one ttl, if need be each by itself.
    pub(super) async fn renew_alike(&self, ttl: Duration, claims: &[&Claim]) -> Vec<Result<Renewal>> {
        match self.renew_together(ttl, claims).await {
            Ok(answers) => answers,
            Err(error) if claims.len() > 1 => self.renew_each(ttl, claims, &error).await,
            Err(error) => vec![Err(error)],
        }
    }

    /// Renews claims in one statement, which answers only how many it has renewed. A read of the rows shows which were not, and why.
    async fn renew_together(&self, ttl: Duration, claims: &[&Claim]) -> Result<Vec<Result<Renewal>>> {
        let start = Instant::now();
        let renewed = self.renew_some(ttl, claims).await?;
        if renewed == claims.len() {
            return Ok(vec![Ok(Renewal::Renewed); claims.len()]);
        }
        let read = self.rows_of(claims);
        let rows = match claims.len() {
            // Its own statement has shown that a single claim is lost: the read, for which a locked row may wait, shows only why.
            1 => match timeout(REASONS_WITHIN, read).await {
                Ok(Ok(rows)) => rows,
                _ => self.server.must_take_writes().await.map(|()| HashMap::new())?,
            },
            _ => read.await.map_err(|error| error.with_kind(ErrorKind::Indeterminate))?,
        };
        let elapsed = start.elapsed();
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            let (owner, row) = (claim.owner(), rows.get(&self.namespace.stored(claim.name().as_str())));
            let lost = Renewal::Lost(LeaseRow::loss_of(owner, row));
            let ends_in = row.filter(|row| row.owner == Some(owner)).and_then(LeaseRow::ends_in);
            answers.push(match ends_in {
                // The row promises as much as another renewal would.
                Some(ends_in) if ends_in + elapsed >= ttl => Ok(Renewal::Renewed),
                // The clock of the server was set, or another server answers: only a renewal tells.
                Some(_) => match self.renew_some(ttl, &[claim]).await {
                    Ok(1) => Ok(Renewal::Renewed),
                    renewed => renewed.map(|_| lost),
                },
                None => Ok(lost),
            });
        }
        Ok(answers)
    }

    /// Renews each by itself after a statement for all has failed. One row may be the cause: another program keeps it locked, or
    /// has written a value that does not fit. If none of the first can be renewed, no row is the cause, and the others are not
    /// tried.
    async fn renew_each(&self, ttl: Duration, claims: &[&Claim], of_all: &Error) -> Vec<Result<Renewal>> {
        let (failed, is_any_renewed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let renew = |claim: Claim| async {
            let claim = claim;
            if failed.load(Ordering::Relaxed) >= AT_ONCE && !is_any_renewed.load(Ordering::Relaxed) {
                return Err(of_all.clone());
            }
            let renewed = self.renew_together(ttl, &[&claim]).await.and_then(|mut answers| answers.remove(0));
            match &renewed {
                Ok(_) => is_any_renewed.store(true, Ordering::Relaxed),
                Err(_) => _ = failed.fetch_add(1, Ordering::Relaxed),
            }
            renewed
        };
        let claims: Vec<Claim> = claims.iter().map(|claim| (*claim).clone()).collect();
        stream::iter(claims.into_iter().map(renew)).buffered(AT_ONCE).collect().await
    }

    /// The rows of these claims by their names; a foreign row is left out. They are read where writes go: the row of a replica that is
    /// behind would prove nothing, nor would a missing one on a server that takes no writes.
    async fn rows_of(&self, claims: &[&Claim]) -> Result<HashMap<String, LeaseRow>> {
        let (statement, size) = self.statements.look_where_writes_go.for_claims(claims.len());
        let names = claims.iter().cycle().take(size).map(|claim| Value::bytes(self.stored(claim.name())));
        let values: Vec<Value> = names.collect();
        let answer = self.server.read(PoolClass::Renewal, statement, &values).await?;
        if answer.rows.len() < claims.len() {
            self.server.must_take_writes().await?;
        }
        let rows = answer.rows.iter().filter_map(|row| read_row(row));
        Ok(rows.map(|row| (row.stored_name.clone(), row)).collect())
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
