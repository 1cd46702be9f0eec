//! Messages of releases: they make the poller read a row at once.

use super::{Awaited, PollLoop};
use crate::lock_mutex;
use futures_util::TryStreamExt as _;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The pause after the connection for messages was lost. Meanwhile the poller polls as it does without messages.
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

impl PollLoop {
    /// Receives messages while tasks wait.
    pub(super) async fn listen(&self) {
        loop {
            while lock_mutex(&self.state).names.is_empty() {
                self.has_waiters.notified().await;
            }
            let Some(received) = self.receive().await else { return };
            let was_listening = std::mem::take(&mut lock_mutex(&self.state).is_listening);
            if was_listening {
                // Names that were left to messages are polled.
                self.note_release(None);
            }
            if let Err(error) = received {
                tracing::debug!(target: "leasehold", %error, "there is no connection for messages");
                sleep(RECONNECT_AFTER).await;
            }
        }
    }

    /// `None` if the database sends no messages, or a pooler is in between, which would hand them to the next client of the session
    /// that listens; `Ok` if no task waits after a time without a message; an error if there is no
    /// connection, or none to spare.
    async fn receive(&self) -> Option<sqlx::Result<()>> {
        let target = self.server.target();
        if self.server.has_shared_sessions() {
            return None;
        }
        if target.headroom.is_short() {
            return Some(Err(sqlx::Error::PoolTimedOut));
        }
        let listener = timeout(target.connect_timeout, self.server.dialect().listen()).await;
        let mut listener = match listener.unwrap_or(Some(Err(sqlx::Error::PoolTimedOut)))? {
            Ok(listener) => listener,
            Err(error) => return Some(Err(error)),
        };
        // This connection is kept only if the server accepts one more: waiters can do without it.
        if let Some(spare) = self.server.dialect().connect_spare().await {
            spare.close().await;
        }
        // Messages that were sent before this point were missed: every name is polled.
        lock_mutex(&self.state).is_listening = true;
        self.note_release(None);
        while !target.headroom.is_short() {
            match listener.try_next().await {
                Ok(Some(Some(name))) => self.note_release(Some(&name)),
                Ok(_) if lock_mutex(&self.state).names.is_empty() => return Some(Ok(())),
                Ok(_) => {}
                Err(error) => {
                    target.headroom.broke();
                    return Some(Err(error));
                }
            }
        }
        Some(Err(sqlx::Error::PoolTimedOut))
    }

    /// A lock was released, or perhaps any of them: it is polled after the shortest pause, and an earlier answer does not count.
    pub(super) fn note_release(&self, name: Option<&[u8]>) {
        let (now, mut state) = (Instant::now(), lock_mutex(&self.state));
        let poll_soon = |awaited: &mut Awaited| awaited.poll_soon(now);
        match name {
            Some(name) => state.names.get_mut(name).into_iter().for_each(poll_soon),
            None => state.names.values_mut().for_each(poll_soon),
        }
        drop(state);
        self.due_sooner.notify_one();
    }
}
