use async_trait::async_trait;
use std::fmt;

/// How a server tells waiters that a lease was given up. A hint: a waiter asks by itself as well.
#[async_trait]
pub(crate) trait Bell: fmt::Debug + Send + Sync {
    /// Begins to listen for a name, if that has not begun. From when this returns on, a ring is not missed.
    async fn listen(&self, name: &[u8]) -> Ear;
}

/// Somebody who listens for one name.
#[derive(Debug)]
pub(crate) struct Ear(tokio::sync::watch::Receiver<u64>);

impl Ear {
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL can ring"))]
    pub(crate) fn new(rings: tokio::sync::watch::Receiver<u64>) -> Self {
        Self(rings)
    }

    /// Returns when it rings; never, if nobody can ring any more.
    pub(crate) async fn rung(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
