//! Mistakes in the guard: a sound lock, with a guard around its guard that gets one thing wrong.

use crate::calls::ByCalls;
use crate::plain::{SOUND, lock};
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    AcquireOptions, Clock, DistributedLock, DistributedLockExt, FencingToken, Hold, HoldStatus, LockAdmin,
    LockClient, LockGuard, LockName, Loss, Moment, Result, Semantics, Sleep, Wait,
};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The mistake of the guard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    Nothing,
    /// #11: a guard that goes down with a panic "must not touch anything": its renewals go on.
    RenewedAfterPanic,
    /// #13: a task sets a flag that says whether the lock is held.
    FlagSetByATask,
    /// #55: releasing twice frees whoever holds the lock by then.
    ReleasedTwice,
    /// #57: when a try has failed, the next one gets the whole wait again.
    DeadlineForEachTry,
    /// #58: dropping waits for the release.
    DropBlocks,
    /// #220: any error but "busy" ends the wait.
    RefusalEndsTheWait,
    /// #221: a wait without an end has one.
    EndlessWaitEnds,
    /// #99: the least time is waited for by a release, and by no drop.
    LeastTimeOfReleasesOnly,
}

/// The end of [`Mistake::EndlessWaitEnds`].
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How often [`Mistake::DeadlineForEachTry`] tries again.
const TRIES: u32 = 3;

/// A sound lock under guards with this mistake.
pub(crate) fn wrapped(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    Arc::new(Wrapped {
        inner: lock(SOUND, address),
        spare: lock(SOUND, address),
        address: address.clone(),
        mistake,
    })
}

#[derive(Clone)]
struct Wrapped {
    inner: Arc<dyn DistributedLock>,
    spare: Arc<dyn DistributedLock>,
    address: Address,
    mistake: Mistake,
}

impl Wrapped {
    /// Single attempts, for as long as the lock is held by others.
    async fn ask_until_refused(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        let end = match options.wait() {
            Wait::UpTo(time) => Some(Instant::now() + time),
            Wait::No => Some(Instant::now()),
            _ => None,
        };
        let once = options.clone().with_wait(Wait::No);
        loop {
            match self.inner.acquire_with(name, &once).await {
                Err(error) if error.is_contended() && end.is_none_or(|end| Instant::now() < end) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                outcome => return outcome,
            }
        }
    }
}

#[async_trait]
impl DistributedLock for Wrapped {
    fn semantics(&self) -> &Semantics {
        self.inner.semantics()
    }

