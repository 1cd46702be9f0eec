//! Locks for programs without an async runtime.
//!
//! A client has one thread with a runtime of its own. Connections and renewals run there, also while the caller computes.
//!
//! ```
//! # fn main() -> leasehold::Result<()> {
//! let locks = leasehold::blocking::connect("memory:")?; // redis://host:6379, sqlite:/var/lib/shop/locks.db …
//! let guard = locks.acquire("invoice/42")?; // waits; the lease is then renewed in the background
//! println!("pass {} to the resource", guard.token()?);
//! guard.release()?; // an error if the lock did not cover the work to its end
//! locks.close()
//! # }
//! ```
//!
//! A method has the errors of the async method that it is named for. Async code uses the async API: inside a Tokio runtime every call
//! that waits is [`Misconfigured`](ErrorKind::Misconfigured), because it would block the runtime. [`Lease::cancellation_token`] needs a runtime: call it within [`Locks::run`].

use crate::{
    AcquireOptions, Config, DistributedLock, DistributedLockExt, Error, ErrorKind, IntoLockName, Lease,
    LockGuard, LockMode, LockSetGuard, Result,
};
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// As [`leasehold::connect`](crate::connect).
pub fn connect(url: &str) -> Result<Locks> {
    connect_with(&Config::new(url)?)
}

/// As [`leasehold::connect_with`](crate::connect_with).
pub fn connect_with(config: &Config) -> Result<Locks> {
    let config = config.clone();
    Locks::new(async move { crate::connect_with(&config).await })
}

/// A client. Cheap to clone; the clones and their guards share one thread, which ends after the last of them.
///
/// Dropping the last one does not wait for releases: [`close`](Self::close) does.
#[derive(Clone, Debug)]
pub struct Locks(Arc<Client>);

#[derive(Debug)]
struct Client {
    locks: Arc<dyn DistributedLock>,
    runtime: Handle,
    /// The thread closes the client, and ends, when this is dropped.
    _stop: oneshot::Sender<()>,
}

