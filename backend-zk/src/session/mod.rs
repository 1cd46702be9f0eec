//! The session of a backend: made when it is first needed, and again when it has ended.
//!
//! * `connect` gets a session, `probe` finds out why there is none, and `ensemble` whether another ensemble gives it.
//! * `call` sends the requests of one call of the backend, and keeps the proof of the session.
//! * `watch` sets watches, and `events` tells of the connection and of the end.

mod call;
mod connect;
mod ensemble;
mod events;
mod probe;
#[cfg(test)]
mod tests;
mod watch;
mod zk_error;

pub(crate) use call::SessionCall;
pub(crate) use connect::connect_to;
pub(crate) use ensemble::origin;
pub(crate) use events::{EventHandler, SessionEvent};
pub(crate) use watch::{NodeWatch, WatchTarget};
pub(crate) use zk_error::{ZkError, ZkResult};

use crate::locked;
use crate::target::Target;
use connect::RETRY_PAUSE;
use ensemble::Ensemble;
use events::{SessionEndGuard, session_events};
use leasehold_core::{Error, ErrorKind, Moment, OwnerId, Result};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use watch::WatchBudget;
use zookeeper_client::{Client, SessionState, StateWatcher};

/// The time in which the server confirms [`Sessions::close`].
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Sessions {
    pub(crate) target: Target,
    events: EventHandler,
    pub(crate) ensemble: Ensemble,
    current: Mutex<Current>,
    /// Locked while a session is being made: other callers wait for the same one.
    connecting: tokio::sync::Mutex<Connecting>,
}

struct Connecting {
    /// The failure of the last attempt, and when it ended.
    failure: Option<(Error, Instant)>,
    /// The session timeout that the servers are expected to give.
    expected: Duration,
}

enum Current {
    None,
    Some(Arc<Session>),
    Closed,
}

pub(crate) struct Session {
    /// The id by which the server says which session made a node.
    pub(crate) id: i64,
    /// The time without a heartbeat after which the servers end it, as agreed at the first connect; a reconnect may change it
    /// unseen.
    pub(crate) timeout: Duration,
    client: Mutex<Option<Arc<Client>>>,
    states: StateWatcher,
    watches: WatchBudget,
    /// The moment before the last acknowledged write was sent: a majority of the servers had the session alive then.
    proved_at: Mutex<Moment>,
    /// Locked while a proof is under way. Callers that wait for it mostly need none of their own.
    proving: tokio::sync::Mutex<()>,
    /// The path that proofs delete: a node that nothing makes, in a directory that nothing makes, so no access list is asked.
    /// Its name is random, because another client that made the directory could forbid the delete.
    proof_path: String,
    ended_at: OnceLock<Instant>,
}

impl Sessions {
    pub(crate) fn new(target: Target, events: EventHandler) -> Self {
        let connecting = Connecting { failure: None, expected: target.timeouts.session };
        Self {
            ensemble: Ensemble::default(),
            target,
            events,
            current: Mutex::new(Current::None),
            connecting: tokio::sync::Mutex::new(connecting),
        }
    }

    /// The context for the requests of one call. Fails if there is no session; then nothing was asked of the store.
    pub(crate) async fn call(&self) -> Result<SessionCall> {
        self.call_in(&self.session().await?)
    }

    /// The same in this session and no other.
    pub(crate) fn call_in(&self, session: &Arc<Session>) -> Result<SessionCall> {
        self.live()?;
        SessionCall::new(session, self.target.timeouts.request)
    }

    /// The present session, or a new one.
    pub(crate) async fn session(&self) -> Result<Arc<Session>> {
        match self.live()? {
            Some(session) => Ok(session),
            // In a box: each call would have room for it, and few need it.
            None => Box::pin(self.new_session()).await,
        }
    }

    /// A session that is made now, or was made since this call.
    async fn new_session(&self) -> Result<Arc<Session>> {
        let called_at = Instant::now();
        let mut connecting = self.connecting.lock().await;
        if let Some(session) = self.live()? {
            return Ok(session);
        }
        // All callers that waited for a failed attempt share its failure. Servers that refuse at once are asked after a pause.
        if let Some((error, at)) = &connecting.failure
            && (*at > called_at || at.elapsed() < RETRY_PAUSE)
        {
            return Err(error.clone());
        }
        let connected = connect::connect(&self.target, &mut connecting.expected).await;
        if let Ok(client) = &connected {
            self.ensemble.compare(&self.target, client).await;
        }
        let session = connected.and_then(|client| self.enter(client));
        connecting.failure = session.as_ref().err().map(|error| (error.clone(), Instant::now()));
        session
    }

