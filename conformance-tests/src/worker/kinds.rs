//! The requests of a worker that are about a kind of lock built on exclusive ones.

use crate::expect::Client;
use crate::history::RecordedPermits;
use crate::stop::{Stop, Verdict};
use leasehold_core::{AcquireOptions, DistributedLockExt, Lease, LockName};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Takes permits, so many times, and each time sees in the directory how many others hold one.
///
/// A holder has a file in a folder of the directory for as long as it holds. It looks after it has made its own, so of any set of holders
/// that overlap the last one sees all.
pub(crate) async fn occupy(
    permits: &RecordedPermits,
    times: u64,
    directory: &Path,
    options: &AcquireOptions,
) -> Verdict {
    let (directory, limit) = (directory.join("holders"), permits.limit);
    fs::create_dir_all(&directory)?;
    for _ in 0..times {
        let guard = permits.acquire(options).await?;
        let mine = directory.join(format!("{:016x}", fastrand::u64(..)));
        fs::write(&mine, "")?;
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..2000))).await;
        let holders = fs::read_dir(&directory)?.count();
        fs::remove_file(&mine)?;
        if holders > limit as usize {
            return Err(Stop::Failed(format!("{holders} hold a permit, of {limit}")));
        }
        guard.observe()?;
        guard.release().await?;
    }
    Ok(())
}

/// Leads for ever; writes the term into a file each few milliseconds while it does.
pub(super) async fn lead(client: &Client, ttl: Duration, file: &Path, name: &LockName) -> Verdict {
    let election = client.elect(name)?.with_options(AcquireOptions::new().with_ttl(ttl));
    let work = |leader: Lease| async move {
        let term = leader.token().map_err(Stop::from)?;
        loop {
            fs::write(file, format!("{term} {:016x}", fastrand::u64(..)))?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    election.lead(work).await?
}
