//! What cases of several families expect of an outcome.

use crate::cases::prelude::*;
use leasehold_core::{Error, FencingToken};
use tokio::time::Instant;

/// Expects an error of this kind, or `Indeterminate`: on a busy machine a short wait may be over before the first answer.
pub(super) fn ensure_kind_if_known<T>(outcome: Result<T, Error>, kind: ErrorKind, when: &str) -> Verdict {
    match outcome {
        Err(error) if error.is_indeterminate() => Ok(()),
        outcome => ensure_kind(outcome, kind, when),
    }
}

/// Expects that an attempt is refused as one at a store that gives no answer.
pub(super) fn ensure_outage<T>(outcome: Result<T, Error>, store: &str) -> Verdict {
    match outcome {
        Ok(_) => Err(Stop::Failed(format!("{store} granted a lock"))),
        Err(error) => {
            let outage = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate);
            ensure!(outage, "{store} was reported as {:?}: {error}", error.kind());
            Ok(())
        }
    }
}

/// Takes the lock, expects a token larger than the last one, and gives it back.
pub(super) async fn ensure_larger_token(
    client: &Client,
    name: &LockName,
    options: &AcquireOptions,
    last: FencingToken,
    when: &str,
) -> Verdict {
    let next = client.take(name, options).await?;
    ensure_untimed!(next.token()? > last, "token {} after {last}, {when}", next.token()?);
    Ok(next.release().await?)
}

/// Waits until the store has no more records than before.
pub(super) async fn until_records_are_gone(
    cx: &Context,
    before: usize,
    bound: Duration,
    when: &str,
) -> Verdict {
    let start = Instant::now();
    loop {
        let after = cx.store().records().await?;
        if after <= before {
            return Ok(());
        }
        ensure!(start.elapsed() <= bound, "{before} records before, {after} after {when}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
