//! The reference backend: locks of one process. The shortest correct implementation, to be read first.

mod admin;
mod store;

use crate::sync::{Mutex, MutexGuard};
use crate::{
    Attempt, Busy, Claim, Clock, Error, Fault, Grant, LockAdmin, LockBackend, LossCause, Moment, Outcome,
    OwnerId, Promises, Reach, Release, Renewal, Result, Semantics, SystemClock, TokenClass, WakeUp, locked,
};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use tokio::sync::Notify;

/// Locks in this process's memory, shared by the clones of one value. For tests, and for code that must choose its
/// store by configuration.
#[derive(Clone, Debug)]
pub struct MemoryBackend {
    store: Arc<Mutex<Store>>,
    freed: Arc<Notify>,
    clock: Arc<dyn Clock>,
}

impl MemoryBackend {
    /// How long a waiter sleeps if it is not told: until the end of the present lease, or this.
    const FALLBACK: Duration = Duration::from_millis(250);

    /// An empty store on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// An empty store on this clock: virtual time, in tests.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { store: Arc::default(), freed: Arc::default(), clock }
    }

    /// The store, and the time of this look. Read under its lock: who has read it before, and came later, would grant a
    /// token that is not larger than one that was forgotten because the clock had passed it.
    fn look(&self) -> (MutexGuard<'_, Store>, Moment) {
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
            Fault::None | Fault::HolderPaused | Fault::ExecutorStarved | Fault::ClientClockJumps => {
                Outcome::Holds
            }
            Fault::ClientSuspended => Outcome::Holds,
            // The next grant comes at once, the holder's next renewal later; tokens go on growing.
            Fault::RecordDeleted => Outcome::FencedOnly,
            _ => Outcome::NotApplicable,
        });
        let mut semantics = Semantics::lease("memory", "process", promises);
        semantics.reach = Reach::Process;
        semantics.expiry_clock = crate::ExpiryClock::Host;
        semantics.wake_up = WakeUp::Push { fallback: Self::FALLBACK };
        semantics.token = TokenClass::Process;
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let (mut store, now) = self.look();
        if let Some(entry) = store.held(claim.name(), now) {
            if entry.owner != Some(claim.owner()) {
                return Ok(Attempt::Busy(Busy::new().with_end(entry.ends_at.since(now))));
            }
            entry.ends_at = entry.ends_at.max(now.plus(claim.ttl()));
            return Ok(Attempt::Granted(Grant::new(entry.token)));
        }
        store.grant(claim, now).map(Attempt::Granted).ok_or_else(Error::tokens_used_up)
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let (mut store, now) = self.look();
        let renew = |claim: &Claim| match store.held(claim.name(), now) {
            Some(entry) if entry.owner == Some(claim.owner()) => {
                entry.ends_at = entry.ends_at.max(now.plus(claim.ttl()));
                Ok(Renewal::Renewed)
            }
            Some(_) => Ok(Renewal::Lost(LossCause::Taken)),
            None => Ok(Renewal::Lost(LossCause::Gone)),
        };
        claims.iter().map(renew).collect()
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        let (mut store, now) = self.look();
        match store.held(claim.name(), now) {
            Some(entry) if entry.owner == Some(claim.owner()) => {
                store.end(claim.name(), now.plus(linger), now);
                self.freed.notify_waiters();
                Ok(Release::Released)
            }
            _ => Ok(Release::NotHeld),
        }
    }

    async fn changed(&self, claim: &Claim) {
        // It hears of all that is freed from here on; what was freed since the attempt is free.
        let freed = self.freed.notified();
        let is_held = || {
            let (mut store, now) = self.look();
            store.held(claim.name(), now).is_some()
        };
        if is_held() {
            freed.await;
        }
    }

    /// Never: nothing ends a lease behind its holder's back but [`LockAdmin::force_release`], which its next renewal
    /// finds out.
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
    use futures_util::FutureExt;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Between the answer and the first look for news nobody listens.
    #[tokio::test]
    async fn what_was_released_since_the_attempt_is_not_waited_for() {
        let store = MemoryBackend::new();
        let claim = |owner| {
            let name = LockName::new("job").unwrap();
            Claim::new(name, OwnerId::from_u128(owner), Duration::from_secs(10), "".into())
        };
        let (holder, waiter) = (claim(1), claim(2));
        assert!(matches!(store.try_acquire(&holder).await, Ok(Attempt::Granted(_))));
        assert!(matches!(store.try_acquire(&waiter).await, Ok(Attempt::Busy(_))));
        assert!(store.changed(&waiter).now_or_never().is_none(), "it is held");
        store.release(&holder, Duration::ZERO).await.unwrap();
        assert!(store.changed(&waiter).now_or_never().is_some());
    }

    /// Says whether the store was locked each time that it was read.
    #[derive(Debug, Default)]
    struct Watched {
        store: OnceLock<Arc<Mutex<Store>>>,
        reads: AtomicUsize,
        without_lock: AtomicUsize,
    }

    impl Clock for Watched {
        fn now(&self) -> Moment {
            let free = self.store.get().is_some_and(|store| store.try_lock().is_ok());
            self.without_lock.fetch_add(usize::from(free), Relaxed);
            Moment::since_origin(Duration::from_millis(self.reads.fetch_add(1, Relaxed) as u64))
        }

        fn sleep_until(&self, _: Moment) -> crate::clock::Sleep {
            unreachable!("the store never sleeps")
        }
    }

    /// Between a look at the clock and the lock, another may be granted a token, give the name up, and have it forgotten.
    #[tokio::test]
    async fn the_clock_is_read_under_the_lock() {
        let clock = Arc::<Watched>::default();
        let store = MemoryBackend::with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        clock.store.set(Arc::clone(&store.store)).unwrap();
        let name = LockName::new("job").unwrap();
        let claim = Claim::new(name.clone(), OwnerId::from_u128(1), Duration::from_secs(10), "".into());
        store.try_acquire(&claim).await.unwrap();
        store.renew(std::slice::from_ref(&claim)).await.pop().unwrap().unwrap();
        assert!(store.changed(&claim).now_or_never().is_none());
        assert!(store.inspect(&name).await.unwrap().is_some());
        assert_eq!(store.list("").await.unwrap().len(), 1);
        store.release(&claim, Duration::ZERO).await.unwrap();
        assert!(store.force_release(&name, None).await.unwrap().is_none());
        assert_eq!((clock.reads.load(Relaxed), clock.without_lock.load(Relaxed)), (7, 0));
    }
}
