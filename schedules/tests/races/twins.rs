//! Twins that are known to be wrong, in the same races: each scheduler must find each of them.

use crate::explorer::finds;
use crate::holds::contend;
use crate::losses::everybody_hears;
use crate::time::Time;
use async_trait::async_trait;
use leasehold_schedules::memory::MemoryBackend;
use leasehold_schedules::{
    Attempt, Busy, Claim, FencingToken, Grant, Hold, HoldStatus, LockAdmin, LockBackend, LockGuard, LockName,
    Loss, LossCause, OwnerId, Release, Renewal, Result, Semantics,
};
use shuttle::sync::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;

#[test]
fn a_store_that_looks_and_then_takes_grants_twice() {
    finds(&["two hold", "token "], || async {
        contend(Arc::new(LooksThenTakes::default()), Time::default(), None).await;
    });
}

#[test]
fn a_hold_that_looks_and_then_subscribes_misses_its_loss() {
    finds(&["deadlock!"], || async {
        let hold = Arc::new(LooksThenSubscribes::new());
        let loser = Arc::clone(&hold);
        everybody_hears(LockGuard::new(hold), || drop(tokio::spawn(async move { loser.lose() }))).await;
    });
}

/// Looks whether the lock is free under one lock of a mutex, and takes it under another.
#[derive(Debug, Default)]
struct LooksThenTakes {
    holder: Mutex<Option<OwnerId>>,
    tokens: AtomicU64,
}

#[async_trait]
impl LockBackend for LooksThenTakes {
    fn semantics(&self) -> Semantics {
        MemoryBackend::new().semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let holder = *self.holder.lock().unwrap();
        if holder.is_some_and(|holder| holder != claim.owner()) {
            return Ok(Attempt::Busy(Busy::new()));
        }
        *self.holder.lock().unwrap() = Some(claim.owner());
        let token = self.tokens.fetch_add(1, SeqCst) + 1;
        Ok(Attempt::Granted(Grant::new(FencingToken::new(token))))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        claims.iter().map(|_| Ok(Renewal::Renewed)).collect()
    }

    async fn release(&self, claim: &Claim, _linger: Duration) -> Result<Release> {
        self.holder.lock().unwrap().take_if(|holder| *holder == claim.owner());
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

/// Looks whether it is lost, and subscribes to the word of it after that.
#[derive(Debug)]
struct LooksThenSubscribes {
    name: LockName,
    loss: Mutex<Option<Loss>>,
    ended: Notify,
}

impl LooksThenSubscribes {
    fn new() -> Self {
        Self { name: LockName::new("job").unwrap(), loss: Mutex::default(), ended: Notify::new() }
    }

    fn lose(&self) {
        *self.loss.lock().unwrap() = Some(Loss::new(LossCause::Gone));
        self.ended.notify_waiters();
    }
}

impl Hold for LooksThenSubscribes {
    fn name(&self) -> &LockName {
        &self.name
    }

    fn token(&self) -> FencingToken {
        FencingToken::new(1)
    }

    fn status(&self) -> HoldStatus {
        match self.loss.lock().unwrap().clone() {
            Some(loss) => HoldStatus::Lost(loss),
            None => HoldStatus::Held { remaining: Duration::MAX, at_risk: false },
        }
    }

    fn lost(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Loss> + Send>> {
        Box::pin(async move {
            loop {
                if let HoldStatus::Lost(loss) = self.status() {
                    return loss;
                }
                self.ended.notified().await;
            }
        })
    }

    fn extend(self: Arc<Self>, _ttl: Duration) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn abandon(self: Arc<Self>) {}
}
