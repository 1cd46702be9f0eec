//! Schemes and backends: what is compiled in, what is not, and one's own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

use leasehold::backend::{LockBackend, MemoryBackend};
use leasehold::{Config, DistributedLock, DistributedLockExt, Error, Registry};
use std::sync::Arc;

/// An error as people see it: kind, message, help.
fn said(error: &Error) -> String {
    format!("{:?}: {error}; {}", error.kind(), error.help().unwrap_or_default())
}

async fn refused(url: &str) -> String {
    said(&leasehold::connect(url).await.unwrap_err())
}

/// True if what one holds, the other cannot have.
async fn exclude_each_other(one: &dyn DistributedLock, other: &dyn DistributedLock) -> bool {
    let _held = one.acquire("a").await.unwrap();
    other.try_acquire("a").await.unwrap().is_none()
}

#[tokio::test]
async fn a_scheme_of_ones_own_is_one_call() {
    let store = MemoryBackend::new();
    let mut registry = Registry::default();
    let add = registry.register("etcd", move |url, namespace| {
        let store = store.clone();
        async move {
            assert_eq!(url.authority()?.endpoints.len(), 2);
            assert_eq!(namespace.prefix(), "shop/");
            Ok(Arc::new(store) as Arc<dyn LockBackend>)
        }
    });
    add.unwrap();

    let config = Config::new("etcd://h1:2379,h2:2379").unwrap().with_prefix("shop/").unwrap();
    let locks = [registry.connect(&config).await.unwrap(), registry.connect(&config).await.unwrap()];
    assert!(exclude_each_other(&*locks[0], &*locks[1]).await);
    assert!(registry.schemes().any(|scheme| scheme == "etcd"));
    assert!(!Registry::default().schemes().any(|scheme| scheme == "etcd"), "it is a value, not a global");
}

#[tokio::test]
async fn a_scheme_can_be_replaced() {
    let mut registry = Registry::default();
    let refuse = |_, _| async { Err(Error::invalid("test", "mine", "")) };
    registry.register("memory", refuse).unwrap();
    let error = registry.connect(&Config::new("memory:").unwrap()).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid test: mine");
}

#[test]
fn a_scheme_that_no_url_could_have_is_refused() {
    for scheme in ["", "Etcd", "1x", "a b", "a:", "étcd", "+x"] {
        let refuse = |_, _| async { Err(Error::invalid("test", "never", "")) };
        let error = Registry::empty().register(scheme, refuse).unwrap_err();
        assert_eq!(
            said(&error),
            format!(
                "Invalid: invalid scheme: {scheme:?}; begin it with a lower-case letter, and go on with such letters, \
                 figures, +, - and ."
            )
        );
    }
    let refuse = |_, _| async { Err(Error::invalid("test", "never", "")) };
    assert!(Registry::empty().register("zk+tls-1.x", refuse).is_ok());
}

#[tokio::test]
async fn an_unknown_scheme_is_told_with_the_nearest() {
    let registry = Registry::default();
    let compiled_in = registry.schemes().collect::<Vec<_>>().join(", ");
    for (url, problem) in [
        ("reddis://h", "no backend for \"reddis://\"; did you mean \"redis\"?"),
        ("redis+unx:///s", "no backend for \"redis+unx://\"; did you mean \"redis+unix\"?"),
        ("sqllite:/l.db", "no backend for \"sqllite://\"; did you mean \"sqlite\"?"),
        ("mem:", "no backend for \"mem://\";"),
        ("mongo://h", "no backend for \"mongo://\";"),
    ] {
        assert_eq!(refused(url).await, format!("Misconfigured: {problem} compiled in: {compiled_in}"));
    }
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_backend_that_is_not_compiled_in_says_its_feature() {
    for (scheme, features) in [
        ("redis", "redis"),
        ("rediss", "redis,tls"),
        ("valkey", "redis"),
        ("valkeys", "redis,tls"),
        ("redis+unix", "redis"),
        ("redis+sentinel", "redis"),
        ("rediss+cluster", "redis,tls"),
    ] {
        assert_eq!(
            refused(&format!("{scheme}://h")).await,
            format!(
                "Misconfigured: the backend of \"{scheme}://\" is not compiled in; \
                 cargo add leasehold --features {features}"
            )
        );
    }
}

#[cfg(all(feature = "redis", not(feature = "tls")))]
#[tokio::test]
async fn a_backend_without_tls_says_its_feature() {
    assert_eq!(
        refused("rediss://h").await,
        "Misconfigured: the backend of \"rediss://\" is not compiled in; cargo add leasehold --features redis,tls"
    );
}

#[cfg(not(feature = "sqlite"))]
#[tokio::test]
async fn sqlite_that_is_not_compiled_in_says_its_feature() {
    assert_eq!(
        refused("sqlite:/l.db").await,
        "Misconfigured: the backend of \"sqlite://\" is not compiled in; cargo add leasehold --features sqlite"
    );
}

/// Where nobody listens: connecting opens nothing.
#[cfg(feature = "redis")]
#[tokio::test]
async fn connecting_opens_no_connection() {
    let locks = leasehold::connect("redis://127.0.0.1:1").await.unwrap();
    assert_eq!(locks.semantics().backend, "redis");
    let error = locks.try_acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), leasehold::ErrorKind::Unavailable);
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn connecting_creates_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("locks.db");
    let url = format!("sqlite:{}", file.display());
    let one = leasehold::connect(&url).await.unwrap();
    assert!(!file.exists());
    let other = leasehold::connect(&url).await.unwrap();
    assert!(exclude_each_other(&*one, &*other).await);
    assert!(file.exists());
}

