//! What a store declares: the cases that it rules out, and the bounds that follow from it.

use crate::cases::prelude::*;
use crate::time_scale::said_factor;
use leasehold_core::{CrashBound, Fairness, WakeUp};

/// Skips a case where a hold is no lease.
pub(super) async fn lease_only(cx: &Context) -> Verdict {
    let hold = cx.semantics().await?.hold;
    require!(hold == HoldKind::Lease, "a hold here is not a lease but a {hold:?}");
    Ok(())
}

/// Skips a case that cuts connections under a holder, where a hold is a connection.
pub(super) async fn outlives_its_connection(cx: &Context) -> Verdict {
    let is_connection = cx.semantics().await?.hold == HoldKind::Connection;
    require!(!is_connection, "a hold here is a connection, and ends with it");
    Ok(())
}

/// Skips a case where waiters are served in no order.
pub(super) async fn fifo_only(cx: &Context) -> Verdict {
    let is_fifo = cx.semantics().await?.fairness == Fairness::Fifo;
    require!(is_fifo, "the backend declares no order of its waiters");
    Ok(())
}

/// The longest time from a release to the next grant.
pub(super) fn hand_over_bound(cx: &Context, client: &Client) -> Duration {
    client.semantics().wake_up.bound() + cx.slack()
}

/// The longest time from the end of the last renewal to the next grant, where no request of the holder arrives any more.
pub(super) fn expiry_bound(cx: &Context, client: &Client) -> Duration {
    cx.lease(cx.ttl()).max(cx.session_timeout()) + hand_over_bound(cx, client)
}

/// The longest time from a crash to the next grant.
pub(super) async fn crash_bound(cx: &Context) -> Result<Duration, Stop> {
    let client = cx.client().await?;
    match client.semantics().crash_bound {
        CrashBound::Connection => Ok(hand_over_bound(cx, &client)),
        _ => Ok(expiry_bound(cx, &client)),
    }
}

/// The longest time until a holder is replaced that is silent, and may be alive for all that the store knows. A connection
/// is ended by the store when nothing was heard of it for one ttl; some stores count that in whole seconds.
pub(super) async fn silent_bound(cx: &Context) -> Result<Duration, Stop> {
    let client = cx.client().await?;
    let counts_seconds = client.semantics().crash_bound == CrashBound::Connection;
    let rounding = if counts_seconds { Duration::from_secs(2) } else { Duration::ZERO };
    Ok(expiry_bound(cx, &client) + rounding)
}

/// The bound of a crashed holder, or a silent one, as that of a waiter: it keeps others out for two seconds where its ttl is shorter.
pub(super) fn of_a_waiter(of_a_holder: Duration, cx: &Context, client: &Client) -> Duration {
    of_a_holder.max(Duration::from_secs(2) + hand_over_bound(cx, client))
}

/// How long a withdrawn request may keep the lock, once the network is well again: a withdrawal that failed is tried again, a
/// second later at most.
pub(super) fn withdrawn_within(cx: &Context, client: &Client) -> Duration {
    Duration::from_secs(1) + client.semantics().wake_up.bound() + cx.slack() * 2
}

/// A store that says that it tells its waiters tells them: if every word were lost, most hand-overs would last until the
/// question that is asked anyway. A busy machine makes some of them late, but not half, and few of them very late.
pub(super) fn ensure_told(wake_up: WakeUp, mut hand_overs: Vec<Duration>) -> Verdict {
    let WakeUp::Push { fallback } = wake_up else { return Ok(()) };
    hand_overs.sort();
    // What is asked anyway does not wait for a slow machine: only what was said of the machine counts.
    let fallback_here = fallback.mul_f64(said_factor().max(1.0));
    let (all, half, tenth) = (hand_overs.len(), "half", "a tenth");
    for (at, share, bound) in [(all / 2, half, fallback_here / 4), (all * 9 / 10, tenth, fallback_here / 2)] {
        let Some(took) = hand_overs.get(at) else { return Ok(()) };
        ensure_within!(
            *took,
            bound,
            "waiters are not told, as is declared: {share} of the hand-overs took {took:?} and more, and {fallback:?} is \
             the interval at which they ask anyway"
        );
    }
    Ok(())
}
