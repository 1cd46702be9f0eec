//! A shared lock that tells its waiters of releases and its holders of losses: it looks for them often.

use crate::calls::{Calls, lock_of};
use crate::shared::Shared;
use crate::shared_mistakes::Mistake as Sharing;
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, DistributedLock, LockAdmin, LossSignal, OwnerId, Release, Renewal, Result, Semantics,
    WakeUp,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mistake {
    Nothing,
    /// #230: a waiter behind readers is told of nothing.
    ReleasesOfReaders,
    /// #231: a reader is told of nothing.
    LossesOfReaders,
    /// #235: a holder that is renewed is told of nothing any more.
    LossesAfterARenewal,
}

const LOOKS_EVERY: Duration = Duration::from_millis(10);

pub(crate) fn telling(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    let shared = Shared::new(Sharing::Nothing, address);
    lock_of(TellingLock { shared, mistake, watched: Mutex::default() })
}

struct TellingLock {
    shared: Shared,
    mistake: Mistake,
    /// The holds whose losses are told.
    watched: Mutex<Vec<Claim>>,
}

impl TellingLock {
    fn watched(&self) -> Vec<Claim> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn forget(&self, owner: OwnerId) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).retain(|claim| claim.owner() != owner);
    }
}

#[async_trait]
impl Calls for TellingLock {
    fn semantics(&self) -> Semantics {
        let mut semantics = self.shared.semantics();
        semantics.wake_up = WakeUp::Push { fallback: Duration::from_secs(2) };
        semantics.loss_signal = LossSignal::Push;
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let attempt = self.shared.try_acquire(claim).await?;
        let is_told = self.mistake != Mistake::LossesOfReaders || !claim.mode().is_shared();
        if matches!(attempt, Attempt::Granted(_)) && is_told {
            self.watched.lock().unwrap_or_else(PoisonError::into_inner).push(claim.clone());
        }
        Ok(attempt)
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        if self.mistake == Mistake::LossesAfterARenewal {
            self.forget(claim.owner());
        }
        self.shared.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.forget(claim.owner());
        self.shared.release(claim).await
    }

    async fn changed(&self, claim: &Claim) {
        let holds = self.shared.admin().unwrap().inspect(claim.name()).await.unwrap_or_default();
        let is_untold = holds.iter().any(|hold| hold.mode.is_shared());
        if self.mistake == Mistake::ReleasesOfReaders && is_untold {
            return std::future::pending().await;
        }
        while self.shared.is_held(claim.name(), None).await.unwrap_or(true) {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        loop {
            for claim in self.watched() {
                if !self.shared.is_held(claim.name(), Some(claim.owner())).await.unwrap_or(true) {
                    self.forget(claim.owner());
                    return vec![claim.owner()];
                }
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.shared.admin()
    }
}
