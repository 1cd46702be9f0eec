//! What all cases of a run share.

use leasehold_core::LockName;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// What all cases of a run share: what their random choices are made from, what their locks are called, and when they
/// are to stop.
#[derive(Clone, Debug)]
pub(crate) struct RunConfig {
    pub(crate) seed: u64,
    /// What stands in front of every lock name.
    pub(crate) root: String,
    /// The names that were used, where somebody wants to know.
    pub(crate) names: Option<Names>,
    pub(crate) interrupt: Interrupt,
}

/// Lock names that a run has used.
pub(crate) type Names = Arc<Mutex<BTreeSet<LockName>>>;

/// Ends early what it was asked of: a [`Run`](crate::Run), a [`Soak`](crate::Soak), the cells of a
/// [`Matrix`](crate::matrix::Matrix). Clones are one and the same.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<watch::Sender<bool>>);

impl RunConfig {
    /// The seed of the environment, or one of their own; names as they are.
    pub(crate) fn from_environment() -> Self {
        let seed = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
        Self {
            seed: seed.unwrap_or_else(|| fastrand::u64(..)),
            root: String::new(),
            names: None,
            interrupt: Interrupt::default(),
        }
    }

    pub(crate) fn note(&self, name: &LockName) {
        if let Some(names) = &self.names {
            names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        }
    }
}

impl Default for Interrupt {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Interrupt {
    /// Nothing further begins, and what runs is dropped where it is. Their servers and worker processes end.
    pub fn interrupt(&self) {
        self.0.send_replace(true);
    }

    /// True if it was asked for.
    pub fn is_asked_for(&self) -> bool {
        *self.0.borrow()
    }

    /// Ready when it is asked for.
    pub(crate) async fn asked_for(&self) {
        let mut watched = self.0.subscribe();
        // The sender lives as long as this.
        let _ = watched.wait_for(|interrupted| *interrupted).await;
    }
}
