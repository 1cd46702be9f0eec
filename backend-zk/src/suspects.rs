//! Who is to be told that it had better ask, because something has happened where it holds.

use leasehold_core::OwnerId;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Holders to be told that they had better ask.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// Each of them once: the end of a session is told by its watch too.
    owners: Mutex<HashSet<OwnerId>>,
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
                return owners.into_iter().collect();
            }
            // A notice that comes before this line is kept for it.
            self.told.notified().await;
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashSet<OwnerId>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_is_suspected_twice_is_told_once() {
        let (suspects, owner) = (Suspects::default(), OwnerId::random().unwrap());
        suspects.add([owner]);
        suspects.add([owner, owner]);
        assert_eq!(suspects.take().await, [owner]);
    }
}
