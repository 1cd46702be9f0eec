//! How many attempts of this process are under way at once.

use leasehold_core::StallTimeout;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A line before the ensemble, first come, first served.
#[derive(Debug)]
pub(crate) struct Crowd {
    places: Semaphore,
    patience: StallTimeout,
}

/// The right to ask.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    patience: &'a StallTimeout,
    _place: SemaphorePermit<'a>,
}

impl Crowd {
    pub(crate) fn new(at_once: usize, patience: Duration) -> Self {
        Self { places: Semaphore::new(at_once), patience: StallTimeout::new(patience) }
    }

    /// `None` if for so long it was nobody's turn who was then answered.
    pub(crate) async fn enter(&self) -> Option<Asking<'_>> {
        let place = self.patience.wait(self.places.acquire()).await?.ok()?;
        Some(Asking { patience: &self.patience, _place: place })
    }
}

impl Asking<'_> {
    /// The ensemble has answered, whatever it said.
    pub(crate) fn was_answered(&self) {
        self.patience.answered();
    }
}
