//! Two stores without a network: one that grants every claim, and the memory backend with delays.

use crate::manual_clock::ManualClock;
use async_trait::async_trait;
use leasehold_schedules::memory::MemoryBackend;
use leasehold_schedules::{
    Attempt, Claim, Error, ErrorKind, FencingToken, Grant, LockAdmin, LockBackend, OwnerId, Release, Renewal,
    Result, Semantics,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::yield_now;

/// Grants every claim, and gives every renewal the same answer.
#[derive(Debug)]
pub(crate) struct AlwaysGranting {
    renewal_answer: Renewal,
    tokens: AtomicU64,
    pub(crate) renewals: AtomicUsize,
    pub(crate) releases: AtomicUsize,
    /// Notified when a renewal arrives.
    pub(crate) renewal_arrived: Notify,
}

impl AlwaysGranting {
    pub(crate) fn new(renewal_answer: Renewal) -> Arc<Self> {
        Arc::new(Self {
            renewal_answer,
            tokens: AtomicU64::new(0),
            renewals: AtomicUsize::new(0),
            releases: AtomicUsize::new(0),
            renewal_arrived: Notify::new(),
        })
    }
}

#[async_trait]
impl LockBackend for AlwaysGranting {
    fn semantics(&self) -> Semantics {
        MemoryBackend::new().semantics()
    }

    async fn try_acquire(&self, _claim: &Claim) -> Result<Attempt> {
        let token = self.tokens.fetch_add(1, SeqCst) + 1;
        Ok(Attempt::Granted(Grant::new(FencingToken::new(token))))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.renewals.fetch_add(1, SeqCst);
        self.renewal_arrived.notify_one();
        yield_now().await;
        claims.iter().map(|_| Ok(self.renewal_answer)).collect()
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

/// The memory backend behind a delay: other tasks run between a request, its effect and its reply.
#[derive(Debug)]
pub(crate) struct DelayedMemory {
    memory: MemoryBackend,
    attempts: AtomicUsize,
    /// The number of the attempt that is refused.
    refused_attempt: Option<usize>,
    is_closed: AtomicBool,
}

impl DelayedMemory {
    pub(crate) fn new() -> (Arc<Self>, ManualClock) {
        Self::with_refused_attempt(None)
    }

    pub(crate) fn with_refused_attempt(refused_attempt: Option<usize>) -> (Arc<Self>, ManualClock) {
        let clock = ManualClock::default();
        let memory = MemoryBackend::with_clock(Arc::new(clock.clone()));
        let (attempts, is_closed) = (AtomicUsize::new(0), AtomicBool::new(false));
        (Arc::new(Self { memory, attempts, refused_attempt, is_closed }), clock)
    }

    /// As a store whose connections are closed: it answers no call that begins afterwards.
    fn check_open(&self) -> Result<()> {
        match self.is_closed.load(SeqCst) {
            true => Err(Error::new(ErrorKind::Closed, "the store is closed")),
            false => Ok(()),
        }
    }

    pub(crate) async fn tokens_held(&self) -> Vec<FencingToken> {
        self.memory.list("").await.unwrap().iter().filter_map(|hold| hold.token).collect()
    }

    pub(crate) async fn assert_no_lock_is_held(&self) {
        let held = self.memory.list("").await.unwrap();
        assert!(held.is_empty(), "left behind: {held:?}");
    }
}

#[async_trait]
impl LockBackend for DelayedMemory {
    fn semantics(&self) -> Semantics {
        self.memory.semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.check_open()?;
        yield_now().await;
        let attempt = self.attempts.fetch_add(1, SeqCst) + 1;
        let answer = match self.refused_attempt == Some(attempt) {
            true => Err(Error::new(ErrorKind::Unsupported, "injected fault")),
            false => self.memory.try_acquire(claim).await,
        };
        yield_now().await;
        answer
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.memory.renew(claims).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.check_open()?;
        yield_now().await;
        let answer = self.memory.release(claim, linger).await;
        yield_now().await;
        answer
    }

    async fn changed(&self, claim: &Claim) {
        self.memory.changed(claim).await;
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        self.memory.suspects().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.memory.admin()
    }

    async fn close(&self) -> Result<()> {
        yield_now().await;
        self.is_closed.store(true, SeqCst);
        Ok(())
    }
}
