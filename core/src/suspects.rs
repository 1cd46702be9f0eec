use crate::OwnerId;
use crate::sync::{Mutex, locked};
use std::collections::HashSet;
use tokio::sync::Notify;

/// The owners of holds that may be over, as [`LockBackend::suspects`](crate::LockBackend::suspects) returns them. For backends.
#[derive(Debug, Default)]
pub struct Suspects {
    owners: Mutex<HashSet<OwnerId>>,
    added: Notify,
}

impl Suspects {
    /// Adds an owner, unless it is there.
    pub fn add(&self, owner: OwnerId) {
        locked(&self.owners).insert(owner);
        self.added.notify_one();
    }

    /// Waits until there are owners, and takes them. Safe to drop: an owner that is taken is returned at once.
    pub async fn take(&self) -> Vec<OwnerId> {
        loop {
            let owners = std::mem::take(&mut *locked(&self.owners));
            if !owners.is_empty() {
                return owners.into_iter().collect();
            }
            self.added.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn suspect_that_is_added_twice_is_taken_once() {
        let (suspects, owner) = (Suspects::default(), OwnerId::from_u128(7));
        suspects.add(owner);
        suspects.add(owner);
        assert_eq!(suspects.take().await, [owner]);
        assert_eq!(suspects.take().now_or_never(), None);
    }
}
