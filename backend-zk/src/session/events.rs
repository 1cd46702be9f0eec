//! The task of a session that tells what happens to it. There is one for each session, whatever the number of locks.

use super::Session;
use std::sync::{Arc, Weak};
use zookeeper_client::{SessionState, StateWatcher};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    /// The connection is lost, or there is one again.
    Connection,
    Ended,
}

/// Is called for each event. It must not block.
pub(crate) type EventHandler = Arc<dyn Fn(SessionEvent) + Send + Sync>;

/// Tells of the end of the session when it is dropped: also if the runtime ends, before the task has begun or after.
pub(super) struct SessionEndGuard {
    pub(super) session: Weak<Session>,
    pub(super) handler: EventHandler,
}

/// Tells of connections until the session has ended.
pub(super) async fn session_events(guard: SessionEndGuard, mut states: StateWatcher) {
    use SessionState::{ConnectedReadOnly, Disconnected, SyncConnected};
    while let Disconnected | SyncConnected | ConnectedReadOnly = states.changed().await {
        (guard.handler)(SessionEvent::Connection);
    }
}

impl Drop for SessionEndGuard {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            // First, so that the claims find it ended.
            session.note_end();
        }
        (self.handler)(SessionEvent::Ended);
    }
}
