//! G are used again, because to start one takes longer than most cases.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// G that no case uses at the moment. They end with the subject.
#[derive(Debug)]
pub(super) struct ServerPool<G> {
    idle: Mutex<Vec<G>>,
}

/// G that go back to their pool when they are dropped, unless they were harmed.
#[derive(Debug)]
pub(super) struct Pooled<G> {
    /// `None` only while this value is dropped.
    servers: Option<G>,
    /// `None` if they end with this value.
    pool: Option<Arc<ServerPool<G>>>,
}

impl<G> Default for ServerPool<G> {
    fn default() -> Self {
        Self { idle: Mutex::default() }
    }
}

impl<G> ServerPool<G> {
    /// G that were used before, if there are any.
    pub(super) fn take(self: &Arc<Self>) -> Option<Pooled<G>> {
        let servers = self.idle().pop()?;
        Some(self.lend(servers))
    }

    /// G that come here when their user is done.
    pub(super) fn lend(self: &Arc<Self>, servers: G) -> Pooled<G> {
        Pooled { servers: Some(servers), pool: Some(Arc::clone(self)) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<G>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<G> Pooled<G> {
    /// G that never go to any pool.
    pub(super) fn apart(servers: G) -> Self {
        Self { servers: Some(servers), pool: None }
    }

    /// The servers end with this value.
    pub(super) fn keep_from_others(&mut self) {
        self.pool = None;
    }
}

impl<G> Drop for Pooled<G> {
    fn drop(&mut self) {
        if let (Some(servers), Some(pool)) = (self.servers.take(), self.pool.take()) {
            pool.idle().push(servers);
        }
    }
}

impl<G> Deref for Pooled<G> {
    type Target = G;

    fn deref(&self) -> &G {
        self.servers.as_ref().unwrap_or_else(|| unreachable!("it is taken out only when it is dropped"))
    }
}

impl<G> DerefMut for Pooled<G> {
    fn deref_mut(&mut self) -> &mut G {
        self.servers.as_mut().unwrap_or_else(|| unreachable!("it is taken out only when it is dropped"))
    }
}
