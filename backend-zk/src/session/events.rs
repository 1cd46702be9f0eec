//! The task of a session that tells what happens to it. There is one for each session, whatever the number of locks.

use super::Session;
use std::fmt;
use std::sync::{Arc, Weak};
use zookeeper_client::{SessionState, StateWatcher};

/// What happens to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    Disconnected,
    Connected,
    Ended,
}

/// Is called for each event. It must not block.
#[derive(Clone)]
pub(crate) struct EventHandler(Arc<dyn Fn(SessionEvent) + Send + Sync>);

/// Tells of the end of the session when it is dropped: also if the runtime ends, before the task has begun or after.
pub(super) struct SessionEndGuard {
    pub(super) session: Weak<Session>,
    pub(super) handler: EventHandler,
}

/// Tells of connections until the session has ended.
pub(super) async fn session_events(guard: SessionEndGuard, mut states: StateWatcher) {
    loop {
        match states.changed().await {
            SessionState::Disconnected => guard.handler.handle(SessionEvent::Disconnected),
            SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                guard.handler.handle(SessionEvent::Connected);
            }
            SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => break,
        }
    }
}

impl EventHandler {
    pub(crate) fn new(handler: impl Fn(SessionEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(handler))
    }

    fn handle(&self, event: SessionEvent) {
        (self.0)(event);
    }
}

impl fmt::Debug for EventHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventHandler")
    }
}

impl Drop for SessionEndGuard {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            // First, so that the claims find it ended.
            session.note_end();
        }
        self.handler.handle(SessionEvent::Ended);
    }
}
