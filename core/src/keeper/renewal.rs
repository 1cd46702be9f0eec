use super::renewal_due;
use crate::client::{Core, Held};
use crate::{Claim, Error, ErrorKind, Moment, Renewal, Result};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// The pause before an unconfirmed renewal is tried again: a fifteenth of the lease, within these bounds. What is left of a
/// lease after an outage is worth little to a holder that does not ask for more of it, above all under `leasehold run`.
const RETRY_PARTS: u32 = 15;
const RETRY_AT_LEAST: Duration = Duration::from_millis(5);
const RETRY_AT_MOST: Duration = Duration::from_secs(5);

/// Renews these holds, in one call for each place where some of them live.
pub(super) async fn renew(core: Arc<Core>, batch: Vec<Arc<Held>>) {
    let mut groups = BTreeMap::<u64, Vec<Arc<Held>>>::new();
    for held in batch {
        groups.entry(held.renewal_group()).or_default().push(held);
    }
    join_all(groups.into_values().map(|group| renew_group(&core, group))).await;
}

/// Renews these holds in one call, and enters what was heard.
async fn renew_group(core: &Core, batch: Vec<Arc<Held>>) {
    let held = batch.into_iter().filter_map(|held| held.begin_renewal().map(|claim| (held, claim)));
    let (batch, claims): (Vec<Arc<Held>>, Vec<Claim>) = held.unzip();
    if claims.is_empty() {
        return;
    }
    let span = tracing::trace_span!(target: "leasehold", "leasehold.renew", lock.backend = core.semantics.backend, leases = claims.len());
    let sent_at = core.clock.now();
    let mut answers = core.backend.renew(&claims).instrument(span).await.into_iter();
    for (held, claim) in batch.iter().zip(&claims) {
        let answer = answers.next().unwrap_or_else(|| Err(unanswered()));
        enter(core, held, sent_at, claim.ttl(), answer);
    }
}

fn enter(core: &Core, held: &Arc<Held>, sent_at: Moment, ttl: Duration, answer: Result<Renewal>) {
    let confirmed = matches!(answer, Ok(Renewal::Renewed));
    held.answered(sent_at, ttl, answer);
    if confirmed {
        core.keeper.reschedule(held, renewal_due(sent_at, ttl));
    } else if held.still_held() {
        // Not after its end, which is to be announced when it comes.
        let again = core.clock.now().plus(retry_pause(ttl));
        core.keeper.reschedule(held, again.min(held.valid_until()));
    } else {
        core.keeper.forget(held);
    }
}

/// Jittered, so that the holders of many locks do not come back in step after an outage.
fn retry_pause(ttl: Duration) -> Duration {
    let pause = (ttl / RETRY_PARTS).clamp(RETRY_AT_LEAST, RETRY_AT_MOST);
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// A backend has given fewer answers than it was asked for.
pub(crate) fn unanswered() -> Error {
    Error::new(ErrorKind::Indeterminate, "the backend left a renewal without an answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice as soon at the earliest, and no later: within the lease there is time for several.
    #[test]
    fn the_pause_before_another_try_is_a_fifteenth_of_the_lease_or_down_to_half_of_that() {
        let leases = [(1, 5), (10, 5), (1_500, 100), (30_000, 2_000), (600_000, 5_000)];
        for (ttl, pause) in
            leases.map(|(ttl, pause)| (Duration::from_millis(ttl), Duration::from_millis(pause)))
        {
            for _ in 0..200 {
                let drawn = retry_pause(ttl);
                assert!(pause / 2 <= drawn && drawn <= pause, "{drawn:?} for {ttl:?}");
            }
        }
    }
}