impl Locks {
    /// A client of your own, such as one with an observer, made by this future on the thread.
    ///
    /// # Errors
    ///
    /// As the future; [`Misconfigured`](ErrorKind::Misconfigured) inside a Tokio runtime, and
    /// [`Unavailable`](ErrorKind::Unavailable) if the system has no thread to give.
    pub fn new<C>(connecting: C) -> Result<Self>
    where
        C: Future<Output = Result<Arc<dyn DistributedLock>>> + Send + 'static,
    {
        check_no_runtime()?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let (handle, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let (result_sender, result_receiver) = mpsc::sync_channel(1);
        let run = async move {
            let made = connecting.await;
            let locks = made.as_ref().map(Arc::clone).ok();
            if let (Ok(()), Some(locks)) = (result_sender.send(made), locks) {
                drop(stopped.await);
                // Waits for the releases of guards that were dropped just before.
                drop(locks.close().await);
            }
        };
        let thread = thread::Builder::new().name("leasehold-blocking".to_owned());
        thread.spawn(move || runtime.block_on(run)).map_err(no_thread)?;
        let locks = result_receiver.recv().map_err(|_| {
            Error::new(ErrorKind::Unavailable, "the thread that makes the client has panicked")
                .with_help("look at the message of the panic")
        })??;
        Ok(Self(Arc::new(Client { locks, runtime: handle, _stop: stop })))
    }

    /// As [`acquire`](DistributedLockExt::acquire).
    pub fn acquire(&self, name: impl IntoLockName) -> Result<Guard> {
        self.acquire_with(name, self.0.locks.defaults())
    }

    /// As [`acquire_with`](DistributedLockExt::acquire_with).
    pub fn acquire_with(&self, name: impl IntoLockName, options: &AcquireOptions) -> Result<Guard> {
        let name = name.into_lock_name()?;
        self.run(|locks| async move { locks.acquire_named(&name, options).await })
            .map(|guard| self.guard(guard))
    }

    /// As [`acquire_timeout`](DistributedLockExt::acquire_timeout).
    pub fn acquire_timeout(&self, name: impl IntoLockName, wait: Duration) -> Result<Guard> {
        self.acquire_with(name, &self.0.locks.defaults().clone().with_wait(wait))
    }

    /// As [`try_acquire`](DistributedLockExt::try_acquire).
    pub fn try_acquire(&self, name: impl IntoLockName) -> Result<Option<Guard>> {
        let name = name.into_lock_name()?;
        let guard = self.run(|locks| async move { locks.try_acquire(name).await })?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// As [`read`](DistributedLockExt::read).
    pub fn read(&self, name: impl IntoLockName) -> Result<Guard> {
        self.acquire_with(name, &self.0.locks.defaults().clone().with_mode(LockMode::Shared))
    }

    /// As [`try_read`](DistributedLockExt::try_read).
    pub fn try_read(&self, name: impl IntoLockName) -> Result<Option<Guard>> {
        let name = name.into_lock_name()?;
        let guard = self.run(|locks| async move { locks.try_read(name).await })?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// As [`write`](DistributedLockExt::write).
    pub fn write(&self, name: impl IntoLockName) -> Result<Guard> {
        self.acquire_with(name, &self.0.locks.defaults().clone().with_mode(LockMode::Write))
    }

    /// As [`try_write`](DistributedLockExt::try_write).
    pub fn try_write(&self, name: impl IntoLockName) -> Result<Option<Guard>> {
        let name = name.into_lock_name()?;
        let guard = self.run(|locks| async move { locks.try_write(name).await })?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// As [`acquire_all`](DistributedLockExt::acquire_all).
    pub fn acquire_all<N: IntoLockName>(&self, names: impl IntoIterator<Item = N>) -> Result<SetGuard> {
        let set = self.run(|locks| async move { locks.acquire_all(names).await })?;
        Ok(SetGuard { set, client: Arc::clone(&self.0) })
    }

    /// As [`try_acquire_all`](DistributedLockExt::try_acquire_all).
    pub fn try_acquire_all<N: IntoLockName>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Option<SetGuard>> {
        let set = self.run(|locks| async move { locks.try_acquire_all(names).await })?;
        Ok(set.map(|set| SetGuard { set, client: Arc::clone(&self.0) }))
    }

    /// As [`semaphore`](DistributedLockExt::semaphore).
    pub fn semaphore(&self, name: impl IntoLockName, permits: u32) -> Result<Semaphore> {
        Ok(Semaphore { semaphore: self.0.locks.semaphore(name, permits)?, locks: self.clone() })
    }

    /// Runs anything else of the client, and waits for it: other options, an election, an operator's look.
    ///
    /// Keep this client, or a clone, for as long as a guard that `work` returns: it is closed when the last one is dropped.
    ///
    /// ```
    /// # use leasehold::{DistributedLock, DistributedLockExt};
    /// # fn main() -> leasehold::Result<()> {
    /// # let locks = leasehold::blocking::connect("memory:")?;
    /// locks.run(|locks| async move { locks.ping().await })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As `work`; [`Misconfigured`](ErrorKind::Misconfigured) inside a Tokio runtime.
    pub fn run<W, T>(&self, work: impl FnOnce(Arc<dyn DistributedLock>) -> W) -> Result<T>
    where
        W: Future<Output = Result<T>>,
    {
        check_no_runtime()?;
        // `work` may start tasks and timers before its first await.
        let future = {
            let _within = self.0.runtime.enter();
            work(Arc::clone(&self.0.locks))
        };
        self.0.runtime.block_on(future)
    }

    /// Puts a guard that [`run`](Self::run) has returned into one that is released without async code.
    pub fn guard(&self, guard: LockGuard) -> Guard {
        Guard { guard, client: Arc::clone(&self.0) }
    }

    /// As [`close`](DistributedLock::close): waits for the releases that are under way.
    pub fn close(&self) -> Result<()> {
        self.run(|locks| async move { locks.close().await })
    }
}

/// A semaphore, as [`crate::Semaphore`]. Cheap to clone; it keeps its client.
#[derive(Clone, Debug)]
pub struct Semaphore {
    semaphore: crate::Semaphore,
    locks: Locks,
}

impl Semaphore {
    /// As [`acquire`](crate::Semaphore::acquire).
    pub fn acquire(&self) -> Result<Guard> {
        self.locks.0.wait_for(self.semaphore.acquire()).map(|permit| self.locks.guard(permit))
    }

    /// As [`acquire_timeout`](crate::Semaphore::acquire_timeout).
    pub fn acquire_timeout(&self, wait: Duration) -> Result<Guard> {
        self.locks.0.wait_for(self.semaphore.acquire_timeout(wait)).map(|permit| self.locks.guard(permit))
    }

    /// As [`try_acquire`](crate::Semaphore::try_acquire).
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        let permit = self.locks.0.wait_for(self.semaphore.try_acquire())?;
        Ok(permit.map(|permit| self.locks.guard(permit)))
    }

    /// As [`available`](crate::Semaphore::available).
    pub fn available(&self) -> Result<u32> {
        self.locks.0.wait_for(self.semaphore.available())
    }
}

/// The locks of several names, all of which are held: [`LockSetGuard`] has the questions that can be asked of it. Dropping it
/// releases in the background, as of a [`Guard`].
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct SetGuard {
    set: LockSetGuard,
    client: Arc<Client>,
}

impl SetGuard {
    /// As [`LockSetGuard::release`].
    pub fn release(self) -> Result<()> {
        self.client.wait_for(self.set.release())
    }
}

impl Deref for SetGuard {
    type Target = LockSetGuard;

    fn deref(&self) -> &LockSetGuard {
        &self.set
    }
}

/// A held lock. [`Lease`] has the questions that can be asked of it.
///
/// Dropping it releases in the background and returns at once, also while the store is silent. A program that ends then may end
/// before the release: [`release`](Self::release), or [`Locks::close`], waits.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    guard: LockGuard,
    client: Arc<Client>,
}

impl Guard {
    /// As [`LockGuard::release`].
    pub fn release(self) -> Result<()> {
        self.client.wait_for(self.guard.release())
    }

    /// As [`LockGuard::extend`].
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        self.client.wait_for(self.guard.extend(ttl))
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}

impl Client {
    /// The future runs on the calling thread; the client's thread drives its connections and timers.
    fn wait_for<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        check_no_runtime()?;
        self.runtime.block_on(future)
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the system has no thread for the locks to give").with_source(error)
}

/// A call that waits would block the runtime of its caller, and a current-thread runtime for ever.
fn check_no_runtime() -> Result<()> {
    if Handle::try_current().is_err() {
        return Ok(());
    }
    let message = "leasehold::blocking was called inside a Tokio runtime";
    Err(Error::new(ErrorKind::Misconfigured, message)
        .with_help("use leasehold::connect and .await there, or call it from a std::thread: spawn_blocking is inside too"))
}
