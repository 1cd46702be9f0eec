//! [`LockClient`]: makes a [`DistributedLock`] of any [`LockBackend`].

mod acquire;
mod cleanup;
mod hold;
mod pending_claim;
mod retry;
mod telemetry;

pub(crate) use acquire::{no_answer, runtime};

use crate::admin::admin_of;
use crate::context::Context;
use crate::keeper::Keeper;
use crate::memory::MemoryBackend;
use crate::observer::{Events, Observer};
use crate::{
    AcquireOptions, Clock, DistributedLock, Error, ErrorKind, LockAdmin, LockBackend, LockGuard, LockName,
    Result, RuntimeClock, Semantics, SystemClock, TracingObserver,
};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// How long [`close`](DistributedLock::close) waits for background work, and then for the backend.
const CLOSE_AT_MOST: Duration = Duration::from_secs(5);

/// A [`DistributedLock`] over a [`LockBackend`].
///
/// Cheap to clone; the clones are one client with one keeper. Guards keep it alive. It needs a Tokio runtime with time
/// and I/O enabled.
///
/// Renewals, and a backend's connection, run on the runtime that needed them first. If that runtime ends while locks are held,
/// they go on on a thread of the client. If it stands still, such as a current-thread runtime outside `block_on`, guards
/// are lost at their deadlines, and calls from other runtimes get no answer before theirs.
#[derive(Clone, Debug)]
pub struct LockClient {
    keeper: Arc<Keeper>,
    defaults: Arc<AcquireOptions>,
}

impl LockClient {
    /// A client with the defaults of [`LockClientBuilder`].
    pub fn new(backend: Arc<dyn LockBackend>) -> Self {
        Self::builder(backend).build()
    }

    /// A builder, to change the defaults.
    pub fn builder(backend: Arc<dyn LockBackend>) -> LockClientBuilder {
        LockClientBuilder {
            backend,
            clock: Arc::new(SystemClock::new()),
            events: Events(Arc::new(TracingObserver)),
            defaults: AcquireOptions::default(),
        }
    }

    /// A client over an empty store in memory, for tests, on the clock of the runtime: virtual time under `tokio::time::pause`.
    ///
    /// ```
    /// # use leasehold_core::{DistributedLockExt, LockClient};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
    /// tokio::time::pause();
    /// let locks = LockClient::in_memory();
    /// let guard = locks.acquire("job").await?;
    /// tokio::time::sleep(Duration::from_secs(3600)).await;
    /// assert!(guard.is_held(), "it was renewed for an hour");
    /// # guard.release().await }
    /// ```
    pub fn in_memory() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::new());
        let backend = MemoryBackend::with_clock(Arc::clone(&clock));
        Self::builder(Arc::new(backend)).with_clock(clock).build()
    }
}

/// Builds a [`LockClient`].
#[derive(Debug)]
pub struct LockClientBuilder {
    backend: Arc<dyn LockBackend>,
    clock: Arc<dyn Clock>,
    events: Events,
    defaults: AcquireOptions,
}

impl LockClientBuilder {
    /// The clock of all lease decisions. Default: [`SystemClock`].
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The receiver of all [events](crate::Event). Default: [`TracingObserver`]; an observer replaces it.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.events = Events(observer);
        self
    }

    /// The options of the short forms. Default: [`AcquireOptions::default`].
    #[must_use]
    pub fn with_defaults(mut self, defaults: AcquireOptions) -> Self {
        self.defaults = defaults;
        self
    }

    /// The semantics of the backend, for an observer that tells them.
    pub fn semantics(&self) -> Semantics {
        self.backend.semantics()
    }

    /// The client.
    pub fn build(self) -> LockClient {
        let context = Context::new(self.backend, self.clock, self.events);
        LockClient { keeper: Arc::new(Keeper::new(context)), defaults: Arc::new(self.defaults) }
    }
}

#[async_trait]
impl DistributedLock for LockClient {
    fn semantics(&self) -> &Semantics {
        &self.keeper.context.semantics
    }

    fn defaults(&self) -> &AcquireOptions {
        &self.defaults
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        acquire::acquire(&self.keeper, name, options).await
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.keeper.context.backend.admin()
    }

    async fn ping(&self) -> Result<()> {
        self.keeper.context.check_open()?;
        admin_of(self)?.inspect(&LockName::new("ping")?).await.map(drop)
    }

    async fn close(&self) -> Result<()> {
        let context = &self.keeper.context;
        context.mark_closed();
        self.keeper.end_all_if_closed();
        context.background.close();
        let in_time = tokio::time::timeout(CLOSE_AT_MOST, context.background.wait()).await.is_ok();
        // Counted now: a request may end while the backend closes, which is as late.
        let late = if in_time { 0 } else { context.background.len().max(1) };
        tokio::time::timeout(CLOSE_AT_MOST, context.backend.close()).await.unwrap_or_else(|_| {
            let message = format!("the store did not close within {CLOSE_AT_MOST:?}");
            Err(Error::new(ErrorKind::Indeterminate, message)
                .with_help("its connections end with this process at the latest"))
        })?;
        if late == 0 {
            return Ok(());
        }
        // Most of them are releases.
        let message = format!("{late} requests were still under way after {CLOSE_AT_MOST:?}");
        Err(Error::new(ErrorKind::Indeterminate, message)
            .with_help("their locks are free when their leases end"))
    }
}
