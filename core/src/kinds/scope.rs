//! Re-entry: the calls of one scope share one hold of each name.
//!
//! The first call on a name acquires. While it is under way, or its lock is held, every other call of the scope shares it
//! without asking the store.
//!
//! * While the lock is acquired, a [`Shared`] future is polled by all calls that wait for it. It ends when the wait of the call that
//!   began it is over, or when no call is left. A call that has time left then begins a new one, at the end of the store's queue.
//! * Once it is acquired, the guards are counted, and the last one releases. A call that waited, and was not polled since, does not
//!   count: if the lock was released meanwhile, it acquires again.

use super::deadline::Deadline;
use crate::guard::{Hold, HoldStatus};
use crate::sync::Mutex;
use crate::{
    AcquireOptions, DistributedLock, Error, ErrorKind, FencingToken, Lease, LockAdmin, LockGuard, LockMode,
    LockName, Loss, Result, Semantics, Wait, locked,
};
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// An identity for re-entrant locks: a lock that is held in a scope can be acquired in it again.
///
/// It is a [`DistributedLock`], so a function that takes one can be called with a scope by a caller that holds the lock
/// already. The first call on a name acquires it; later calls get a guard of the same hold, with the same token and without a
/// word to the store. The lock is released with the last guard, in whatever order the guards end.
///
/// The identity is this value and its clones, and nothing else: not the thread, which several tasks use, and not the task, which
/// `join!` shares between futures and `spawn` leaves. Two scopes of one client exclude each other, and a scope excludes its client. A
/// scope of a scope shares the holds of the outer one.
///
/// ```
/// # use leasehold_core::{DistributedLock, DistributedLockExt, LockClient, Result};
/// async fn pay(locks: &dyn DistributedLock) -> Result<()> {
///     let _order = locks.acquire("order/42").await?; // waits for nothing if the caller holds it in this scope
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let locks = LockClient::in_memory();
/// let scope = locks.scope();
/// let order = scope.acquire("order/42").await?;
/// pay(&scope).await?;
/// assert!(order.is_held(), "the inner guard ended, the hold did not");
/// order.release().await
/// # }
/// ```
///
/// # Rules
///
/// * **Mode.** A shared call within an exclusive hold gets that hold. An exclusive call within a shared hold is
///   [`Invalid`](ErrorKind::Invalid): two that upgrade would wait for each other.
/// * **Options.** The hold has the options of the call that acquired it. A later call brings its mode and its wait only: to
///   hold for longer, [extend](LockGuard::extend).
/// * **Loss.** A hold is lost for all its guards. As long as one of them lives, acquiring the name again is
///   [`Lost`](ErrorKind::Lost).
/// * **Wait.** Each call waits for its own time only. If the acquisition that it shares is out of time, the call begins one of its own.
///   A call that makes one attempt is [`Busy`](ErrorKind::Busy) beside a call of the scope that is acquiring the lock with a wait,
///   even if the lock is free.
/// * **Release.** To release a guard that is not the last sends nothing, and succeeds unless the hold is lost.
/// * **Cancel.** An acquisition that several calls share goes on until the last of them is dropped, or until the wait of the call
///   that began it is over.
///
/// Not promised: exclusion between the holders of one scope; two [candidates](crate::Election) from one scope both lead.
/// Semaphores are not re-entrant, and are refused. [`close`] closes the client.
///
/// [`close`]: DistributedLock::close
#[derive(Clone)]
pub struct Scope {
    locks: Arc<dyn DistributedLock>,
    /// The holds of this scope that are acquired or being acquired, and some that have ended.
    holds: Arc<Mutex<HashMap<LockName, Weak<ReentrantHold>>>>,
}

/// One hold of a scope, from the beginning of its acquisition to the end of its last guard.
struct ReentrantHold {
    mode: LockMode,
    /// The wait of the call that began the acquisition.
    wait: Wait,
    acquisition: Shared<BoxFuture<'static, Result<Lease>>>,
    guards: Arc<Mutex<Guards>>,
}

#[derive(Default)]
struct Guards {
    count: usize,
    /// The guard of the client. `None` before the grant, and after the end of the last guard of the scope.
    inner: Option<LockGuard>,
}

