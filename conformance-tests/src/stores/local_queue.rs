use crate::{Cannot, Case, Store, Subject};
use async_trait::async_trait;
use leasehold::LocalQueue;
use leasehold::{DistributedLock, Result};
use std::sync::Arc;

/// Another subject, with the local queue in every client.
#[derive(Debug)]
pub(crate) struct WithLocalQueue<S> {
    name: &'static str,
    subject: S,
}

/// Families and cases about the store, its servers and what is left of a process that died: what its own subject has
/// shown is not shown again. Q08 counts the places of tasks in the store's queue, and has one here.
const OF_THE_STORE: [&str; 6] = ["I", "J", "K", "P", "R", "Q08"];

impl<S: Subject> WithLocalQueue<S> {
    pub(crate) fn new(name: &'static str, subject: S) -> Self {
        Self { name, subject }
    }
}

#[async_trait]
impl<S: Subject> Subject for WithLocalQueue<S> {
    fn name(&self) -> &str {
        self.name
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        self.subject.start().await
    }

    /// An address is `URL` or `URL PREFIX`.
    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        let (url, prefix) = address.split_at(address.find(' ').unwrap_or(address.len()));
        let mark = if url.contains('?') { '&' } else { '?' };
        self.subject.connect(&format!("{url}{mark}{}=64{prefix}", LocalQueue::PARAMETER)).await
    }

    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        if OF_THE_STORE.iter().any(|family| case.id.starts_with(family)) {
            return Err(Cannot::new("a matter of the store, which has a subject of its own"));
        }
        self.subject.covers(case)
    }
}
