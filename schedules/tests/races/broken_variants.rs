//! Broken variants of stores and holds, in the same races: each strategy of the explorer must find each defect.

use crate::explorer::race_fails;
use crate::holds::{Contention, contend};
use crate::losses::lose_and_join_subscribers;
use crate::manual_clock::ManualClock;
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
fn store_that_checks_and_then_grants_is_found_to_grant_twice() {
    race_fails(&["two hold", "token "], || async {
        contend(Arc::new(CheckThenGrant::default()), ManualClock::default(), Contention::Try).await;
    });
}

#[test]
fn hold_that_checks_and_then_subscribes_is_found_to_miss_its_loss() {
    race_fails(&["deadlock!"], || async {
        let hold = Arc::new(CheckThenSubscribe::new());
        let losing = Arc::clone(&hold);
        lose_and_join_subscribers(LockGuard::new(hold), || drop(tokio::spawn(async move { losing.lose() })))
            .await;
    });
}

/// Defect: check and grant are two critical sections.
#[derive(Debug, Default)]
struct CheckThenGrant {
    holder: Mutex<Option<OwnerId>>,
    tokens: AtomicU64,
}

#[async_trait]
impl LockBackend for CheckThenGrant {
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

/// Defect: a loss between the check of the status and the subscription wakes no subscriber.
#[derive(Debug)]
struct CheckThenSubscribe {
    name: LockName,
    loss: Mutex<Option<Loss>>,
    ended: Notify,
}

impl CheckThenSubscribe {
    fn new() -> Self {
        Self { name: LockName::new("job").unwrap(), loss: Mutex::default(), ended: Notify::new() }
    }

    fn lose(&self) {
        *self.loss.lock().unwrap() = Some(Loss::new(LossCause::Gone));
        self.ended.notify_waiters();
    }
}

impl Hold for CheckThenSubscribe {
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

    fn ended(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Option<Loss>> + Send>> {
        Box::pin(async move {
            loop {
                if let HoldStatus::Lost(loss) = self.status() {
                    return Some(loss);
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
