//! The one session of a backend: made when it is first needed, and made anew when it is over.

mod dial;
mod ear;
mod listening;
mod room;
mod shared;
mod soon;
#[cfg(test)]
mod tests;
mod trouble;
mod turn;

pub(crate) use listening::Listening;
pub(crate) use room::Whose;
pub(crate) use trouble::{Outcome, Trouble};
pub(crate) use turn::Turn;

use crate::place::Places;
use crate::target::Target;
use ear::EndIsTold;
use leasehold_core::{Error, ErrorKind, OwnerId, Result};
use room::Room;
use shared::Shared;
use soon::Soon;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use zookeeper_client::{Client, SessionState, StateWatcher};

/// How long [`Sessions::close`] waits for the server to hear of it.
const CLOSE_AT_MOST: Duration = Duration::from_secs(2);

/// The sessions of a backend, one after the other.
#[derive(Debug)]
pub(crate) struct Sessions {
    target: Target,
    places: Arc<Places>,
    current: Mutex<Current>,
    /// Held while a session is being made: whoever wants one meanwhile waits for that one.
    dialling: tokio::sync::Mutex<Dialling>,
    /// How often that has ended.
    dialled: AtomicU64,
}

#[derive(Debug)]
struct Dialling {
    /// What came of the last one, if no session, and when.
    failed: Option<(Error, Instant)>,
    /// What time the servers give to a session, as far as is known.
    given: Duration,
}

#[derive(Debug)]
enum Current {
    None,
    Some(Arc<Session>),
    Closed,
}

/// One session with the ensemble.
pub(crate) struct Session {
    id: i64,
    /// As the server gives it.
    timeout: Duration,
    client: Mutex<Option<Arc<Client>>>,
    states: StateWatcher,
    soon: Arc<Soon>,
    room: Arc<Room>,
    /// The proof of it, for renewals that come at the same time.
    proof: Shared<Outcome<()>>,
    /// The path of a node that nobody makes, in a directory that nobody makes: so no access list has a say in its deletion.
    /// A stranger who makes that directory could forbid it, so nobody else knows its name; and the name is none of a lock.
    nowhere: String,
    over_since: OnceLock<Instant>,
}

