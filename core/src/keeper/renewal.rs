use super::{Keeper, KeptLease, renewal_due};
use crate::{Claim, Error, ErrorKind, HoldStatus, Renewal};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// The pause before an unconfirmed renewal is tried again: a fifteenth of the lease, within these bounds. A holder gains
/// little from the rest of a lease after an outage if it does not ask for more soon, above all under `leasehold run`.
const RETRY_PARTS: u32 = 15;
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Renews these leases, in one call for each [group](crate::LockBackend::renewal_group).
pub(super) async fn renew(keeper: Arc<Keeper>, batch: Vec<Arc<KeptLease>>) {
    let mut groups = BTreeMap::<u64, Vec<Arc<KeptLease>>>::new();
    for lease in batch {
        groups.entry(keeper.context.backend.renewal_group(&lease.claim)).or_default().push(lease);
    }
    join_all(groups.into_values().map(|group| renew_group(&keeper, group))).await;
}

async fn renew_group(keeper: &Keeper, batch: Vec<Arc<KeptLease>>) {
    let held = batch.into_iter().filter_map(|lease| lease.begin_renewal().map(|claim| (lease, claim)));
    let (batch, claims): (Vec<Arc<KeptLease>>, Vec<Claim>) = held.unzip();
    if claims.is_empty() {
        return;
    }
    let context = &keeper.context;
    let span = tracing::trace_span!(target: "leasehold", "leasehold.renew", lock.backend = context.semantics.backend, leases = claims.len());
    let sent_at = context.clock.now();
    let mut answers = context.backend.renew(&claims).instrument(span).await.into_iter();
    for (lease, claim) in batch.iter().zip(&claims) {
        let (length, answer) = (claim.ttl(), answers.next().unwrap_or_else(|| Err(unanswered())));
        let is_confirmed = matches!(answer, Ok(Renewal::Renewed));
        lease.answered(sent_at, length, answer);
        if is_confirmed {
            keeper.reschedule(lease, renewal_due(sent_at, length));
        } else if let HoldStatus::Held { .. } = lease.status() {
            // Not after its end, which is announced when it comes.
            let again = context.clock.now().plus(retry_pause(length));
            keeper.reschedule(lease, again.min(lease.valid_until()));
        } else {
            keeper.forget(lease);
        }
    }
}

/// Jittered, so that the holders of many locks do not come back in step after an outage.
fn retry_pause(length: Duration) -> Duration {
    let pause = (length / RETRY_PARTS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// A backend gave fewer answers than it was asked for.
pub(crate) fn unanswered() -> Error {
    Error::new(ErrorKind::Indeterminate, "the backend left a renewal without an answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_pause_is_between_half_and_all_of_a_fifteenth_of_the_lease() {
        let leases = [(1, 5), (10, 5), (1_500, 100), (30_000, 2_000), (600_000, 5_000)];
        for (length, pause) in
            leases.map(|(length, pause)| (Duration::from_millis(length), Duration::from_millis(pause)))
        {
            for _ in 0..200 {
                let drawn = retry_pause(length);
                assert!(pause / 2 <= drawn && drawn <= pause, "{drawn:?} for {length:?}");
            }
        }
    }
}
