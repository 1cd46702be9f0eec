use crate::locked;
use leasehold_core::LockName;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// What all cases of a run share: the seed of their random choices, the names of their locks, and when they are to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunConfig {
    pub(crate) seed: u64,
    /// What stands in front of every lock name.
    pub(crate) root: String,
    /// The names that were used, where somebody wants to know.
    pub(crate) names: Option<Names>,
    /// Once it is cancelled, nothing further begins, and what runs is dropped where it is. Servers and worker processes end.
    pub(crate) interrupt: CancellationToken,
}

/// Lock names that a run has used.
pub(crate) type Names = Arc<Mutex<BTreeSet<LockName>>>;

impl RunConfig {
    /// The seed of the environment, or one of their own; names as they are.
    pub(crate) fn from_environment() -> Self {
        let seed = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
        Self { seed: seed.unwrap_or_else(|| fastrand::u64(..)), ..Self::default() }
    }

    pub(crate) fn note(&self, name: &LockName) {
        if let Some(names) = &self.names {
            locked(names).insert(name.clone());
        }
    }
}
