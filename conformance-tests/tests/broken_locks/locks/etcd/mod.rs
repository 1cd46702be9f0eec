//! A small lock over etcd, and what people get wrong in it.

mod gateway;
mod recipe;

use crate::calls::{Calls, lock_of};
use crate::subject::{Address, cannot};
use async_trait::async_trait;
use leasehold_conformance::{Stop, Store};
use leasehold_core::{
    Attempt, Claim, DistributedLock, Fairness, Outcome, Promises, Release, Renewal, Result, Semantics,
    TokenClass, WakeUp,
};
use leasehold_test_stores::stores;
use recipe::Recipe;
use std::sync::Arc;
use std::time::Duration;

/// The mistake of the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    Nothing,
    /// #222: a lease is believed in if it was extended, whoever has extended it.
    TrustsTheKeepAlive,
    /// #223: everybody watches all of the queue.
    AllWatchTheQueue,
    /// #224: every other client takes the revision of the store at the answer for its token, as `$ETCD_LOCK_REV` is.
    TokenOfTheAnswer,
}

/// A lock with this mistake, and with the core's guard and keeper.
pub(crate) fn lock(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(ByRecipe(Recipe::new(mistake, address)))
}

/// One member.
pub(crate) fn one() -> std::result::Result<Box<dyn Store>, Stop> {
    start("etcd")
}

/// Three members.
pub(crate) fn three() -> std::result::Result<Box<dyn Store>, Stop> {
    start("etcd-ensemble")
}

fn start(name: &str) -> std::result::Result<Box<dyn Store>, Stop> {
    let subject = stores::all().into_iter().find(|subject| subject.name() == name);
    let subject = subject.ok_or_else(|| cannot("it is no subject"))?;
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| runtime.block_on(subject.start())).map_err(cannot)
}

struct ByRecipe(Recipe);

#[async_trait]
impl Calls for ByRecipe {
    fn semantics(&self) -> Semantics {
        let mut semantics = Semantics::lease("etcd", "plain", Promises::new(|_| Outcome::MayBreak));
        semantics.fairness = Fairness::Fifo;
        semantics.token = TokenClass::Stored;
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
