//! What a session hears: its own state, and the watches that fire. One task a session, whatever the number of locks.

use super::Session;
use super::soon::Soon;
use super::turn::Read;
use crate::place::{Place, Places};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use tokio::sync::{mpsc, oneshot};
use zookeeper_client::{OneshotWatcher, SessionState, StateWatcher};

/// A watch that is being listened to. Dropped, it is taken back from the server, where it would stay for as long as the
/// node lives: one for every attempt at a lock that is held for a year.
#[derive(Debug)]
pub(crate) struct Listening {
    _until_dropped: oneshot::Sender<Infallible>,
}

/// A watch on its way to the ear.
pub(super) struct Heard {
    fired: Pin<Box<dyn Future<Output = ()> + Send>>,
    place: Arc<Place>,
    dropped: oneshot::Receiver<Infallible>,
}

impl Listening {
    /// With it, whoever is to know that it was dropped.
    pub(super) fn new() -> (Self, oneshot::Receiver<Infallible>) {
        let (until_dropped, dropped) = oneshot::channel();
        (Self { _until_dropped: until_dropped }, dropped)
    }
}

/// Makes a watch to be listened to, for a place that is told when it fires.
pub(super) fn listening(watcher: OneshotWatcher, place: &Arc<Place>) -> (Listening, Heard) {
    let (listening, dropped) = Listening::new();
    let fired = Box::pin(async move {
        watcher.changed().await;
    });
    (listening, Heard { fired, place: Arc::clone(place), dropped })
}

impl Heard {
    /// A watch that is still to be set. One that cannot be set counts as fired.
    pub(super) fn from_now(read: Read, place: Arc<Place>, dropped: oneshot::Receiver<Infallible>) -> Self {
        let fired = Box::pin(async move {
            if let Some(watcher) = read.watch().await {
                watcher.changed().await;
            }
        });
        Self { fired, place, dropped }
    }
}

/// Listens until the session is over.
pub(super) async fn listen(
    session: Weak<Session>,
    mut states: StateWatcher,
    mut watches: mpsc::UnboundedReceiver<Heard>,
    soon: Arc<Soon>,
    places: Arc<Places>,
    id: i64,
) {
    let _told = EndIsTold { session, places: Arc::clone(&places), id };
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            state = states.changed() => match state {
                // Whoever holds is at risk, and learns of it by asking.
                SessionState::Disconnected => places.suspect_all_of(id),
                // Whoever could not be told before may ask again.
                SessionState::SyncConnected | SessionState::ConnectedReadOnly => places.reconnected(id),
                SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => break,
            },
            Some(heard) = watches.recv() => open.push(fired(heard)),
            heard = soon.due() => open.push(fired(heard)),
            Some(place) = open.next() => {
                if let Some(place) = place {
                    places.fired(&place);
                }
            }
        }
    }
}

/// Tells everybody that the session is over, however the ear ends: also when the runtime ends under it, or when the library
/// panics because its own task has ended so.
struct EndIsTold {
    session: Weak<Session>,
    places: Arc<Places>,
    id: i64,
}

impl Drop for EndIsTold {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            // First, so that whoever is told finds it over.
            session.note_end();
        }
        self.places.session_over(self.id);
    }
}

/// The place, when its watch fires; none if nobody listens any more.
async fn fired(heard: Heard) -> Option<Arc<Place>> {
    let Heard { fired, place, dropped } = heard;
    tokio::select! {
        () = fired => Some(place),
        _ = dropped => None,
    }
}
