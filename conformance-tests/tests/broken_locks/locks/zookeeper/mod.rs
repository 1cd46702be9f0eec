//! A small lock over ZooKeeper, and what people get wrong in it.

mod recipe;
mod server;
mod session;

pub(crate) use server::{end_idle, start};

use crate::calls::{Calls, lock_of};
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, CrashBound, DistributedLock, Fairness, HoldKind, Outcome, Promises, Release, Renewal,
    Result, Semantics, Sharing, WakeUp,
};
use recipe::Recipe;
use std::sync::Arc;
use std::time::Duration;

/// The mistake of the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    Nothing,
    /// #31: the lock is one ephemeral node, and everybody watches it.
    OneNodeThatAllWatch,
    /// #32: waiters stand in a queue, and everybody watches all of it.
    AllWatchTheQueue,
    /// #33: the queue is sorted by the whole name of a place, which begins with something random.
    SortedByName,
    /// #35: nothing in the name of a place says whose it is, so a place whose reply was lost is not found again.
    NoOwnerInTheName,
    /// #36: places are persistent nodes, and outlive their waiters.
    PersistentNodes,
    /// #37: only the server's word *expired* is a loss, and it comes when the connection is back.
    WaitsForExpired,
    /// #38: whose a place is stands in its data, and its name is but a number, which begins anew when the queue is
    /// made anew.
    OwnerInTheData,
    /// #39: whoever is woken holds the lock, whatever has become of its own place meanwhile.
    TrustsTheWatch,
    /// #69: a writer looks for writers in front of it, and not for readers.
    WriterIgnoresReaders,
}

/// A lock with this mistake, and with the core's guard and keeper.
pub(crate) fn lock(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(ByRecipe(Recipe::new(mistake, address)))
}

struct ByRecipe(Recipe);

#[async_trait]
impl Calls for ByRecipe {
    fn semantics(&self) -> Semantics {
        let mut semantics = Semantics::lease("zookeeper", "plain", Promises::new(|_| Outcome::MayBreak));
        semantics.hold = HoldKind::Session;
        semantics.crash_bound = CrashBound::Session;
        semantics.session_timeout = Some(session::SESSION);
        semantics.fairness = Fairness::Fifo;
        semantics.sharing = Sharing::Fifo;
        semantics.wake_up = WakeUp::Push { fallback: Duration::from_secs(2) };
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.0.try_acquire(claim).await
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        self.0.renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        self.0.release(claim).await
    }

    async fn changed(&self, claim: &Claim) {
        self.0.changed(claim).await;
    }
}
