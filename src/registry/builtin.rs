//! The backends of this workspace: the features that each scheme needs, and how it is opened.

use super::{Factory, Registry, Scheme};
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{LockBackend, Namespace, Result};
use leasehold_store_url::StoreUrl;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// All schemes, and the features that each needs. For one that is not compiled in, the error names them.
pub(super) const SCHEMES: [(&str, &str); 24] = [
    ("etcd", "etcd"),
    ("etcd+tls", "etcd,tls"),
    ("redis", "redis"),
    ("rediss", "redis,tls"),
    ("valkey", "redis"),
    ("valkeys", "redis,tls"),
    ("redis+unix", "redis"),
    ("redis+sentinel", "redis"),
    ("rediss+sentinel", "redis,tls"),
    ("valkey+sentinel", "redis"),
    ("valkeys+sentinel", "redis,tls"),
    ("redis+cluster", "redis"),
    ("rediss+cluster", "redis,tls"),
    ("valkey+cluster", "redis"),
    ("valkeys+cluster", "redis,tls"),
    ("redlock", "redis"),
    ("redlock+tls", "redis,tls"),
    ("mariadb", "mysql"),
    ("mysql", "mysql"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("sqlite", "sqlite"),
    ("zk", "zookeeper"),
    ("zk+tls", "zookeeper-tls"),
];

type Open = fn(&StoreUrl, &Namespace) -> Result<Arc<dyn LockBackend>>;

const FEATURES: [(&str, bool); 8] = [
    ("etcd", cfg!(feature = "etcd")),
    ("mysql", cfg!(feature = "mysql")),
    ("postgres", cfg!(feature = "postgres")),
    ("redis", cfg!(feature = "redis")),
    ("sqlite", cfg!(feature = "sqlite")),
    ("tls", cfg!(feature = "tls")),
    ("zookeeper", cfg!(feature = "zookeeper")),
    ("zookeeper-tls", cfg!(feature = "zookeeper-tls")),
];

/// The features that a scheme needs, if one of them is not on.
pub(super) fn missing_features(scheme: &str) -> Option<&'static str> {
    let (_, features) = SCHEMES.iter().find(|(known, _)| *known == scheme)?;
    (!features.split(',').all(|feature| FEATURES.contains(&(feature, true)))).then_some(features)
}

pub(super) fn compiled_in() -> Registry {
    let mut registry = Registry::empty();
    registry.add("memory", "", open_memory);
    #[cfg(feature = "etcd")]
    for scheme in leasehold_etcd::SCHEMES {
        registry.add(scheme, leasehold_etcd::DEFAULT_PREFIX, leasehold_etcd::open);
    }
    #[cfg(feature = "redis")]
    for scheme in leasehold_redis::SCHEMES {
        registry.add(scheme, leasehold_redis::DEFAULT_PREFIX, leasehold_redis::open);
    }
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    for scheme in leasehold_sql::SCHEMES {
        registry.add(scheme, "", leasehold_sql::open);
    }
    #[cfg(feature = "zookeeper")]
    for scheme in leasehold_zk::SCHEMES {
        registry.add(scheme, leasehold_zk::DEFAULT_PREFIX, leasehold_zk::open);
    }
    registry
}

impl Registry {
    /// Serves a scheme by a backend of this workspace, unless a feature of the scheme is not on: without TLS the Redis
    /// backend has the scheme `rediss` too.
    #[expect(
        clippy::expect_used,
        reason = "each prefix is a constant of this workspace, which the tests register"
    )]
    fn add(&mut self, scheme: &str, default_prefix: &str, open: Open) {
        if missing_features(scheme).is_some() {
            return;
        }
        let factory: Factory =
            Arc::new(move |url, namespace| Box::pin(std::future::ready(open(&url, &namespace))));
        let default_prefix = Namespace::new(default_prefix).expect("a prefix of lock names");
        self.schemes.insert(scheme.to_owned(), Scheme { factory, default_prefix });
    }
}

/// `memory:` is a new store; `memory:NAME` is shared by all clients that name it, until the last of them is dropped.
fn open_memory(url: &StoreUrl, namespace: &Namespace) -> Result<Arc<dyn LockBackend>> {
    type Stores = BTreeMap<(String, String), Weak<MemoryBackend>>;
    static STORES: Mutex<Stores> = Mutex::new(BTreeMap::new());

    url.query().finish()?;
    let name = url.path()?;
    if name.is_empty() {
        return Ok(Arc::new(MemoryBackend::new()));
    }
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    stores.retain(|_, store| store.strong_count() > 0);
    // The store has nothing but locks, so one store for each prefix is as good as one store with prefixes.
    let key = (name, namespace.prefix().to_owned());
    if let Some(store) = stores.get(&key).and_then(Weak::upgrade) {
        return Ok(store);
    }
    let store = Arc::new(MemoryBackend::new());
    stores.insert(key, Arc::downgrade(&store));
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "full")]
    #[test]
    fn schemes_of_the_backends_are_all_listed() {
        let of_backends = leasehold_etcd::SCHEMES.iter().chain(leasehold_redis::SCHEMES);
        let of_backends = of_backends.chain(leasehold_sql::SCHEMES);
        let of_backends: Vec<&str> = of_backends.chain(leasehold_zk::SCHEMES).copied().collect();
        assert_eq!(SCHEMES.map(|(scheme, _)| scheme).to_vec(), of_backends);
    }

    #[test]
    fn compiled_in_schemes_are_those_of_the_features() {
        let all = SCHEMES.into_iter().map(|(scheme, _)| scheme);
        let on = all.filter(|scheme| missing_features(scheme).is_none());
        let mut expected: Vec<&str> = on.chain(["memory"]).collect();
        expected.sort_unstable();
        assert_eq!(compiled_in().schemes().collect::<Vec<_>>(), expected);
    }
}