impl Scope {
    pub(crate) fn new(locks: Arc<dyn DistributedLock>) -> Self {
        Self { locks, holds: Arc::default() }
    }

    /// The hold of this name in this scope, or a new one, and whether it is new.
    fn find_or_begin(
        &self,
        name: &LockName,
        options: &AcquireOptions,
        wait: Wait,
    ) -> Result<(Arc<ReentrantHold>, bool)> {
        let mut holds = locked(&self.holds);
        let Some(hold) = holds.get(name).and_then(Weak::upgrade).filter(|hold| !hold.is_over()) else {
            let hold = Arc::new(ReentrantHold::new(&self.locks, name, options.clone().with_wait(wait)));
            holds.retain(|_, hold| hold.strong_count() > 0);
            holds.insert(name.clone(), Arc::downgrade(&hold));
            return Ok((hold, true));
        };
        // The map is unlocked first: an observer is told of a loss, and to drop the last clone of `hold` may run foreign code.
        drop(holds);
        if let Some(Ok(lease)) = hold.acquisition.peek()
            && let Some(loss) = lease.loss()
        {
            return Err(loss.into());
        }
        if hold.mode.is_shared() && !options.mode.is_shared() {
            return Err(upgrade_refused(name, options.mode));
        }
        let may_wait_for_another_owner = hold.wait != Wait::No && hold.acquisition.peek().is_none();
        if wait == Wait::No && may_wait_for_another_owner {
            let message = format!("lock {name:?} is being waited for by another call of this scope");
            return Err(Error::new(ErrorKind::Busy, message).with_help("wait too, or try again later"));
        }
        Ok((hold, false))
    }
}

#[async_trait]
impl DistributedLock for Scope {
    fn semantics(&self) -> &Semantics {
        self.locks.semantics()
    }

    fn defaults(&self) -> &AcquireOptions {
        self.locks.defaults()
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        options.check()?;
        if name.semaphore().is_some() {
            return Err(Error::new(ErrorKind::Unsupported, "a semaphore is not re-entrant")
                .with_help("take its permits from the client, not from a scope"));
        }
        let deadline = Deadline::start(options.wait);
        let out_of_time = || deadline.timed_out(format_args!("lock {name:?} was not acquired by this scope"));
        let mut remaining = Some(options.wait);
        loop {
            let wait = remaining.ok_or_else(out_of_time)?;
            let (hold, is_new) = self.find_or_begin(name, options, wait)?;
            let acquisition = hold.acquisition.clone();
            let outcome = if is_new { Some(acquisition.await) } else { deadline.run(acquisition).await };
            match outcome.ok_or_else(out_of_time)? {
                Ok(lease) => {
                    if let Some(guard) = hold.new_guard(&lease) {
                        return match guard.loss().filter(|_| !is_new) {
                            Some(loss) => Err(loss.into()),
                            None => Ok(guard),
                        };
                    }
                    // It was released before this call was polled again: acquire anew.
                }
                Err(error) if is_new || !acquires_anew(&error, hold.wait, wait) => return Err(error),
                Err(_) => {}
            }
            remaining = deadline.remaining();
        }
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.locks.admin()
    }

    async fn ping(&self) -> Result<()> {
        self.locks.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.locks.close().await
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("locks", &self.locks).finish_non_exhaustive()
    }
}

/// True if a call of this wait acquires anew after an acquisition of another call, which it shared, has failed: its own time is not
/// over, and its own wait may be longer.
fn acquires_anew(error: &Error, shared_wait: Wait, own_wait: Wait) -> bool {
    match own_wait {
        // It shared an attempt, and wants no other.
        Wait::No if shared_wait == Wait::No => false,
        // An endless wait does not begin on a store that cannot be reached.
        Wait::Forever if error.kind() == ErrorKind::Unavailable => false,
        // Any other error would come again, unless the store serves its mode and not that of the other call.
        _ => error.is_retryable() || error.kind() == ErrorKind::Unsupported,
    }
}

