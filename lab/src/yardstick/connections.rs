//! Connections to a database, of which each statement takes one and gives it back. Not the pool of `sqlx`: that one asks the server
//! whether a connection lives whenever it gets one back.

use super::contract::broken;
use leasehold::Result;
use sqlx::{ConnectOptions as _, Connection};
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// As many as the backend has by default.
const CONNECTIONS: usize = 8;

#[derive(Debug)]
pub(super) struct Connections<C: Connection> {
    pub(super) options: C::Options,
    idle: Mutex<Vec<C>>,
    permits: Semaphore,
}

impl<C: Connection> Connections<C> {
    /// Connects to nothing yet.
    pub(super) fn new(options: C::Options) -> Self {
        let options = options.disable_statement_logging();
        Self { options, idle: Mutex::default(), permits: Semaphore::new(CONNECTIONS) }
    }

    /// A connection, and the permit to have it.
    pub(super) async fn take(&self) -> Result<(C, SemaphorePermit<'_>)> {
        let permit = self.permits.acquire().await.map_err(|_| crate::load::unmeasured())?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.options.connect().await.map_err(broken)?,
        };
        Ok((connection, permit))
    }

    pub(super) fn give_back(&self, connection: C) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}
