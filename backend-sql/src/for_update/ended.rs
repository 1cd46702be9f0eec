//! Who is to hear that a lock of this process has ended: the next holder may be in this process too.

use leasehold_core::LockName;
use std::hash::{DefaultHasher, Hash, Hasher};
use tokio::sync::Notify;

const PLACES: usize = 64;

/// A place for each name, in which others may share: their waiters ask in vain. If there were one place for all, every release would
/// make every waiter ask, whatever it waits for.
#[derive(Debug)]
pub(super) struct Ended([Notify; PLACES]);

impl Ended {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Notify::new()))
    }

    pub(super) fn of(&self, name: &LockName) -> &Notify {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        &self.0[hasher.finish() as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn who_waits_for_another_name_is_not_woken() {
        let ended = Ended::new();
        let names: Vec<LockName> =
            (0..10).map(|number| LockName::new(format!("job/{number}")).unwrap()).collect();
        let waiting: Vec<_> = names.iter().map(|name| ended.of(name).notified()).collect();
        ended.of(&names[0]).notify_waiters();
        let woken: Vec<bool> = waiting.into_iter().map(|waits| waits.now_or_never().is_some()).collect();
        assert!(woken[0] && woken.iter().filter(|woken| **woken).count() < 5, "{woken:?}");
    }
}
