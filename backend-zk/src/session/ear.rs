//! What a session hears of itself. One task a session, whatever the number of locks. Watches that fire are not its
//! business: they ring the bells of their claims.

use super::Session;
use super::soon::{Later, Soon};
use crate::place::Places;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::sync::{Arc, Weak};
use zookeeper_client::{SessionState, StateWatcher};

/// Tells everybody that the session is over, however the ear ends: also when the runtime ends under it, before it has begun
/// or after.
pub(super) struct EndIsTold {
    pub(super) session: Weak<Session>,
    pub(super) places: Arc<Places>,
    pub(super) id: i64,
}

/// Listens until the session is over, and sets the watches that are due.
pub(super) async fn listen(told: EndIsTold, mut states: StateWatcher, soon: Arc<Soon>) {
    let mut reads = FuturesUnordered::new();
    loop {
        tokio::select! {
            state = states.changed() => match state {
                // Whoever holds is at risk, and learns of it by asking.
                SessionState::Disconnected => told.places.suspect_all_of(told.id),
                // Whoever could not be told before may ask again.
                SessionState::SyncConnected | SessionState::ConnectedReadOnly => told.places.reconnected(told.id),
                SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => break,
            },
            later = soon.due() => reads.push(Later::set(later)),
            Some(()) = reads.next() => {}
        }
    }
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
