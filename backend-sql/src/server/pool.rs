//! Connections: a few, used by many in turn.
//!
//! Not the driver's own pool: that one asks the server whether a connection lives each time it is given back, in a task
//! of its own, and knows no difference between who asks for a lock and who must keep one.
//!
//! A client that is refused a connection closes what it has idle. `headroom.rs` says when an idle connection is kept.

use super::{Dialect, Link, Meaning, Target};
use futures_util::future::join_all;
use leasehold_core::{Error, ErrorKind, Result, StallTimeout};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

/// How long closing waits for the goodbyes.
const GOODBYE_WITHIN: Duration = Duration::from_millis(500);
/// The pause before a refused connection is asked for again: a server needs a moment to notice that another one was closed.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// To get a lock, or to read one. All connections but one: renewals and releases must never wait behind attempts.
    Asking,
    /// To keep a lock, or to give it back.
    Keeping,
    /// To hold a lock with, while another connection is in hand.
    Holding,
}

pub(super) struct Pool {
    dialect: Arc<dyn Dialect>,
    target: Arc<Target>,
    /// The most connections there may be, and the parameter of the URL that says so.
    most: (usize, &'static str),
    idle: Arc<IdleConnections>,
    all: Arc<Semaphore>,
    asking: Arc<Semaphore>,
    /// Timeout for callers that want a lock; fires only if no call completed meanwhile. Renewals and releases have a plain one.
    patience: StallTimeout,
    closed: AtomicBool,
}

/// The connections of all pools of one client that are not in use.
pub(super) type IdleConnections = Mutex<Vec<Idle>>;

/// A connection that is not in use.
pub(super) struct Idle {
    /// The parameter of its pool. What is set for the sessions of one pool does not fit the other.
    of: &'static str,
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
    _place: Place,
}

/// The right to one connection of a pool.
pub(super) type Place = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl Pool {
    pub(super) fn new(
        dialect: Arc<dyn Dialect>,
        target: Arc<Target>,
        most: (usize, &'static str),
        idle: Arc<IdleConnections>,
    ) -> Self {
        Self {
            dialect,
            patience: StallTimeout::new(target.timeout),
            target,
            all: Arc::new(Semaphore::new(most.0)),
            asking: Arc::new(Semaphore::new(most.0.saturating_sub(1).max(1))),
            most,
            idle,
            closed: AtomicBool::new(false),
        }
    }

    /// A connection: an idle one, the newest first, or a new one.
    pub(super) async fn take(self: &Arc<Self>, lane: Lane) -> Result<Connection> {
        let place = self.place(lane).await?;
        self.open(place, lane).await
    }

    /// A place for one more connection, if need be when another one is given back.
    pub(super) async fn place(&self, lane: Lane) -> Result<Place> {
        let permits = match lane {
            Lane::Asking => self.patience.wait(self.permits(lane)).await,
            Lane::Keeping | Lane::Holding => timeout(self.target.timeout, self.permits(lane)).await.ok(),
        };
        permits.ok_or_else(|| self.all_in_use())?
    }

    /// The connection for a place.
    pub(super) async fn open(self: &Arc<Self>, place: Place, lane: Lane) -> Result<Connection> {
        let (runtime, of) = (Handle::current().id(), self.most.1);
        let idle = {
            let mut idle = self.idle();
            let found = idle.iter().rposition(|idle| idle.of == of && idle.runtime == runtime);
            let found = found.map(|at| idle.remove(at));
            if found.is_none() {
                // The idle connections of other runtimes count too: there are never more than `connections` open.
                idle.retain(|idle| idle.of != of);
            }
            found
        };
        let (link, idle_since) = match idle {
            Some(idle) => (idle.link, Some(idle.since)),
            None => (self.connect(lane).await?, None),
        };
        Ok(Connection { link, pool: Arc::clone(self), runtime, idle_since, _place: place })
    }

    /// True if not all connections are in use.
    pub(super) fn has_room(&self) -> bool {
        self.all.available_permits() > 0
    }

    /// Closes those that have been idle for as long as one that was idle since then.
    fn forget_idle_since(&self, since: Instant) {
        self.idle().retain(|idle| idle.of != self.most.1 || idle.since > since);
        self.target.headroom.broke();
    }

    /// Closes the idle connections of this client, except the newest if it holds leases; true if any was closed.
    async fn yield_idle(&self) -> bool {
        let kept = if self.target.headroom.is_holding() { self.idle().pop() } else { None };
        let any = self.close_idle().await;
        self.idle().extend(kept);
        any
    }

    /// Closes all idle connections of this client; true if there were any.
    async fn close_idle(&self) -> bool {
        let idle = std::mem::take(&mut *self.idle());
        let any = !idle.is_empty();
        let goodbyes = idle.into_iter().map(|idle| idle.link.close());
        let _ = timeout(GOODBYE_WITHIN, join_all(goodbyes)).await;
        any
    }

    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let all = u32::try_from(self.most.0).unwrap_or(u32::MAX);
        // The connections in use are closed by their users.
        let in_use = timeout(GOODBYE_WITHIN, self.all.acquire_many(all));
        let _ = tokio::join!(self.close_idle(), in_use);
        self.all.close();
    }

    /// The permit for attempts first: a caller that waits for it does not delay renewals and releases.
    async fn permits(&self, lane: Lane) -> Result<Place> {
        let asking = match lane {
            Lane::Asking => Some(Arc::clone(&self.asking).acquire_owned().await.map_err(|_| closed())?),
            Lane::Keeping | Lane::Holding => None,
        };
        let any = Arc::clone(&self.all).acquire_owned().await.map_err(|_| closed())?;
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        Ok((any, asking))
    }

    /// A new connection. If it is refused, all idle ones are closed first, and it is asked for again: by a holder until its time
    /// is over, by others only if something was closed.
    async fn connect(&self, lane: Lane) -> Result<Box<dyn Link>> {
        let give_up = Instant::now() + self.target.timeout;
        loop {
            let connecting = match lane {
                Lane::Holding => self.dialect.connect_beside(),
                Lane::Asking | Lane::Keeping => self.dialect.connect(),
            };
            let error = match timeout(self.target.connect_timeout, connecting).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error)) => error,
                Err(_) => {
                    self.refused().await;
                    return Err(self.not_let_in());
                }
            };
            let again = match self.dialect.meaning(&error) {
                Meaning::Exhausted(_) => {
                    let has_closed = self.refused().await;
                    has_closed || lane == Lane::Keeping && Instant::now() < give_up
                }
                _ => false,
            };
            if !again {
                return Err(self.not_connected(error));
            }
            sleep(AGAIN_AFTER.mul_f64(0.5 + fastrand::f64())).await;
        }
    }

    async fn refused(&self) -> bool {
        self.target.headroom.refused();
        self.yield_idle().await
    }

    fn not_let_in(&self) -> Error {
        let (address, within) = (self.target.address(), self.target.connect_timeout);
        Error::new(ErrorKind::Unavailable, format!("{address} did not let us in within {within:?}"))
            .with_help("look whether the server runs there and takes connections")
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
            Meaning::Refused => {
                let message = format!("{} refused the connection", self.target.address());
                return Error::new(ErrorKind::Misconfigured, message)
                    .with_source(super::failure::Cause::of(&error))
                    .with_help("look at the cause, and at what stands between here and the server");
            }
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
        let Self { link, pool, runtime, _place, .. } = self;
        pool.patience.answered();
        let headroom = &pool.target.headroom;
        let is_check_due = headroom.is_check_due();
        let is_kept = !headroom.is_short() || is_check_due || headroom.is_holding() && pool.idle().is_empty();
        if pool.closed.load(Ordering::Acquire) || !is_kept {
            drop(tokio::spawn(async move { timeout(GOODBYE_WITHIN, link.close()).await }));
            return;
        }
        // Before the permit, which lets the next one take it.
        pool.idle().push(Idle { of: pool.most.1, link, runtime, since: Instant::now() });
        if is_check_due {
            let pool = Arc::clone(&pool);
            drop(tokio::spawn(async move {
                match pool.target.headroom.spare(&*pool.dialect, pool.target.connect_timeout).await {
                    Some(spare) => spare.close().await,
                    None => drop(pool.yield_idle().await),
                }
            }));
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
