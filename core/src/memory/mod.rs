//! The reference backend: locks of one process. To be read first.

mod admin;
mod store;

use crate::sync::{Mutex, MutexGuard};
use crate::{
    Attempt, Claim, Clock, Fault, LockAdmin, LockBackend, LossCause, Moment, Outcome, OwnerId, Promises,
    Reach, Release, Renewal, Result, Semantics, Sharing, SystemClock, TokenClass, WakeUp, locked,
};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use store::{POLL_INTERVAL, Store};

/// Locks in this process's memory, shared by the clones of one value. For tests, and for code that must choose its
/// store by configuration.
#[derive(Clone, Debug)]
pub struct MemoryBackend {
    store: Arc<Mutex<Store>>,
    clock: Arc<dyn Clock>,
}

impl MemoryBackend {
    /// An empty store on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// An empty store on this clock: virtual time, in tests.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { store: Arc::default(), clock }
    }

    /// The store and the time. The clock is read under the lock of the store: a time that was read earlier could give a token
    /// that is not larger than one of an entry that was forgotten meanwhile.
    fn lock(&self) -> (MutexGuard<'_, Store>, Moment) {
        let store = locked(&self.store);
        let now = self.clock.now();
        (store, now)
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl LockBackend for MemoryBackend {
    fn semantics(&self) -> Semantics {
        let promises = Promises::new(|fault| match fault {
            Fault::None
            | Fault::HolderPaused
            | Fault::ExecutorStarved
            | Fault::ClientClockJumps
            | Fault::ClientSuspended => Outcome::Holds,
            // The next grant may come before the holder's next renewal. Its token is larger.
            Fault::RecordDeleted => Outcome::FencedOnly,
            _ => Outcome::NotApplicable,
        });
        let mut semantics = Semantics::lease("memory", "process", promises);
        semantics.reach = Reach::Process;
        semantics.expiry_clock = crate::ExpiryClock::Host;
        semantics.wake_up = WakeUp::Poll { at_most: POLL_INTERVAL };
        semantics.token = TokenClass::Process;
        semantics.sharing = Sharing::WriterFirst;
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let (mut store, now) = self.lock();
        store.grant(claim, now)
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let (mut store, now) = self.lock();
        let renew = |claim: &Claim| {
            Ok(if store.renew(claim, now.plus(claim.ttl()), now) {
                Renewal::Renewed
            } else if store.is_held(claim.name(), now) {
                Renewal::Lost(LossCause::Taken)
            } else {
                Renewal::Lost(LossCause::Gone)
            })
        };
        claims.iter().map(renew).collect()
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        let (mut store, now) = self.lock();
        let was_held = store.release(claim, now.plus(linger), now);
        Ok(if was_held { Release::Released } else { Release::NotHeld })
    }

    /// Never: the client keeps its waiters in line, and they poll.
    async fn changed(&self, _claim: &Claim) {
        std::future::pending::<()>().await;
    }

    /// Never: only [`LockAdmin::force_release`] ends a lease early, and the next renewal finds that.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockName;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A clock that counts how often it is read, and how often while the store is not locked.
    #[derive(Debug, Default)]
    struct CountingClock {
        store: OnceLock<Arc<Mutex<Store>>>,
        reads: AtomicUsize,
        without_lock: AtomicUsize,
    }

    impl Clock for CountingClock {
        fn now(&self) -> Moment {
            let free = self.store.get().is_some_and(|store| store.try_lock().is_ok());
            self.without_lock.fetch_add(usize::from(free), Relaxed);
            Moment::since_origin(Duration::from_millis(self.reads.fetch_add(1, Relaxed) as u64))
        }

        fn sleep_until(&self, _: Moment) -> crate::clock::Sleep {
            unreachable!("the store never sleeps")
        }
    }

    /// Between a read of the clock and the lock, another client may be granted a token, release it, and have it forgotten.
    #[tokio::test]
    async fn clock_is_read_under_the_lock() {
        let clock = Arc::<CountingClock>::default();
        let store = MemoryBackend::with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        clock.store.set(Arc::clone(&store.store)).unwrap();
        let name = LockName::new("job").unwrap();
        let claim = Claim::new(name.clone(), OwnerId::from_u128(1), Duration::from_secs(10), "".into());
        store.try_acquire(&claim).await.unwrap();
        store.renew(std::slice::from_ref(&claim)).await.pop().unwrap().unwrap();
        assert!(store.inspect(&name).await.unwrap().len() == 1);
        assert_eq!(store.list("").await.unwrap().len(), 1);
        store.release(&claim, Duration::ZERO).await.unwrap();
        assert!(store.force_release(&name, None).await.unwrap().is_empty());
        assert_eq!((clock.reads.load(Relaxed), clock.without_lock.load(Relaxed)), (6, 0));
    }
}