/// The directories on the way to the store that nobody configured are not there on a fresh host.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn the_built_in_store_works_on_a_fresh_host() {
    let home = tempfile::tempdir().unwrap();
    let sources = leasehold::ConfigSources::new().with_environment([("HOME", home.path())]);
    let locks = leasehold::connect_with(&sources.load().unwrap()).await.unwrap();
    locks.acquire("a").await.unwrap().release().await.unwrap();
    assert!(home.path().join(".local/state/leasehold/locks.db").exists());
}

#[tokio::test]
async fn memory_without_a_name_is_a_store_of_its_own() {
    let one = leasehold::connect("memory:").await.unwrap();
    let other = leasehold::connect("memory:").await.unwrap();
    assert!(!exclude_each_other(&*one, &*other).await);
}

#[tokio::test]
async fn memory_with_a_name_is_shared_in_the_process() {
    let one = leasehold::connect("memory:shared").await.unwrap();
    for url in ["memory:shared", "memory://shared", "MEMORY:shared"] {
        let other = leasehold::connect(url).await.unwrap();
        assert!(exclude_each_other(&*one, &*other).await, "{url}");
    }
    let other = leasehold::connect("memory:another").await.unwrap();
    assert!(!exclude_each_other(&*one, &*other).await);
    let config = Config::new("memory:shared").unwrap().with_prefix("shop/").unwrap();
    let other = leasehold::connect_with(&config).await.unwrap();
    assert!(!exclude_each_other(&*one, &*other).await, "a prefix is a namespace");
}

#[tokio::test]
async fn memory_with_a_name_lasts_as_long_as_somebody_uses_it() {
    let one = leasehold::connect("memory:fleeting").await.unwrap();
    let held = one.acquire("a").await.unwrap();
    drop(one);
    let other = leasehold::connect("memory:fleeting").await.unwrap();
    assert!(other.try_acquire("a").await.unwrap().is_none(), "the guard keeps it");
    held.release().await.unwrap();
    let lingering = leasehold::AcquireOptions::new().with_hold_at_least(std::time::Duration::from_secs(3600));
    let held = other.acquire_with(&"a".try_into().unwrap(), &lingering).await.unwrap();
    held.release().await.unwrap();
    assert!(other.try_acquire("a").await.unwrap().is_none());
    drop(other);
    let fresh = leasehold::connect("memory:fleeting").await.unwrap();
    assert!(fresh.try_acquire("a").await.unwrap().is_some(), "nobody had it any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_with_a_name_is_one_store_however_many_connect_at_once() {
    let connects = (0..64).map(|_| tokio::spawn(async { leasehold::connect("memory:crowd").await.unwrap() }));
    let connects: Vec<_> = connects.collect();
    let mut granted = Vec::new();
    for connect in connects {
        granted.extend(connect.await.unwrap().try_acquire("a").await.unwrap());
    }
    assert_eq!(granted.len(), 1);
}

#[tokio::test]
async fn memory_takes_no_parameters() {
    assert_eq!(
        refused("memory:?timeout=1s").await,
        "Invalid: invalid store URL: unknown parameter \"timeout\"; known: local_queue"
    );
}

#[tokio::test]
async fn the_defaults_are_those_of_the_configuration() {
    let config = Config::new("memory:").unwrap();
    let config = config.with_ttl(std::time::Duration::from_secs(7)).with_wait(std::time::Duration::ZERO);
    let locks = leasehold::connect_with(&config).await.unwrap();
    assert_eq!(locks.defaults().ttl().as_secs(), 7);
    assert_eq!(locks.defaults().wait(), leasehold::Wait::No);
    let _held = locks.acquire("a").await.unwrap();
    let error = locks.acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), leasehold::ErrorKind::Busy);
}
