//! Connections: a few, used by many in turn.
//!
//! Not the driver's own pool: that one asks the server whether a connection lives each time it is given back, in a task
//! of its own, and knows no difference between who asks for a lock and who must keep one.

use super::{Dialect, Link, Meaning, Target};
use leasehold_core::{Error, ErrorKind, Result, StallTimeout};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// How long closing waits for the goodbyes.
const GOODBYE_WITHIN: Duration = Duration::from_millis(500);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// To get a lock, or to read one. All connections but one: renewals and releases must never wait behind attempts.
    Asking,
    /// To keep a lock, or to give it back.
    Keeping,
}

pub(super) struct Pool {
    dialect: Arc<dyn Dialect>,
    target: Arc<Target>,
    /// The most connections there may be, and the parameter of the URL that says so.
    most: (usize, &'static str),
    idle: Mutex<Vec<Idle>>,
    all: Arc<Semaphore>,
    asking: Arc<Semaphore>,
    /// Timeout for callers that want a lock; fires only if no call completed meanwhile. Renewals and releases have a plain one.
    patience: StallTimeout,
    closed: AtomicBool,
}

/// A connection that is not in use.
struct Idle {
    link: Box<dyn Link>,
    /// The runtime that drives it. Used in another, it would hang after that one has ended.
    runtime: Id,
    /// When its last statement was answered.
    since: Instant,
}

/// A connection in use. Closed when dropped, since its state is unknown then.
pub(crate) struct Connection {
    link: Box<dyn Link>,
    pool: Arc<Pool>,
    runtime: Id,
    idle_since: Option<Instant>,
    _permits: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

impl Pool {
    pub(super) fn new(
        dialect: Arc<dyn Dialect>,
        target: Arc<Target>,
        most: usize,
        parameter: &'static str,
    ) -> Self {
        Self {
            dialect,
            patience: StallTimeout::new(target.timeout),
            target,
            most: (most, parameter),
            idle: Mutex::default(),
            all: Arc::new(Semaphore::new(most)),
            asking: Arc::new(Semaphore::new(most.saturating_sub(1).max(1))),
            closed: AtomicBool::new(false),
        }
    }

    /// A connection: an idle one, the newest first, or a new one.
    pub(super) async fn take(self: &Arc<Self>, lane: Lane) -> Result<Connection> {
        let permits = match lane {
            Lane::Asking => self.patience.wait(self.permits(lane)).await,
            Lane::Keeping => timeout(self.target.timeout, self.permits(lane)).await.ok(),
        };
        let permits = permits.ok_or_else(|| self.all_in_use())??;
        let runtime = Handle::current().id();
        let idle = {
            let mut idle = self.idle();
            let found = idle.iter().rposition(|idle| idle.runtime == runtime).map(|at| idle.remove(at));
            if found.is_none() {
                // The idle connections of other runtimes count too: there are never more than `connections` open.
                idle.clear();
            }
            found
        };
        let (link, idle_since) = match idle {
            Some(idle) => (idle.link, Some(idle.since)),
            None => (self.connect().await?, None),
        };
        Ok(Connection { link, pool: Arc::clone(self), runtime, idle_since, _permits: permits })
    }

    /// True if not all connections are in use.
    pub(super) fn has_room(&self) -> bool {
        self.all.available_permits() > 0
    }

    /// Closes those that have been idle for as long as one that was idle since then.
    fn forget_idle_since(&self, since: Instant) {
        self.idle().retain(|idle| idle.since > since);
    }

    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let (all, idle) = (self.most.0, std::mem::take(&mut *self.idle()));
        let goodbyes = async {
            for idle in idle {
                idle.link.close().await;
            }
            // The connections in use are closed by their users.
            let _ = self.all.acquire_many(u32::try_from(all).unwrap_or(u32::MAX)).await;
        };
        let _ = timeout(GOODBYE_WITHIN, goodbyes).await;
        self.all.close();
    }

    /// The permit for attempts first: a caller that waits for it does not delay renewals and releases.
    async fn permits(&self, lane: Lane) -> Result<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>)> {
        let asking = match lane {
            Lane::Asking => Some(Arc::clone(&self.asking).acquire_owned().await.map_err(|_| closed())?),
            Lane::Keeping => None,
        };
        let any = Arc::clone(&self.all).acquire_owned().await.map_err(|_| closed())?;
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        Ok((any, asking))
    }

    async fn connect(&self) -> Result<Box<dyn Link>> {
        match timeout(self.target.connect_timeout, self.dialect.connect()).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(error)) => Err(self.not_connected(error)),
            Err(_) => {
                let within = self.target.connect_timeout;
                let message = format!("{} did not let us in within {within:?}", self.target.address());
                Err(Error::new(ErrorKind::Unavailable, message)
                    .with_help("look whether the server runs there and takes connections"))
            }
        }
    }

    /// Nothing was asked yet, so whatever went wrong, nothing was done.
    fn not_connected(&self, error: sqlx::Error) -> Error {
        if let sqlx::Error::Configuration(cause) = &error
            && let Some(no_password) = cause.downcast_ref::<Error>()
        {
            return no_password.clone().context(format_args!("cannot log in to {}", self.target.address()));
        }
        let meaning = match self.dialect.meaning(&error) {
            Meaning::Broken | Meaning::Ended => Meaning::Unreachable,
            meaning => meaning,
        };
        super::Failure { meaning, doing: super::Doing::Looking, target: &self.target }.of(error)
    }

    fn all_in_use(&self) -> Error {
        let ((all, parameter), within) = (self.most, self.target.timeout);
        let message =
            format!("all {all} connections to {} were in use for {within:?}", self.target.address());
        Error::new(ErrorKind::Unavailable, message)
            .with_help(format!("let {parameter}=N allow more, or find out what uses them"))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    pub(crate) fn link(&mut self) -> &mut dyn Link {
        &mut *self.link
    }

    /// True if it may have died since its last use.
    pub(crate) fn was_idle(&self) -> bool {
        self.idle_since.is_some()
    }

    /// It broke, or does not answer. If it was idle, the others that have been idle for as long are closed too, so that the next
    /// callers do not try them one by one. A connection that has answered since lives: the statement on this one may have been
    /// slow.
    pub(crate) fn found_dead(self) {
        if let Some(since) = self.idle_since {
            self.pool.forget_idle_since(since);
        }
    }

    /// Nothing is under way on it, and no transaction is open.
    pub(crate) fn give_back(self) {
        let Self { link, pool, runtime, _permits, .. } = self;
        pool.patience.answered();
        // Before the permit, which lets the next one take it.
        if !pool.closed.load(Ordering::Acquire) {
            pool.idle().push(Idle { link, runtime, since: Instant::now() });
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("target", &self.target).finish_non_exhaustive()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store was closed").with_help("open it again")
}
