//! Why a store cannot do something, in the words of several stores.

use leasehold_conformance::Cannot;
use leasehold_conformance::server::disk_missing;
use std::time::Duration;

/// Limit for what an administrator waits for: clients that end, a replica that catches up.
const ADMINISTERED_WITHIN: Duration = Duration::from_secs(20);

/// The store does not offer this hook: the words of the suite for a hook that is not implemented.
pub(super) fn no_hook(hook: &str) -> Cannot {
    Cannot::new(format!("the subject has no hook `{hook}`"))
}

/// There is no record of a holder that could be deleted.
pub(super) fn not_held() -> Cannot {
    Cannot::absent("nobody holds the lock")
}

/// Fails if no server can be given a disk that loses its power.
pub(super) fn ensure_disk() -> Result<(), Cannot> {
    let why = |why| Err(Cannot::new(format!("no disk that loses its power can be made here: {why}")));
    disk_missing().map_or(Ok(()), why)
}

/// Fails with `otherwise` if an administrator's work takes too long.
pub(super) async fn in_time(
    otherwise: &str,
    work: impl Future<Output = Result<(), Cannot>>,
) -> Result<(), Cannot> {
    let late = |_| Cannot::failed(format!("{otherwise} after {ADMINISTERED_WITHIN:?}"));
    tokio::time::timeout(ADMINISTERED_WITHIN, work).await.map_err(late)?
}
