//! Servers are used again, because to start some takes longer than most cases.

use crate::locked;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// Groups of servers that no case uses at the moment. They end with the subject.
#[derive(Debug)]
pub(super) struct ServerPool<G> {
    idle: Mutex<Vec<G>>,
}

/// A group of servers that goes back to its pool when it is dropped, unless a case has harmed it.
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
    /// A group that was used before, if there is one.
    pub(super) fn take(self: &Arc<Self>) -> Option<Pooled<G>> {
        let servers = locked(&self.idle).pop()?;
        Some(self.lend(servers))
    }

    /// A group that comes here when its user is done.
    pub(super) fn lend(self: &Arc<Self>, servers: G) -> Pooled<G> {
        Pooled { servers: Some(servers), pool: Some(Arc::clone(self)) }
    }
}

impl<G> Pooled<G> {
    /// A group that never goes to any pool.
    pub(super) fn apart(servers: G) -> Self {
        Self { servers: Some(servers), pool: None }
    }

    /// The servers end with this value.
    pub(super) fn discard_after_use(&mut self) {
        self.pool = None;
    }
}

impl<G> Drop for Pooled<G> {
    fn drop(&mut self) {
        if let (Some(servers), Some(pool)) = (self.servers.take(), self.pool.take()) {
            locked(&pool.idle).push(servers);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unharmed_group_is_lent_again() {
        let pool = Arc::<ServerPool<u8>>::default();
        drop(pool.lend(7));
        assert_eq!(pool.take().as_deref(), Some(&7));
        assert!(pool.take().is_some(), "the last borrower gave it back");
    }

    #[test]
    fn harmed_group_is_never_lent_again() {
        let pool = Arc::<ServerPool<u8>>::default();
        let mut group = pool.lend(7);
        group.discard_after_use();
        drop(group);
        assert!(pool.take().is_none());
    }
}
