use async_trait::async_trait;
use leasehold::admin::LockAdmin;
use leasehold::backend::{
    Attempt, Claim, KnownServers, LockBackend, MemoryBackend, OwnerId, Release, Renewal,
};
use leasehold::client::{LockClient, RuntimeClock};
use leasehold::semantics::Semantics;
use leasehold::{DistributedLock, DistributedLockExt, Error, ErrorKind, LossCause, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The code under test. False if another process is at it.
async fn nightly(locks: &dyn DistributedLock) -> Result<bool> {
    let Some(guard) = locks.try_acquire("nightly").await? else { return Ok(false) };
    guard.protect(tokio::time::sleep(Duration::from_secs(3600))).await?; // the work
    guard.release().await?;
    Ok(true)
}

#[tokio::test]
async fn nightly_while_another_process_holds_the_lock_does_nothing() {
    let locks = leasehold::connect("memory:").await.unwrap();
    let _other = locks.acquire("nightly").await.unwrap();
    assert!(!nightly(&*locks).await.unwrap());
}

/// The work takes an hour, so the lease of 30 s is renewed 360 times.
#[tokio::test(start_paused = true)]
async fn nightly_holds_the_lock_to_the_end_of_its_work() {
    assert!(nightly(&LockClient::in_memory()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn nightly_whose_lock_is_taken_away_stops() {
    let locks = LockClient::in_memory();
    let operator = locks.clone();
    let take_away = async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let name = "nightly".try_into().unwrap();
        operator.admin().unwrap().force_release(&name, None).await.unwrap();
    };
    let (result, ()) = tokio::join!(nightly(&locks), take_away);
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.loss().map(|loss| loss.cause()), Some(LossCause::Gone));
}

/// A store in memory that can be switched off.
#[derive(Debug)]
struct Switched {
    store: MemoryBackend,
    is_down: AtomicBool,
}

impl Switched {
    fn check(&self) -> Result<()> {
        match self.is_down.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unavailable, "the store is down")),
            false => Ok(()),
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl LockBackend for Switched {
    fn semantics(&self) -> Semantics {
        self.store.semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.check()?;
        self.store.try_acquire(claim).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        match self.check() {
            Ok(()) => self.store.renew(claims).await,
            Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.check()?;
        self.store.release(claim, linger).await
    }

    fn renewal_group(&self, claim: &Claim) -> u64 {
        self.store.renewal_group(claim)
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

#[tokio::test(start_paused = true)]
async fn nightly_survives_a_short_outage_and_stops_in_a_long_one() {
    let clock = Arc::new(RuntimeClock::new());
    let store = MemoryBackend::with_clock(clock.clone());
    let store = Arc::new(Switched { store, is_down: AtomicBool::new(false) });
    let locks = LockClient::builder(store.clone()).with_clock(clock).build();

    for (outage, result) in [(17, Ok(true)), (30, Err(LossCause::Unreachable))] {
        let outage = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            store.is_down.store(true, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(outage)).await;
            store.is_down.store(false, Ordering::Relaxed);
        };
        let (done, ()) = tokio::join!(nightly(&locks), outage);
        assert_eq!(done.map_err(|error| error.loss().unwrap().cause()), result);
    }

    store.is_down.store(true, Ordering::Relaxed);
    assert_eq!(nightly(&locks).await.unwrap_err().kind(), ErrorKind::Unavailable);
}
