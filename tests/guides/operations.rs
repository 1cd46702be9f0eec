use leasehold::{DistributedLock, DistributedLockExt, Result};

/// Works under the lock until `stop` is ready, which in production is a signal: `tokio::signal::unix::signal`.
pub(crate) async fn serve(locks: &dyn DistributedLock, stop: impl Future<Output = ()>) -> Result<()> {
    let served = work_under_lock(locks, stop).await;
    locks.close().await?; // also after an error: releases of dropped guards are still under way
    served
}

async fn work_under_lock(locks: &dyn DistributedLock, stop: impl Future<Output = ()>) -> Result<()> {
    let guard = locks.acquire("worker").await?;
    let until_stop = async {
        tokio::select! {
            () = work() => {}
            () = stop => {} // `work` is dropped at its present await
        }
    };
    guard.protect(until_stop).await?; // an error if the lock was lost
    guard.release().await
}

async fn work() {
    std::future::pending::<()>().await;
}
