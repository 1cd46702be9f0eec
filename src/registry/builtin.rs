//! The backends of this workspace: which scheme needs which features, and how each is opened.

use super::{Registered, Registry, memory};
use leasehold_core::{LockBackend, Namespace, Result, StoreUrl};
use std::sync::Arc;

/// A scheme, and the features that bring it.
struct Scheme {
    name: &'static str,
    features: &'static str,
    is_on: bool,
}

/// Known also where they are not compiled in: then the error can say which feature to add.
static SCHEMES: [Scheme; 22] = {
    const REDIS: bool = cfg!(feature = "redis");
    const TLS: bool = cfg!(feature = "tls");
    const MYSQL: bool = cfg!(feature = "mysql");
    const POSTGRES: bool = cfg!(feature = "postgres");
    const SQLITE: bool = cfg!(feature = "sqlite");
    const ZOOKEEPER: bool = cfg!(feature = "zookeeper");
    [
        Scheme::new("redis", "redis", REDIS),
        Scheme::new("rediss", "redis,tls", REDIS && TLS),
        Scheme::new("valkey", "redis", REDIS),
        Scheme::new("valkeys", "redis,tls", REDIS && TLS),
        Scheme::new("redis+unix", "redis", REDIS),
        Scheme::new("redis+sentinel", "redis", REDIS),
        Scheme::new("rediss+sentinel", "redis,tls", REDIS && TLS),
        Scheme::new("valkey+sentinel", "redis", REDIS),
        Scheme::new("valkeys+sentinel", "redis,tls", REDIS && TLS),
        Scheme::new("redis+cluster", "redis", REDIS),
        Scheme::new("rediss+cluster", "redis,tls", REDIS && TLS),
        Scheme::new("valkey+cluster", "redis", REDIS),
        Scheme::new("valkeys+cluster", "redis,tls", REDIS && TLS),
        Scheme::new("redlock", "redis", REDIS),
        Scheme::new("redlock+tls", "redis,tls", REDIS && TLS),
        Scheme::new("mariadb", "mysql", MYSQL),
        Scheme::new("mysql", "mysql", MYSQL),
        Scheme::new("postgres", "postgres", POSTGRES),
        Scheme::new("postgresql", "postgres", POSTGRES),
        Scheme::new("sqlite", "sqlite", SQLITE),
        Scheme::new("zk", "zookeeper", ZOOKEEPER),
        Scheme::new("zk+tls", "zookeeper-tls", cfg!(feature = "zookeeper-tls")),
    ]
};

type Open = fn(&StoreUrl, &Namespace) -> Result<Arc<dyn LockBackend>>;

impl Scheme {
    const fn new(name: &'static str, features: &'static str, is_on: bool) -> Self {
        Self { name, features, is_on }
    }
}

/// The features that bring a scheme, if they are not on.
pub(super) fn missing_features(scheme: &str) -> Option<&'static str> {
    let known = SCHEMES.iter().find(|known| known.name == scheme);
    known.filter(|known| !known.is_on).map(|known| known.features)
}

/// Every scheme there is, whether or not it is compiled in.
pub(super) fn all<'a>() -> impl Iterator<Item = &'a str> {
    SCHEMES.iter().map(|scheme| scheme.name)
}

pub(super) fn compiled_in() -> Registry {
    let mut registry = Registry::empty();
    registry.add("memory", "", memory::open);
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
    /// Serves a scheme by a backend of this workspace, unless a feature of the scheme is not on: the backend of `redis`
    /// knows `rediss` also without TLS.
    fn add(&mut self, scheme: &str, default_prefix: &'static str, open: Open) {
        if missing_features(scheme).is_some() {
            return;
        }
        let registered = Registered {
            factory: Arc::new(move |url, namespace| Box::pin(std::future::ready(open(&url, &namespace)))),
            default_prefix,
        };
        self.schemes.insert(scheme.to_owned(), registered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "full")]
    #[test]
    fn every_scheme_of_a_backend_is_known_here_with_its_features() {
        let of_backends = leasehold_redis::SCHEMES.iter().chain(leasehold_sql::SCHEMES);
        let of_backends: Vec<&str> = of_backends.chain(leasehold_zk::SCHEMES).copied().collect();
        assert_eq!(all().collect::<Vec<_>>(), of_backends);
    }

    #[test]
    fn what_is_compiled_in_is_what_the_features_say() {
        let on = SCHEMES.iter().filter(|scheme| scheme.is_on).map(|scheme| scheme.name);
        let mut expected: Vec<&str> = on.chain(["memory"]).collect();
        expected.sort_unstable();
        assert_eq!(compiled_in().schemes().collect::<Vec<_>>(), expected);
    }
}
