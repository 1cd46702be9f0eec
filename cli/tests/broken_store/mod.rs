//! A SQLite file whose locks have one classic mistake each.

use async_trait::async_trait;
use leasehold::admin::LockAdmin;
use leasehold::backend::{Attempt, Claim, Grant, KnownServers, LockBackend, OwnerId, Release, Renewal};
use leasehold::semantics::Semantics;
use leasehold::{FencingToken, Result};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mistake {
    /// A request while another owner holds the lock is granted too.
    GrantsTheSecond,
    RepeatsTheToken,
    CountsBackwards,
}

#[derive(Debug)]
pub(crate) struct BrokenStore {
    pub(crate) store: Arc<dyn LockBackend>,
    pub(crate) mistake: Mistake,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockBackend for BrokenStore {
    fn semantics(&self) -> Semantics {
        self.store.semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        Ok(match (self.store.try_acquire(claim).await?, self.mistake) {
            (Attempt::Busy(_), Mistake::GrantsTheSecond) => {
                Attempt::Granted(Grant::new(FencingToken::new(u64::MAX >> 1)))
            }
            (Attempt::Granted(_), Mistake::RepeatsTheToken) => {
                Attempt::Granted(Grant::new(FencingToken::new(7)))
            }
            (Attempt::Granted(grant), Mistake::CountsBackwards) => {
                Attempt::Granted(Grant::new(FencingToken::new(u64::MAX / 2 - grant.token.get())))
            }
            (attempt, _) => attempt,
        })
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.store.renew(claims).await
    }

    fn renewal_group(&self, claim: &Claim) -> u64 {
        self.store.renewal_group(claim)
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.store.release(claim, linger).await
    }

    async fn changed(&self, claim: &Claim) {
        self.store.changed(claim).await;
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        self.store.suspects().await
    }

    fn servers(&self) -> Option<&KnownServers> {
        self.store.servers()
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.store.admin()
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}
