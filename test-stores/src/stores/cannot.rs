//! Why a store cannot do something, in the words of several stores.

use leasehold_conformance::Stop;
use leasehold_conformance::server::disk_missing;
use std::time::Duration;

/// Limit for what an administrator waits for: clients that end, a replica that catches up.
const ADMINISTERED_WITHIN: Duration = Duration::from_secs(20);

/// The store does not offer this hook: the words of the suite for a hook that is not implemented.
pub(super) fn no_hook(hook: &str) -> Stop {
    Stop::skipped(format!("the subject has no hook `{hook}`"))
}

/// There is no record of a holder that could be deleted.
pub(super) fn not_held() -> Stop {
    Stop::Absent("nobody holds the lock".to_owned())
}

/// Fails if no server can be given a disk that loses its power.
pub(super) fn ensure_disk() -> Result<(), Stop> {
    let why = |why| Err(Stop::skipped(format!("no disk that loses its power can be made here: {why}")));
    disk_missing().map_or(Ok(()), why)
}

/// Fails with `otherwise` if an administrator's work takes too long.
pub(super) async fn in_time(
    otherwise: &str,
    work: impl Future<Output = Result<(), Stop>>,
) -> Result<(), Stop> {
    let late = |_| Stop::failed(format!("{otherwise} after {ADMINISTERED_WITHIN:?}"));
    tokio::time::timeout(ADMINISTERED_WITHIN, work).await.map_err(late)?
}