fn upgrade_refused(name: &LockName, mode: LockMode) -> Error {
    let problem = format_args!("{mode} lock {name:?} beside a shared call of the same scope");
    let fix = "acquire it for writing from the start, or end the shared call and release its hold before";
    Error::invalid("mode", problem, fix)
}

fn panicked() -> Error {
    Error::new(ErrorKind::Indeterminate, "the acquisition that this call shares has panicked")
        .with_help("look at the message of the panic; if the store granted the lock, it ends with its lease")
}

impl ReentrantHold {
    fn new(locks: &Arc<dyn DistributedLock>, name: &LockName, options: AcquireOptions) -> Self {
        let (mode, wait) = (options.mode, options.wait);
        let (locks, name) = (Arc::clone(locks), name.clone());
        let guards = Arc::<Mutex<Guards>>::default();
        let granted = Arc::clone(&guards);
        let acquiring = async move {
            let guard = locks.acquire_named(&name, &options).await?;
            let lease = guard.lease();
            locked(&granted).inner = Some(guard);
            Ok(lease)
        };
        // A panic within a `Shared` future would leave the other calls waiting for ever.
        let outcome = AssertUnwindSafe(acquiring).catch_unwind();
        let acquisition = outcome.map(|outcome| outcome.unwrap_or_else(|_| Err(panicked())));
        Self { mode, wait, acquisition: acquisition.boxed().shared(), guards }
    }

    /// True if the acquisition has failed, or the last guard has ended.
    fn is_over(&self) -> bool {
        match self.acquisition.peek() {
            None => false,
            Some(Ok(_)) => locked(&self.guards).inner.is_none(),
            Some(Err(_)) => true,
        }
    }

    /// One more guard of this hold; `None` after the end of the last.
    fn new_guard(self: Arc<Self>, lease: &Lease) -> Option<LockGuard> {
        let mut guards = locked(&self.guards);
        guards.inner.as_ref()?;
        guards.count += 1;
        drop(guards);
        let (hold, reentrant) = (Arc::clone(lease.hold()), Mutex::new(Some(self)));
        Some(LockGuard::new(Arc::new(ScopedHold { hold, reentrant, released: CancellationToken::new() })))
    }

    /// Counts the end of a guard. Returns the guard of the client, to be released, if it was the last.
    fn end_guard(&self) -> Option<LockGuard> {
        let mut guards = locked(&self.guards);
        guards.count -= 1;
        if guards.count == 0 { guards.inner.take() } else { None }
    }
}

/// The hold of one guard of a scope: it has an end of its own.
struct ScopedHold {
    hold: Arc<dyn Hold>,
    /// `None` after the end of this guard.
    reentrant: Mutex<Option<Arc<ReentrantHold>>>,
    released: CancellationToken,
}

impl ScopedHold {
    /// Ends this guard. Returns the guard of the client, to be released, if it was the last of its hold. A loss stays a loss.
    fn end(&self) -> Option<LockGuard> {
        if !matches!(self.hold.status(), HoldStatus::Lost(_)) {
            self.released.cancel();
        }
        let reentrant = locked(&self.reentrant).take();
        reentrant.and_then(|reentrant| reentrant.end_guard())
    }
}

impl Hold for ScopedHold {
    fn name(&self) -> &LockName {
        self.hold.name()
    }

    fn token(&self) -> FencingToken {
        self.hold.token()
    }

    fn status(&self) -> HoldStatus {
        if self.released.is_cancelled() { HoldStatus::Released } else { self.hold.status() }
    }

    fn ended(self: Arc<Self>) -> BoxFuture<'static, Option<Loss>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.released.cancelled() => None,
                end = Arc::clone(&self.hold).ended() => end,
            }
        })
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> BoxFuture<'static, Result<()>> {
        Arc::clone(&self.hold).extend(ttl)
    }

    fn release(self: Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let last = self.end();
        Box::pin(async move {
            match (last, self.status()) {
                (Some(guard), _) => guard.release().await,
                (None, HoldStatus::Lost(loss)) => Err(loss.into()),
                (None, _) => Ok(()),
            }
        })
    }

    fn abandon(self: Arc<Self>) {
        self.end();
    }
}

impl fmt::Debug for ScopedHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScopedHold").field(&self.hold).finish()
    }
}
