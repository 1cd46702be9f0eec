//! Leaving a primary that was replaced, before it is told.
//!
//! A primary that is replaced while it is well, as by `SENTINEL FAILOVER`, goes on as a primary for ten seconds: so long do
//! the Sentinels wait before they make a replica of it. What a holder renews there meanwhile, another may hold on the new
//! one. So while there is a connection to a primary, the Sentinels are asked once a second who it is.
//!
//! One word of a later fail-over than that which led to the old primary is enough to leave it. A Sentinel that was cut
//! off cannot have such a word, so it drives nobody away.

use super::multiplexed::Connection;
use super::route::Route;
use crate::topology::sentinel::{Epoch, PrimaryReport};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::task::AbortHandle;

/// The pause between two questions: for so long, and the time of an answer, two may hold.
const PAUSE: Duration = Duration::from_secs(1);

/// The open connections to a primary that Sentinels name, and the one task that asks for all of them.
#[derive(Debug, Default)]
pub(crate) struct FailoverMonitor {
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    /// Each with the word that led to it.
    connections: Vec<(Weak<Connection>, Epoch)>,
    /// It ends with the last of them, or with its runtime.
    task: Option<AbortHandle>,
}

impl FailoverMonitor {
    /// Ends the connection when another server is named.
    pub(super) fn watch(route: &Arc<Route>, connection: &Arc<Connection>, epoch: Epoch) {
        let Route::Primary(_, monitor) = &**route else { return };
        let mut watched = monitor.watched();
        watched.connections.push((Arc::downgrade(connection), epoch));
        if watched.task.as_ref().is_none_or(AbortHandle::is_finished) {
            watched.task = Some(tokio::spawn(keep_asking(Arc::clone(route))).abort_handle());
        }
    }

    /// The oldest word that led to a connection. None if there is no connection: then the task has to end.
    fn oldest(&self) -> Option<Epoch> {
        let mut watched = self.watched();
        watched.connections.retain(|(connection, _)| connection.upgrade().is_some_and(|one| one.is_open()));
        let oldest = watched.connections.iter().map(|(_, epoch)| *epoch).min();
        if oldest.is_none() {
            // Said while nobody can add one: the next one has a task of its own.
            watched.task = None;
        }
        oldest
    }

    /// Ends the connections to other servers that an older word has led to.
    fn end_before(&self, word: &PrimaryReport) {
        for (connection, epoch) in &mut self.watched().connections {
            let Some(connection) = connection.upgrade().filter(|_| *epoch < word.epoch) else { continue };
            if *connection.address() == word.address {
                *epoch = word.epoch;
            } else {
                tracing::debug!(target: "leasehold", old = %connection.address(), new = %word.address, "replaced");
                connection.end();
            }
        }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn keep_asking(route: Arc<Route>) {
    let Route::Primary(sentinels, monitor) = &*route else { return };
    let mut lines = sentinels.lines();
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(known) = monitor.oldest() else { return };
        if let Some(word) = sentinels.word_since(known, &mut lines).await {
            monitor.end_before(&word);
        }
    }
}
