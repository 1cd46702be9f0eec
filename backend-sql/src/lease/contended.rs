use leasehold_core::LockName;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most names that are remembered. A forgotten one costs a write in place of a read.
const MOST: usize = 1024;

/// The names that were busy when this process last asked for them. A hint, on which nothing but cost depends.
#[derive(Debug, Default)]
pub(crate) struct Contended(Mutex<HashSet<LockName>>);

impl Contended {
    pub(super) fn has(&self, name: &LockName) -> bool {
        self.names().contains(name)
    }

    pub(super) fn add(&self, name: &LockName) {
        let mut names = self.names();
        if names.len() >= MOST {
            names.clear();
        }
        names.insert(name.clone());
    }

    pub(super) fn remove(&self, name: &LockName) {
        self.names().remove(name);
    }

    fn names(&self) -> MutexGuard<'_, HashSet<LockName>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_names_is_bounded() {
        let contended = Contended::default();
        for number in 0..3 * MOST {
            contended.add(&LockName::new(format!("n{number}")).unwrap());
        }
        assert!(contended.names().len() <= MOST);
        let last = LockName::new(format!("n{}", 3 * MOST - 1)).unwrap();
        assert!(contended.has(&last));
        contended.remove(&last);
        assert!(!contended.has(&last));
    }
}