    /// The present session, unless it has ended.
    fn live(&self) -> Result<Option<Arc<Session>>> {
        match &*locked(&self.current) {
            Current::Closed => Err(Error::closed()),
            Current::Some(session) if !session.has_ended() => Ok(Some(Arc::clone(session))),
            Current::Some(_) | Current::None => Ok(None),
        }
    }

    /// True if the servers know no session of this backend: there was none, or the last one has [expired](Session::has_expired).
    pub(crate) fn have_expired(&self) -> bool {
        match &*locked(&self.current) {
            Current::None => true,
            Current::Some(session) => session.has_expired(),
            Current::Closed => false,
        }
    }

    fn enter(&self, client: Client) -> Result<Arc<Session>> {
        let session = Arc::new(Session {
            id: client.session_id().0,
            timeout: client.session_timeout(),
            states: client.state_watcher(),
            watches: WatchBudget::new(),
            proved_at: Mutex::new(Moment::ORIGIN),
            proving: tokio::sync::Mutex::new(()),
            proof_path: format!("{}/%-{}/proof", self.target.base, OwnerId::random()?.to_hex()),
            ended_at: OnceLock::new(),
            client: Mutex::new(Some(Arc::new(client))),
        });
        let mut current = locked(&self.current);
        if matches!(*current, Current::Closed) {
            return Err(Error::closed());
        }
        *current = Current::Some(Arc::clone(&session));
        drop(current);
        let guard = SessionEndGuard { session: Arc::downgrade(&session), handler: self.events.clone() };
        tokio::spawn(session_events(guard, session.states.clone()));
        Ok(session)
    }

    /// Ends the session, and with it every node that is left. [`Indeterminate`](ErrorKind::Indeterminate) if the server has not
    /// confirmed it: then the session ends by its timeout.
    pub(crate) async fn close(&self) -> Result<()> {
        let current = std::mem::replace(&mut *locked(&self.current), Current::Closed);
        let Current::Some(session) = current else {
            return Ok(());
        };
        if session.close().await {
            return Ok(());
        }
        let message = format!("ZooKeeper has not confirmed the end of the session within {CLOSE_TIMEOUT:?}");
        let help = "what is left of it ends with the session timeout";
        Err(Error::new(ErrorKind::Indeterminate, message).with_help(help))
    }
}

impl Session {
    /// The time for which a hold may be believed in, counted from [`proved_at`](Self::proved_at): three quarters of the timeout.
    ///
    /// The leader ends sessions. It learns which clients another server has heard of with that server's answers to its pings, each
    /// half a tick. A server that is cut off after a proof has not told of it, so the leader counts from the last answer that told
    /// of a request. The library sends one at least every tenth of the timeout: it pings after 3/8 of `silence_limit`, and looks
    /// each 1/8. So the leader's count lags a proof by a tenth, rounded up to half ticks, at most. That is no more than the last
    /// quarter in a session of two ticks, the shortest unless `minSessionTimeout` is lower.
    pub(crate) fn lease(&self) -> Duration {
        self.timeout / 4 * 3
    }

    /// The moment before the last acknowledged write was sent. The servers had the session alive then.
    pub(crate) fn proved_at(&self) -> Moment {
        *locked(&self.proved_at)
    }

    /// A write that was sent after this moment is acknowledged.
    fn note_proof(&self, at: Moment) {
        let mut proved_at = locked(&self.proved_at);
        *proved_at = at.max(*proved_at);
    }

    /// True once it cannot be used. The library hears that the servers have ended it when it is connected again; without a
    /// connection it gives the session up after 1.4 timeouts, and the servers may keep it still. The task of events may end
    /// earlier, with the runtime on which the session was made.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended_at.get().is_some() || self.states.peek_state().is_terminated()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.states.peek_state() == SessionState::SyncConnected
    }

    /// True a timeout after its end here: servers with a leader have ended it too. Servers without one end it a timeout after they
    /// have a leader again, because nothing keeps it alive.
    pub(crate) fn has_expired(&self) -> bool {
        self.has_ended() && *self.ended_at.get_or_init(Instant::now) + self.timeout < Instant::now()
    }

    fn note_end(&self) {
        self.ended_at.get_or_init(Instant::now);
    }

    /// True if the server has confirmed it in time.
    async fn close(&self) -> bool {
        let mut states = self.states.clone();
        // The library ends the session with its last handle. Calls that are under way keep theirs.
        drop(locked(&self.client).take());
        let closed = async {
            while !states.peek_state().is_terminated() {
                states.changed().await;
            }
        };
        tokio::time::timeout(CLOSE_TIMEOUT, closed).await.is_ok()
    }
}

/// Without the handler of events, which is a closure.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("target", &self.target).finish_non_exhaustive()
    }
}

/// Without the client: its session password is as good as the session.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
