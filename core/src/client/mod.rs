//! [`LockClient`]: makes a [`DistributedLock`] of any [`LockBackend`], and does the hard part once for all of them.

mod acquire;
mod attempt_span;
mod carried;
mod held;
mod pace;
mod pending;
mod refuge;
mod withdrawal;

pub(crate) use held::Held;

use crate::keeper::Keeper;
use crate::local_queue::TakingTurns;
use crate::observer::{Event, Observer, TracingObserver};
use crate::sync::AtomicBool;
use crate::{
    AcquireOptions, Clock, DistributedLock, Drift, Error, ErrorKind, LocalQueue, LockAdmin, LockBackend,
    LockGuard, LockName, Result, Semantics, SystemClock,
};
use async_trait::async_trait;
use refuge::Refuge;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::task::TaskTracker;

/// How long [`close`](DistributedLock::close) waits for what runs in the background, and then for the backend to close.
const CLOSE_AT_MOST: Duration = Duration::from_secs(5);

/// A [`DistributedLock`] over a [`LockBackend`].
///
/// Cheap to clone; the clones are one client with one keeper. Guards keep it alive. It needs a Tokio runtime with time
/// and I/O enabled.
///
/// Renewals, and a backend's connection, run on the runtime that needed them first. If that one ends, the next
/// acquisition makes new ones on its own. If it only stands still, such as a current-thread runtime outside `block_on`,
/// they stand still with it: guards are lost at their deadlines, and calls from other runtimes get no answer before
/// theirs.
#[derive(Clone, Debug)]
pub struct LockClient {
    core: Arc<Core>,
}

/// What a client, its guards and its background work share.
pub(crate) struct Core {
    pub(crate) backend: Arc<dyn LockBackend>,
    pub(crate) semantics: Semantics,
    pub(crate) clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    pub(crate) keeper: Keeper,
    drift: Drift,
    defaults: AcquireOptions,
    background: TaskTracker,
    refuge: Refuge,
    closed: AtomicBool,
}

impl LockClient {
    /// A client with the defaults of [`LockClientBuilder`].
    pub fn new(backend: Arc<dyn LockBackend>) -> Self {
        Self::builder(backend).build()
    }

    /// A client to be made to measure.
    pub fn builder(backend: Arc<dyn LockBackend>) -> LockClientBuilder {
        LockClientBuilder {
            backend,
            clock: Arc::new(SystemClock::new()),
            observer: Arc::new(TracingObserver),
            drift: Drift::DEFAULT,
            defaults: AcquireOptions::default(),
            local_queue: None,
        }
    }
}

/// Makes a [`LockClient`].
#[derive(Debug)]
pub struct LockClientBuilder {
    backend: Arc<dyn LockBackend>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    drift: Drift,
    defaults: AcquireOptions,
    local_queue: Option<LocalQueue>,
}

impl LockClientBuilder {
    /// The clock of all lease decisions. Default: [`SystemClock`].
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Who is told what happens in the background. Default: [`TracingObserver`].
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// How much shorter than the store's lease the holder's is. Default: 1 % and 2 ms.
    #[must_use]
    pub fn with_drift(mut self, drift: Drift) -> Self {
        self.drift = drift;
        self
    }

    /// The options of the short forms. Default: [`AcquireOptions::default`].
    #[must_use]
    pub fn with_defaults(mut self, defaults: AcquireOptions) -> Self {
        self.defaults = defaults;
        self
    }

    /// Makes the tasks of this client that want one name a single contender in the store, which passes the hold on among
    /// them for a while before other processes get their turn. Default: each task waits in the store for itself.
    ///
    /// For names that many tasks of one process want at once: a hand-over inside the process asks the store for nothing.
    /// Every grant still has a token of its own. What changes:
    ///
    /// * The order is that of the processes, and of the tasks within each; not of all tasks.
    /// * A release that hands over inside the process does not hear the store's word: if somebody has taken the lock away by
    ///   hand, the holder at the time of the next renewal is told, and not the one who releases.
    /// * What the store shows of the holder, and the token that it shows, is that of the first holder of the turn. Tasks
    ///   that describe themselves differently, or ask for leases of different lengths, do not share a turn.
    /// * One attempt of a name that is held inside the process is answered without a question to the store.
    #[must_use]
    pub fn with_local_queue(mut self, local_queue: LocalQueue) -> Self {
        self.local_queue = Some(local_queue);
        self
    }

    /// The client.
    pub fn build(self) -> LockClient {
        let backend: Arc<dyn LockBackend> = match self.local_queue {
            Some(queue) => Arc::new(TakingTurns::new(self.backend, Arc::clone(&self.clock), queue)),
            None => self.backend,
        };
        let core = Core {
            semantics: backend.semantics(),
            backend,
            clock: self.clock,
            observer: self.observer,
            keeper: Keeper::new(),
            drift: self.drift,
            defaults: self.defaults,
            background: TaskTracker::new(),
            refuge: Refuge::default(),
            closed: AtomicBool::new(false),
        };
        LockClient { core: Arc::new(core) }
    }
}

#[async_trait]
impl DistributedLock for LockClient {
    fn semantics(&self) -> &Semantics {
        &self.core.semantics
    }

    fn defaults(&self) -> &AcquireOptions {
        &self.core.defaults
    }

    /// Written out, because an async method would keep what it was called with for as long as its caller waits.
    fn acquire_with<'lock, 'name, 'options, 'all>(
        &'lock self,
        name: &'name LockName,
        options: &'options AcquireOptions,
    ) -> Pin<Box<dyn Future<Output = Result<LockGuard>> + Send + 'all>>
    where
        'lock: 'all,
        'name: 'all,
        'options: 'all,
        Self: 'all,
    {
        Box::pin(acquire::acquire(&self.core, name, options))
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.core.backend.admin()
    }

    async fn close(&self) -> Result<()> {
        self.core.close().await
    }
}

impl Core {
    /// Tells the observer. Its panic is not ours: the keeper may have other holds in its hands.
    fn tell(&self, event: &Event<'_>) {
        // What it panicked with was told by the panic hook.
        drop(catch_unwind(AssertUnwindSafe(|| self.observer.event(event))));
    }

    /// From then on, nothing is held.
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Announces the loss of the holds that the keeper has, if the client was closed. Called after each time that a
    /// hold is entered: either this call sees the flag, or [`close`](Self::close) sees the hold.
    pub(crate) fn lose_all_if_closed(&self) {
        if self.is_closed() {
            for held in self.keeper.forget_all() {
                held.notice();
            }
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::closed());
        }
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        self.lose_all_if_closed();
        self.background.close();
        let in_time = tokio::time::timeout(CLOSE_AT_MOST, self.background.wait()).await.is_ok();
        // Counted now: some may end while the backend closes, whose ends are as late.
        let late = if in_time { 0 } else { self.background.len().max(1) };
        let closed = tokio::time::timeout(CLOSE_AT_MOST, self.backend.close()).await;
        closed.unwrap_or_else(|_| Err(not_closed()))?;
        match late {
            0 => Ok(()),
            late => Err(late_requests(late)),
        }
    }
}

/// Releases, most of them.
fn late_requests(count: usize) -> Error {
    let message = format!("{count} requests were still under way after {CLOSE_AT_MOST:?}");
    Error::new(ErrorKind::Indeterminate, message).with_help("their locks are free when their leases end")
}

fn not_closed() -> Error {
    Error::new(ErrorKind::Indeterminate, format!("the store did not close within {CLOSE_AT_MOST:?}"))
        .with_help("its connections end with this process at the latest")
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("backend", &self.backend).finish_non_exhaustive()
    }
}
