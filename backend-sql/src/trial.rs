//! A trial lock, on a name that nobody else uses: what `check` does when no setting is known to be in the way.

use leasehold_core::trial::{Failure, failed, finding, release, renew};
use leasehold_core::{
    Attempt, Claim, Finding, HolderInfo, LockAdmin, LockBackend, LockName, OwnerId, Result, Severity,
};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// One name for all trials: where these credentials may not delete rows, no more than its row is left.
const NAME: &str = "leasehold/check";
/// Long enough for every step, and the longest time that a trial which is cut off keeps the next one waiting.
const TTL: Duration = Duration::from_secs(5);
const ACQUIRE_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Adds what a trial finds, unless an error is known already: that names its cause better than a trial does.
pub(crate) async fn after(
    mut findings: Vec<Finding>,
    backend: &dyn LockBackend,
    admin: &dyn LockAdmin,
) -> Result<Vec<Finding>> {
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Ok(findings);
    }
    let name = LockName::new(NAME)?;
    let (holder, other) = (claim(&name)?, claim(&name)?);
    let tried = try_steps(backend, &holder, &other).await;
    if tried.is_err() {
        // The release is also sent after an attempt without an answer.
        for claim in [&holder, &other] {
            let _ = backend.release(claim, Duration::ZERO).await;
        }
    }
    // Without the right to delete, the row stays for the next trial.
    let _ = admin.forget(&[name]).await;
    findings.extend(tried.err().map(finding));
    Ok(findings)
}

fn claim(name: &LockName) -> Result<Claim> {
    let holder = HolderInfo::this_process().to_json();
    Ok(Claim::new(name.clone(), OwnerId::random()?, TTL, holder.as_str().into()))
}

async fn try_steps(backend: &dyn LockBackend, holder: &Claim, other: &Claim) -> Result<(), Failure> {
    let start = Instant::now();
    // Another check may be at its trial.
    while let Attempt::Busy(_) = backend.try_acquire(holder).await.map_err(|why| ("acquired", why))? {
        if start.elapsed() > TTL {
            return Err(("acquired", failed("the store has it as held by another")));
        }
        sleep(ACQUIRE_AGAIN_AFTER).await;
    }
    renew(backend, holder).await.map_err(|why| ("renewed", why))?;
    match backend.try_acquire(other).await {
        Ok(Attempt::Busy(_)) => {}
        Ok(Attempt::Granted(_)) => return Err(("kept", failed("another owner was granted it too"))),
        Err(why) => return Err(("refused to another", why)),
    }
    release(backend, holder).await.map_err(|why| ("released", why))
}
