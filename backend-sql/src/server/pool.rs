//! Connections: a few, used by many in turn.
//!
//! The driver's own pool is not used: it asks the server whether a connection lives each time one is given back, in a task of its own,
//! and treats attempts and renewals alike.
//!
//! A client that is refused a connection closes what it has idle. `headroom.rs` says when an idle connection is kept.

use super::failure::failure;
use super::{Dialect, ErrorClass, RawConnection, StatementKind, Target};
use crate::lock_mutex;
use futures_util::future::join_all;
use leasehold_core::{Error, ErrorKind, Result, StallTimeout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

const GOODBYE_WITHIN: Duration = Duration::from_millis(500);
/// The pause before a refused connection is asked for again: a server needs a moment to notice that another one was closed.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolClass {
    /// To get a lock, or to read one. All connections but one: renewals and releases never wait behind attempts.
    Attempt,
    /// For a claim that holds, or may hold.
    Renewal,
    /// To hold a lock with, while another connection is in hand.
    Hold,
}

#[derive(Debug)]
pub(super) struct Pool {
    dialect: Arc<dyn Dialect>,
    target: Arc<Target>,
    idle: Mutex<Vec<Session>>,
    /// One permit for each connection for statements.
    statements: Arc<Semaphore>,
    /// One less: attempts leave a connection to renewals and releases.
    attempts: Arc<Semaphore>,
    /// One permit for each connection that holds a lock.
    pub(super) holds: Arc<Semaphore>,
    /// Timeout for callers that want a lock; fires only if no call completed meanwhile. Renewals and releases have a plain one.
    stall_timeout: StallTimeout,
    closed: AtomicBool,
}

#[derive(Debug)]
struct Session {
    raw: Box<dyn RawConnection>,
    /// What is set in the session of a hold does not fit other statements.
    is_for_holds: bool,
    /// The runtime that drives it. Used in another, it would hang after that one has ended.
    runtime: Id,
    /// When its last statement was answered; `None` if it is new.
    idle_since: Option<Instant>,
}