impl Sessions {
    pub(crate) fn new(target: Target, places: Arc<Places>) -> Self {
        let dialling = Dialling { failed: None, given: target.timeouts.session };
        Self {
            target,
            places,
            current: Mutex::new(Current::None),
            dialling: tokio::sync::Mutex::new(dialling),
            dialled: AtomicU64::new(0),
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// A session for one call.
    ///
    /// # Errors
    ///
    /// As of dialling. Then nothing was asked of the store.
    pub(crate) async fn turn(&self) -> Result<Turn> {
        self.turn_of(&self.session().await?)
    }

    /// This session, and no other, for one call.
    pub(crate) fn turn_of(&self, session: &Arc<Session>) -> Result<Turn> {
        self.check_open()?;
        Turn::new(session, self.target.timeouts.request)
    }

    async fn session(&self) -> Result<Arc<Session>> {
        let dialled = self.dialled.load(Ordering::Acquire);
        if let Some(session) = self.alive()? {
            return Ok(session);
        }
        // In a box, as hardly any call comes so far: every attempt and release would have room for it, more than for all else.
        Box::pin(self.dialled_since(dialled)).await
    }

    /// One that is made now, or was since as many were.
    async fn dialled_since(&self, dialled: u64) -> Result<Arc<Session>> {
        let mut last = self.dialling.lock().await;
        if let Some(session) = self.alive()? {
            return Ok(session);
        }
        // A hundred waiters of a store that is down are told so together, not one after the other.
        // And those who come right after them, too: servers that refuse at once are not to be asked at once again.
        if let Some((error, at)) = &last.failed
            && (self.dialled.load(Ordering::Acquire) > dialled || at.elapsed() < dial::PAUSE)
        {
            return Err(error.clone());
        }
        let made = dial::dial(&self.target, &mut last.given).await.and_then(|client| self.enter(client));
        last.failed = made.as_ref().err().map(|error| (error.clone(), Instant::now()));
        self.dialled.fetch_add(1, Ordering::Release);
        made
    }

    /// The session there is, unless it is over.
    fn alive(&self) -> Result<Option<Arc<Session>>> {
        match &*self.current() {
            Current::Closed => Err(closed()),
            Current::Some(session) if !session.is_over() => Ok(Some(Arc::clone(session))),
            Current::Some(_) | Current::None => Ok(None),
        }
    }

    /// True if there is no session of this process that the servers may know: there was none, or the last one is long over.
    pub(crate) fn are_all_long_over(&self) -> bool {
        match &*self.current() {
            Current::None => true,
            Current::Some(session) => session.is_long_over(),
            Current::Closed => false,
        }
    }

    fn check_open(&self) -> Result<()> {
        match &*self.current() {
            Current::Closed => Err(closed()),
            Current::Some(_) | Current::None => Ok(()),
        }
    }

    fn enter(&self, client: Client) -> Result<Arc<Session>> {
        let nowhere = format!("{}/%-{}/proof", self.target.base, OwnerId::random()?.to_hex());
        let (id, states, soon) = (client.session_id().0, client.state_watcher(), Arc::<Soon>::default());
        let session = Arc::new(Session {
            id,
            timeout: client.session_timeout(),
            states: client.state_watcher(),
            client: Mutex::new(Some(Arc::new(client))),
            soon: Arc::clone(&soon),
            room: Arc::default(),
            proof: Shared::new(),
            nowhere,
            over_since: OnceLock::new(),
        });
        let mut current = self.current();
        if matches!(*current, Current::Closed) {
            return Err(closed());
        }
        *current = Current::Some(Arc::clone(&session));
        drop(current);
        let (weak, places) = (Arc::downgrade(&session), Arc::clone(&self.places));
        tokio::spawn(ear::listen(EndIsTold { session: weak, places, id }, states, soon));
        Ok(session)
    }

    /// Ends the session, and with it every node that is left.
    ///
    /// # Errors
    ///
    /// [`Indeterminate`](ErrorKind::Indeterminate) if the server has not confirmed it: then it ends by its time-out.
    pub(crate) async fn close(&self) -> Result<()> {
        let current = std::mem::replace(&mut *self.current(), Current::Closed);
        let Current::Some(session) = current else {
            return Ok(());
        };
        if session.close().await {
            return Ok(());
        }
        let message = format!("ZooKeeper has not confirmed the end of the session within {CLOSE_AT_MOST:?}");
        let help = "what is left of it ends when the server misses it: after the session time-out";
        Err(Error::new(ErrorKind::Indeterminate, message).with_help(help))
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Its number, by which the server says whose a node is.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// After how long without a word the server ends it.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// For how long a hold may be believed in, counted from the send of a request that a majority has agreed to
    /// (see [`Turn::prove`]): three quarters of the session's time.
    ///
    /// It is the leader that ends a session, and it hears of what a client has sent to another server with that
    /// server's answer to its next ping, half a tick later. A server that is cut off from its leader in between has
    /// answered, and the leader counts from the request before. Proofs are asked for at a third of this time, so the
    /// one before was sent a quarter of the session's time earlier; and a session is no shorter than two ticks, so by
    /// then the leader knew of it.
    pub(crate) fn lease(&self) -> Duration {
        self.timeout / 4 * 3
    }

    /// True once it cannot be used any more. The library says so later than the server, so it decides nothing but that
    /// another session is needed. The ear ends early with the runtime on which the session was made.
    pub(crate) fn is_over(&self) -> bool {
        self.over_since.get().is_some() || self.states.peek_state().is_terminated()
    }

    /// True while there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.states.peek_state() == SessionState::SyncConnected
    }

    /// True once the servers have ended it too, if they have had a leader all the time. Without one they end no session,
    /// but then they end this one by themselves, its time after they have one again: nobody keeps it alive any more.
    pub(crate) fn is_long_over(&self) -> bool {
        self.is_over() && *self.over_since.get_or_init(Instant::now) + self.timeout < Instant::now()
    }

    fn note_end(&self) {
        self.over_since.get_or_init(Instant::now);
    }

    fn client(&self) -> Option<Arc<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if the server has heard of it in time.
    async fn close(&self) -> bool {
        let mut states = self.states.clone();
        // The library ends the session when the last handle is gone; calls under way have theirs to their end.
        drop(self.client.lock().unwrap_or_else(PoisonError::into_inner).take());
        let closed = async {
            while !states.peek_state().is_terminated() {
                states.changed().await;
            }
        };
        tokio::time::timeout(CLOSE_AT_MOST, closed).await.is_ok()
    }
}

/// Without the client, whose session password is as good as the session.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

fn over() -> Error {
    Error::new(ErrorKind::Unavailable, "the session with ZooKeeper is over")
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store was closed").with_help("open it again")
}