    fn defaults(&self) -> &AcquireOptions {
        self.inner.defaults()
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        let mut options = options.clone();
        let at_least = options.hold_at_least();
        if self.mistake == Mistake::LeastTimeOfReleasesOnly {
            options = options.with_hold_at_least(Duration::ZERO);
        }
        if self.mistake == Mistake::EndlessWaitEnds && options.wait() == Wait::Forever {
            options = options.with_wait(LONGEST_WAIT);
        }
        let mut outcome = match self.mistake {
            Mistake::RefusalEndsTheWait => self.ask_until_refused(name, &options).await,
            _ => self.inner.acquire_with(name, &options).await,
        };
        for _ in 0..TRIES {
            if self.mistake == Mistake::DeadlineForEachTry && outcome.is_err() {
                outcome = self.inner.acquire_with(name, &options).await;
            }
        }
        let guard = outcome?;
        let held = Arc::new(AtomicBool::new(true));
        let (lease, flag) = (guard.lease(), Arc::clone(&held));
        if self.mistake == Mistake::FlagSetByATask {
            tokio::spawn(async move {
                lease.lost().await;
                flag.store(false, Ordering::SeqCst);
            });
        }
        Ok(LockGuard::new(Arc::new(Wrapping {
            name: name.clone(),
            token: guard.token()?,
            guard: Mutex::new(Some(guard)),
            held,
            address: self.address.clone(),
            mistake: self.mistake,
            release_at: Instant::now() + at_least,
        })))
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.spare.admin()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

struct Wrapping {
    name: LockName,
    token: FencingToken,
    guard: Mutex<Option<LockGuard>>,
    held: Arc<AtomicBool>,
    address: Address,
    mistake: Mistake,
    /// The end of the least time.
    release_at: Instant,
}

impl Wrapping {
    fn take(&self) -> Option<LockGuard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Hold for Wrapping {
    fn name(&self) -> &LockName {
        &self.name
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn status(&self) -> HoldStatus {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(guard) = &*guard else {
            return HoldStatus::Released;
        };
        if self.mistake == Mistake::FlagSetByATask && self.held.load(Ordering::SeqCst) {
            return HoldStatus::Held { remaining: Duration::from_secs(1), at_risk: false };
        }
        match guard.loss() {
            Some(loss) => HoldStatus::Lost(loss),
            None => HoldStatus::Held { remaining: guard.remaining(), at_risk: false },
        }
    }

    fn ended(self: Arc<Self>) -> BoxFuture<Option<Loss>> {
        let lease =
            self.guard.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|guard| guard.lease());
        Box::pin(async move {
            match lease {
                Some(lease) => lease.ended().await,
                None => std::future::pending().await,
            }
        })
    }

    fn extend(self: Arc<Self>, _ttl: Duration) -> BoxFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(self: Arc<Self>) -> BoxFuture<Result<()>> {
        let guard = self.take();
        Box::pin(async move {
            let Some(guard) = guard else { return Ok(()) };
            if self.mistake == Mistake::LeastTimeOfReleasesOnly {
                tokio::time::sleep_until(self.release_at.into()).await;
            }
            guard.release().await?;
            if self.mistake == Mistake::ReleasedTwice {
                let redis = crate::plain::Redis::at(&self.address);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    redis.command::<u64>(&["DEL", self.name.as_str()]).await
                });
            }
            Ok(())
        })
    }

    fn abandon(self: Arc<Self>) {
        let Some(guard) = self.take() else { return };
        match self.mistake {
            Mistake::RenewedAfterPanic if std::thread::panicking() => std::mem::forget(guard),
            // A second panic while one unwinds would take the whole program with it.
            Mistake::DropBlocks if !std::thread::panicking() => {
                // A runtime does not let its own threads wait; another thread may.
                let waiting = std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                    runtime.unwrap().block_on(guard.release())
                });
                let _ = waiting.join();
            }
            _ => drop(guard),
        }
    }
}

impl fmt::Debug for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wrapped")
    }
}

impl fmt::Debug for Wrapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wrapping")
    }
}

/// #16: validity by the wall clock.
#[derive(Debug)]
struct ProcessClock;

impl Clock for ProcessClock {
    fn now(&self) -> Moment {
        Moment::since_origin(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        let left = moment.since(self.now()).min(Duration::from_millis(100));
        Box::pin(tokio::time::sleep(left))
    }
}

pub(crate) fn on_the_wall_clock(address: &Address) -> Arc<dyn DistributedLock> {
    let backend = Arc::new(ByCalls(crate::plain::Plain::new(SOUND, address)));
    Arc::new(LockClient::builder(backend).with_clock(Arc::new(ProcessClock)).build())
}

/// #59: `Debug` derived over a password.
#[derive(Clone, Debug)]
struct Chatty {
    inner: Arc<dyn DistributedLock>,
    #[allow(dead_code, reason = "it is there to be printed")]
    address: Option<Address>,
}

pub(crate) fn chatty(address: &Address) -> Arc<dyn DistributedLock> {
    Arc::new(Chatty { inner: lock(SOUND, address), address: Some(address.clone()) })
}

pub(crate) fn discreet(address: &Address) -> Arc<dyn DistributedLock> {
    Arc::new(Chatty { inner: lock(SOUND, address), address: None })
}

#[async_trait]
impl DistributedLock for Chatty {
    fn semantics(&self) -> &Semantics {
        self.inner.semantics()
    }

    fn defaults(&self) -> &AcquireOptions {
        self.inner.defaults()
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        self.inner.acquire_with(name, options).await
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.inner.admin()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
