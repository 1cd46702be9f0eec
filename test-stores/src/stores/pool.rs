//! Servers are used again: to start one takes longer than most cases.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Servers that nobody uses at the moment. They end with the subject.
#[derive(Debug)]
pub(super) struct Pool<Server> {
    idle: Mutex<Vec<Server>>,
}

/// A server that goes back to its pool when it is dropped, unless it was harmed.
#[derive(Debug)]
pub(super) struct Pooled<Server> {
    /// `None` while it is dropped, and never before.
    server: Option<Server>,
    pool: Option<Arc<Pool<Server>>>,
    harmed: AtomicBool,
}

impl<Server> Default for Pool<Server> {
    fn default() -> Self {
        Self { idle: Mutex::default() }
    }
}

impl<Server> Pool<Server> {
    /// A server that was used before and is well, if there is one.
    pub(super) fn take(self: &Arc<Self>) -> Option<Pooled<Server>> {
        let server = self.idle().pop()?;
        Some(self.lend(server))
    }

    /// A server that comes here when its user is done.
    pub(super) fn lend(self: &Arc<Self>, server: Server) -> Pooled<Server> {
        Pooled { server: Some(server), pool: Some(Arc::clone(self)), harmed: AtomicBool::new(false) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Server>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Server> Pooled<Server> {
    /// A server that never goes to any pool.
    pub(super) fn apart(server: Server) -> Self {
        Self { server: Some(server), pool: None, harmed: AtomicBool::new(false) }
    }

    /// It ends with this value.
    pub(super) fn keep_from_others(&self) {
        self.harmed.store(true, Ordering::Relaxed);
    }
}

impl<Server> Drop for Pooled<Server> {
    fn drop(&mut self) {
        if let (Some(server), Some(pool), false) =
            (self.server.take(), self.pool.take(), *self.harmed.get_mut())
        {
            pool.idle().push(server);
        }
    }
}

impl<Server> Deref for Pooled<Server> {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.server.as_ref().unwrap_or_else(|| unreachable!("it is taken out only when it is dropped"))
    }
}

impl<Server> DerefMut for Pooled<Server> {
    fn deref_mut(&mut self) -> &mut Server {
        self.server.as_mut().unwrap_or_else(|| unreachable!("it is taken out only when it is dropped"))
    }
}
