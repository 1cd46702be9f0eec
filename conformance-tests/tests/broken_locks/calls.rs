//! The common part of most locks here: they are told of nothing, and have no queue, nothing for administrators, and nothing
//! to close.

use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, DistributedLock, LockAdmin, LockBackend, LockClient, OwnerId, Release, Renewal, Result,
    Semantics, renew_each,
};
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

/// The calls to the store in which a lock can be broken.
#[async_trait]
pub(crate) trait Calls: Send + Sync + 'static {
    fn semantics(&self) -> Semantics;
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt>;
    async fn renew(&self, claim: &Claim) -> Result<Renewal>;
    async fn release(&self, claim: &Claim) -> Result<Release>;

    /// All of these, answered in their order.
    async fn renew_all(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renew_each(claims, |claim| self.renew(claim)).await
    }

    /// A release that is to keep others out for a while; most locks here cannot.
    async fn linger(&self, claim: &Claim, _time: Duration) -> Result<Release> {
        self.release(claim).await
    }

    async fn changed(&self, _claim: &Claim) {
        pending::<()>().await;
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        None
    }
}

/// A lock of these calls, with the core's guard and keeper.
pub(crate) fn lock_of(calls: impl Calls) -> Arc<dyn DistributedLock> {
    Arc::new(LockClient::new(Arc::new(ByCalls(calls))))
}

/// These calls as a backend.
pub(crate) struct ByCalls<C>(pub(crate) C);

#[async_trait]
impl<C: Calls> LockBackend for ByCalls<C> {
    fn semantics(&self) -> Semantics {
        self.0.semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(claim).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.0.renew_all(claims).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        match linger.is_zero() {
            true => self.0.release(claim).await,
            false => self.0.linger(claim, linger).await,
        }
    }

    async fn changed(&self, claim: &Claim) {
        self.0.changed(claim).await;
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        self.0.suspects().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.0.admin()
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl<C> fmt::Debug for ByCalls<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<C>())
    }
}
