//! Who is to be told that it had better ask, because something has happened where it holds.

use leasehold_core::OwnerId;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Holders to be told that they had better ask.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    owners: Mutex<Vec<OwnerId>>,
    told: Notify,
}

impl Suspects {
    pub(crate) fn add(&self, owners: impl IntoIterator<Item = OwnerId>) {
        self.owners().extend(owners);
        self.told.notify_one();
    }

    /// Those who hold and had better ask; waits until there are any.
    pub(crate) async fn take(&self) -> Vec<OwnerId> {
        loop {
            let owners = std::mem::take(&mut *self.owners());
            if !owners.is_empty() {
                return owners;
            }
            // A notice that comes before this line is kept for it.
            self.told.notified().await;
        }
    }

    fn owners(&self) -> MutexGuard<'_, Vec<OwnerId>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