/// A connection in use. Closed when dropped, since its state is unknown then.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    session: Session,
    pool: Arc<Pool>,
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Pool {
    pub(super) fn new(dialect: Arc<dyn Dialect>) -> Self {
        let target = Arc::clone(dialect.target());
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            dialect,
            idle: Mutex::default(),
            statements: semaphore(target.connections),
            attempts: semaphore(target.connections.saturating_sub(1).max(1)),
            holds: semaphore(target.holds),
            stall_timeout: StallTimeout::new(target.timeout),
            closed: AtomicBool::new(false),
            target,
        }
    }

    /// A connection: an idle one, the newest first, or a new one.
    pub(super) async fn take(self: &Arc<Self>, class: PoolClass) -> Result<PooledConnection> {
        let permits = self.permits(class).await?;
        self.open(permits, class).await
    }

    /// The permits for one more connection, if need be when another one is given back.
    pub(super) async fn permits(&self, class: PoolClass) -> Result<Vec<OwnedSemaphorePermit>> {
        let permits = match class {
            PoolClass::Attempt => self.stall_timeout.wait(self.wait_for_permits(class)).await,
            PoolClass::Renewal | PoolClass::Hold => {
                timeout(self.target.timeout, self.wait_for_permits(class)).await.ok()
            }
        };
        permits.ok_or_else(|| self.all_in_use(class))?
    }

    /// The permit for attempts first: a caller that waits for it does not delay renewals and releases.
    async fn wait_for_permits(&self, class: PoolClass) -> Result<Vec<OwnedSemaphorePermit>> {
        let semaphores = match class {
            PoolClass::Attempt => vec![&self.attempts, &self.statements],
            PoolClass::Renewal => vec![&self.statements],
            PoolClass::Hold => vec![&self.holds],
        };
        let mut permits = Vec::with_capacity(semaphores.len());
        for semaphore in semaphores {
            permits.push(Arc::clone(semaphore).acquire_owned().await.map_err(|_| closed())?);
        }
        if self.closed.load(Ordering::Acquire) { Err(closed()) } else { Ok(permits) }
    }

    pub(super) async fn open(
        self: &Arc<Self>,
        permits: Vec<OwnedSemaphorePermit>,
        class: PoolClass,
    ) -> Result<PooledConnection> {
        let (runtime, is_for_holds) = (Handle::current().id(), class == PoolClass::Hold);
        let idle = {
            let mut idle = lock_mutex(&self.idle);
            let is_alike = |idle: &Session| idle.is_for_holds == is_for_holds;
            let found = idle.iter().rposition(|idle| is_alike(idle) && idle.runtime == runtime);
            let found = found.map(|at| idle.remove(at));
            if found.is_none() {
                // The idle connections of other runtimes count too: there are never more than `connections` open.
                idle.retain(|idle| !is_alike(idle));
            }
            found
        };
        let session = match idle {
            Some(session) => session,
            None => Session { raw: self.connect(class).await?, is_for_holds, runtime, idle_since: None },
        };
        Ok(PooledConnection { session, pool: Arc::clone(self), _permits: permits })
    }

    /// Closes the idle connections of this client, except the newest if it holds leases; true if any was closed.
    async fn yield_idle(&self) -> bool {
        let kept = if self.target.headroom.is_holding() { lock_mutex(&self.idle).pop() } else { None };
        let any = self.close_idle().await;
        lock_mutex(&self.idle).extend(kept);
        any
    }

    /// Closes all idle connections of this client; true if there were any.
    async fn close_idle(&self) -> bool {
        let idle = std::mem::take(&mut *lock_mutex(&self.idle));
        let any = !idle.is_empty();
        let goodbyes = idle.into_iter().map(|idle| idle.raw.close());
        let _ = timeout(GOODBYE_WITHIN, join_all(goodbyes)).await;
        any
    }

    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let all = |permits| u32::try_from(permits).unwrap_or(u32::MAX);
        // The connections in use are closed by their users.
        let in_use = timeout(GOODBYE_WITHIN, async {
            let statements = self.statements.acquire_many(all(self.target.connections));
            let _ = tokio::join!(statements, self.holds.acquire_many(all(self.target.holds)));
        });
        let _ = tokio::join!(self.close_idle(), in_use);
        self.statements.close();
        self.holds.close();
    }

    /// A new connection. If it is refused, all idle ones are closed first, and it is asked for again: by a holder until its time
    /// is over, by others only if something was closed.
    async fn connect(&self, class: PoolClass) -> Result<Box<dyn RawConnection>> {
        let give_up = Instant::now() + self.target.timeout;
        loop {
            let connecting = match class {
                PoolClass::Hold => self.dialect.connect_beside(),
                PoolClass::Attempt | PoolClass::Renewal => self.dialect.connect(),
            };
            let error = match timeout(self.target.connect_timeout, connecting).await {
                Ok(Ok(raw)) => return Ok(raw),
                Ok(Err(error)) => error,
                Err(_) => {
                    self.refused().await;
                    return Err(self.not_connected(std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
                }
            };
            let again = matches!(self.dialect.error_class(&error), ErrorClass::Exhausted(_))
                && (self.refused().await || class == PoolClass::Renewal && Instant::now() < give_up);
            if !again {
                return Err(self.not_connected(error));
            }
            sleep(CONNECT_AGAIN_AFTER.mul_f64(0.5 + fastrand::f64())).await;
        }
    }

    async fn refused(&self) -> bool {
        self.target.headroom.refused();
        self.yield_idle().await
    }

    /// The error of a connection attempt. No statement was sent, so nothing was done.
    fn not_connected(&self, error: sqlx::Error) -> Error {
        if let sqlx::Error::Configuration(cause) = &error
            && let Some(no_password) = cause.downcast_ref::<Error>()
        {
            return no_password.clone().context(format_args!("cannot log in to {}", self.target.address()));
        }
        let class = match self.dialect.error_class(&error) {
            ErrorClass::Broken | ErrorClass::Ended => ErrorClass::Unreachable,
            class => class,
        };
        failure(error, class, StatementKind::Read, &self.target)
    }

    fn all_in_use(&self, class: PoolClass) -> Error {
        let target = &self.target;
        let (all, parameter) = match class {
            PoolClass::Attempt | PoolClass::Renewal => (target.connections, "connections"),
            PoolClass::Hold => (target.holds, "holds"),
        };
        let message =
            format!("all {all} connections to {} were in use for {:?}", target.address(), target.timeout);
        Error::new(ErrorKind::Unavailable, message)
            .with_help(format!("let {parameter}=N allow more, or find out what uses them"))
    }
}

impl PooledConnection {
    pub(crate) fn raw(&mut self) -> &mut dyn RawConnection {
        &mut *self.session.raw
    }

    /// True if it may have died since its last use.
    pub(crate) fn was_idle(&self) -> bool {
        self.session.idle_since.is_some()
    }

    /// Closes a connection that broke or does not answer. If it was idle, the others that have been idle for as long are closed too, so that the next
    /// callers do not try them one by one. A connection that has answered since lives: the statement on this one may have been
    /// slow.
    pub(crate) fn found_dead(self) {
        let Session { is_for_holds, idle_since, .. } = self.session;
        if idle_since.is_some() {
            lock_mutex(&self.pool.idle)
                .retain(|idle| idle.is_for_holds != is_for_holds || idle.idle_since > idle_since);
            self.pool.target.headroom.broke();
        }
    }

    /// Makes a connection idle. No statement is under way on it, and no transaction is open.
    pub(crate) fn give_back(self) {
        let Self { mut session, pool, _permits } = self;
        if !session.is_for_holds {
            pool.stall_timeout.answered();
        }
        let headroom = &pool.target.headroom;
        let is_check_due = headroom.is_check_due();
        let is_kept = !headroom.is_short()
            || is_check_due
            || headroom.is_holding() && lock_mutex(&pool.idle).is_empty();
        if pool.closed.load(Ordering::Acquire) || !is_kept {
            drop(tokio::spawn(async move { timeout(GOODBYE_WITHIN, session.raw.close()).await }));
            return;
        }
        // The session is idle before the permit is free: the next caller finds it.
        session.idle_since = Some(Instant::now());
        lock_mutex(&pool.idle).push(session);
        if is_check_due {
            let pool = Arc::clone(&pool);
            drop(tokio::spawn(async move {
                match pool.dialect.connect_spare().await {
                    Some(spare) => spare.close().await,
                    None => drop(pool.yield_idle().await),
                }
            }));
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store was closed").with_help("open it again")
}
