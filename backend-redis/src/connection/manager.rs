//! One connection, shared by all requests and made again after it broke.

use super::multiplexed::Connection;
use crate::locked;
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The pause between a failed attempt to connect and the next one: a server that is down, or comes up, is not hammered
/// by all who wait for it.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct ConnectionManager {
    /// They receive the messages of the server.
    pub(super) waiters: Arc<WaiterRegistry>,
    current: Mutex<Option<Arc<Connection>>>,
    /// One caller connects, the others wait for it. The failure of the last attempt, and when that ended.
    connecting: tokio::sync::Mutex<Option<(Error, Instant)>>,
    closed: AtomicBool,
}

impl ConnectionManager {
    pub(super) fn new(waiters: Arc<WaiterRegistry>) -> Self {
        Self { waiters, ..Self::default() }
    }

    /// The connection, if there is one that is of use for requests.
    pub(super) fn open_connection(&self) -> Result<Option<Arc<Connection>>> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::closed());
        }
        let connection = locked(&self.current).clone();
        Ok(connection.filter(|connection| connection.is_open()))
    }

    /// The open connection, or else the one that `connect` makes. However many callers wait, one connects.
    pub(super) async fn connection(
        &self,
        connect: impl Future<Output = Result<Arc<Connection>>>,
    ) -> Result<Arc<Connection>> {
        let begin = Instant::now();
        let mut last_failure = self.connecting.lock().await;
        if let Some(connection) = self.open_connection()? {
            return Ok(connection);
        }
        if let Some((failure, ended)) = &*last_failure {
            if *ended > begin {
                // It failed while this call waited for it.
                return Err(failure.clone());
            }
            tokio::time::sleep_until(*ended + RECONNECT_PAUSE).await;
        }
        let made = connect.await;
        *last_failure = made.as_ref().err().map(|error| (error.clone(), Instant::now()));
        let connection = made?;
        *locked(&self.current) = Some(Arc::clone(&connection));
        // Looked at after the connection was left there: of this and `close`, one sees the other.
        self.open_connection().inspect_err(|_| drop(locked(&self.current).take()))?;
        Ok(connection)
    }

    /// Ends the connection, and makes no other. Requests under way get no answer.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some(connection) = locked(&self.current).take() {
            connection.end();
        }
    }
}
