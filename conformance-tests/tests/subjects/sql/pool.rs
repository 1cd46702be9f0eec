use super::SqlServer;
use leasehold_conformance::Cannot;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Servers that nobody uses at the moment. They end with the subject.
#[derive(Debug)]
pub(super) struct Pool<Server> {
    idle: Mutex<Vec<Server>>,
}

/// A server that goes back to its pool when it is dropped, unless it was harmed.
#[derive(Debug)]
pub(super) struct Pooled<Server> {
    server: Option<Server>,
    pool: Option<Arc<Pool<Server>>>,
}

impl<Server> Default for Pool<Server> {
    fn default() -> Self {
        Self { idle: Mutex::default() }
    }
}

impl<Server: SqlServer> Pool<Server> {
    /// A server that was used before and is well, if there is one.
    pub(super) fn take(self: &Arc<Self>) -> Option<Pooled<Server>> {
        let server = self.idle().pop()?;
        Some(Pooled { server: Some(server), pool: Some(Arc::clone(self)) })
    }

    /// A new one.
    pub(super) async fn start(self: &Arc<Self>) -> Result<Pooled<Server>, Cannot> {
        let server = Server::launch(Vec::new()).await?;
        Ok(Pooled { server: Some(server), pool: Some(Arc::clone(self)) })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Server>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Server> Pooled<Server> {
    /// A server that never goes to any pool.
    pub(super) fn apart(server: Server) -> Self {
        Self { server: Some(server), pool: None }
    }

    /// It ends with this value.
    pub(super) fn keep_from_others(&mut self) {
        self.pool = None;
    }
}

impl<Server> Drop for Pooled<Server> {
    fn drop(&mut self) {
        if let (Some(server), Some(pool)) = (self.server.take(), self.pool.take()) {
            pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(server);
        }
    }
}

impl<Server> Deref for Pooled<Server> {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.server.as_ref().unwrap()
    }
}

impl<Server> DerefMut for Pooled<Server> {
    fn deref_mut(&mut self) -> &mut Server {
        self.server.as_mut().unwrap()
    }
}
