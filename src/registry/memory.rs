//! `memory:`, locks of this process.

use leasehold_core::memory::MemoryBackend;
use leasehold_core::{LockBackend, Namespace, Result, StoreUrl};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// `memory:` is a store of its own; `memory:NAME` is shared by all who name it, for as long as one of them is there.
pub(super) fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Arc<dyn LockBackend>> {
    url.query().finish()?;
    let name = url.path()?;
    if name.is_empty() {
        return Ok(Arc::new(MemoryBackend::new()));
    }
    Ok(shared(name, namespace))
}

/// The one store of this name and namespace: with nothing but locks in it, a store per namespace is a namespace.
fn shared(name: String, namespace: &Namespace) -> Arc<MemoryBackend> {
    type Stores = BTreeMap<(String, String), Weak<MemoryBackend>>;
    static STORES: Mutex<Stores> = Mutex::new(BTreeMap::new());
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    stores.retain(|_, store| store.strong_count() > 0);
    let key = (name, namespace.prefix().to_owned());
    if let Some(store) = stores.get(&key).and_then(Weak::upgrade) {
        return store;
    }
    let store = Arc::new(MemoryBackend::new());
    stores.insert(key, Arc::downgrade(&store));
    store
}
