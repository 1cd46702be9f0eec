use leasehold_conformance::servers::{StartError, ZooKeeperServer};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Servers that nobody uses at the moment. They end with the subject.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<ZooKeeperServer>>,
}

/// A server that goes back to its pool when it is dropped, unless it was harmed.
#[derive(Debug)]
pub(super) struct Pooled {
    server: Option<ZooKeeperServer>,
    pool: Option<Arc<Pool>>,
}

impl Pool {
    pub(super) fn take(
        self: &Arc<Self>,
        start: impl FnOnce() -> Result<ZooKeeperServer, StartError>,
    ) -> Result<Pooled, StartError> {
        let idle = self.idle().pop();
        let server = idle.map_or_else(start, Ok)?;
        Ok(Pooled { server: Some(server), pool: Some(Arc::clone(self)) })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<ZooKeeperServer>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pooled {
    /// It ends with this value.
    pub(super) fn keep_from_others(&mut self) {
        self.pool = None;
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let (Some(server), Some(pool)) = (self.server.take(), self.pool.take()) {
            pool.idle().push(server);
        }
    }
}

impl Deref for Pooled {
    type Target = ZooKeeperServer;

    fn deref(&self) -> &ZooKeeperServer {
        self.server.as_ref().unwrap()
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut ZooKeeperServer {
        self.server.as_mut().unwrap()
    }
}
