//! Stores without a network: one grants everything and answers renewals as it is told; one is the memory backend, some
//! way off.

use crate::time::Time;
use async_trait::async_trait;
use leasehold_schedules::memory::MemoryBackend;
use leasehold_schedules::{
    Attempt, Claim, FencingToken, Grant, LockAdmin, LockBackend, OwnerId, Release, Renewal, Result, Semantics,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::yield_now;

/// Grants everything, and answers renewals as it is told.
#[derive(Debug)]
pub(crate) struct Granting {
    answer: Renewal,
    tokens: AtomicU64,
    pub(crate) renewals: AtomicUsize,
    pub(crate) releases: AtomicUsize,
    /// A renewal has arrived.
    pub(crate) asked: Notify,
}

impl Granting {
    pub(crate) fn that_answers(answer: Renewal) -> Arc<Self> {
        Arc::new(Self {
            answer,
            tokens: AtomicU64::new(0),
            renewals: AtomicUsize::new(0),
            releases: AtomicUsize::new(0),
            asked: Notify::new(),
        })
    }
}

#[async_trait]
impl LockBackend for Granting {
    fn semantics(&self) -> Semantics {
        MemoryBackend::new().semantics()
    }

    async fn try_acquire(&self, _claim: &Claim) -> Result<Attempt> {
        let token = self.tokens.fetch_add(1, SeqCst) + 1;
        Ok(Attempt::Granted(Grant::new(FencingToken::new(token))))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.renewals.fetch_add(1, SeqCst);
        self.asked.notify_one();
        yield_now().await;
        claims.iter().map(|_| Ok(self.answer)).collect()
    }

    async fn release(&self, _claim: &Claim, _linger: Duration) -> Result<Release> {
        self.releases.fetch_add(1, SeqCst);
        Ok(Release::Released)
    }

    async fn changed(&self, _claim: &Claim) {
        std::future::pending::<()>().await;
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        None
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// The memory backend some way off: others go on while a request or a reply is under way.
#[derive(Debug)]
pub(crate) struct Distant(MemoryBackend);

impl Distant {
    pub(crate) fn memory() -> (Arc<Self>, Time) {
        let time = Time::default();
        (Arc::new(Self(MemoryBackend::with_clock(Arc::new(time.clone())))), time)
    }

    pub(crate) async fn is_left_clean(&self) {
        let left = self.0.list("").await.unwrap();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

#[async_trait]
impl LockBackend for Distant {
    fn semantics(&self) -> Semantics {
        self.0.semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        yield_now().await;
        let answer = self.0.try_acquire(claim).await;
        yield_now().await;
        answer
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.0.renew(claims).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        yield_now().await;
        let answer = self.0.release(claim, linger).await;
        yield_now().await;
        answer
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
        self.0.close().await
    }
}
