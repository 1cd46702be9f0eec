//! B: a store that refuses its clients for a while, as when their password is changed.

use crate::cases::declared::hand_over_bound;
use crate::cases::prelude::*;
use crate::cases::tasks::until_waiting;
use leasehold_core::Result;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    B10 waiter_outlasts_a_refusal_that_passes,
];

/// How long the store refuses: longer than a waiter pauses between two requests.
const REFUSAL: Duration = Duration::from_millis(2_500);

async fn waiter_outlasts_a_refusal_that_passes(cx: &Context) -> Verdict {
    let (client, name, options) = (cx.client().await?, cx.name(), waiting(cx));
    let take = async { client.acquire_with(&name, &options).await?.release().await };
    outlasts_a_refusal(cx, &name, take).await
}

/// The options of a waiter that is refused meanwhile.
pub(super) fn waiting(cx: &Context) -> AcquireOptions {
    AcquireOptions::new().with_wait(cx.patience() * 2)
}

/// A waiter behind a holder of this name is served, although the store has refused both for a while.
pub(super) async fn outlasts_a_refusal(
    cx: &Context,
    held: &LockName,
    take: impl Future<Output = Result<()>>,
) -> Verdict {
    let holder = cx.client().await?;
    let guard = holder.acquire_named(held, &AcquireOptions::new()).await?;
    let refusal = async {
        until_waiting(&holder, cx, held, 1).await?;
        cx.store().refuse(true).await?;
        tokio::time::sleep(REFUSAL).await;
        cx.store().refuse(false).await?;
        guard.release().await?;
        Ok::<_, Stop>(Instant::now())
    };
    let waiter = async { (take.await, Instant::now()) };
    let ((served, at), released_at) = tokio::join!(waiter, refusal);
    let released_at = released_at?;
    ensure!(served.is_ok(), "a waiter gave up when the store refused it: {:?}", served.err());
    // One pause of a waiter that was refused, and a connection that is made again.
    let (took, bound) =
        (at.duration_since(released_at), hand_over_bound(cx, &holder) + Duration::from_secs(2));
    ensure_within!(
        took,
        bound,
        "a waiter that was refused for a while was served {took:?} after the release"
    );
    Ok(())
}
