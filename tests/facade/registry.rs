//! Schemes and backends: those that are compiled in, those that are not, and a backend of one's own.

use leasehold::backend::{LockBackend, MemoryBackend, Namespace};
use leasehold::client::{Event, Observer};
use leasehold::{Config, DistributedLock, DistributedLockExt, Error, Registry};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// An error as people see it: kind, message, help.
fn said(error: &Error) -> String {
    format!("{:?}: {error}; {}", error.kind(), error.help().unwrap_or_default())
}

async fn refused(url: &str) -> String {
    said(&leasehold::connect(url).await.unwrap_err())
}

/// True if the two exclude each other.
async fn exclude_each_other(one: &dyn DistributedLock, other: &dyn DistributedLock) -> bool {
    let _held = one.acquire("a").await.unwrap();
    other.try_acquire("a").await.unwrap().is_none()
}

#[tokio::test]
async fn own_backend_serves_its_scheme() {
    let store = MemoryBackend::new();
    let mut registry = Registry::default();
    let add = registry.register("consul", move |url, namespace| {
        let store = store.clone();
        async move {
            assert_eq!(url.authority()?.endpoints.len(), 2);
            assert_eq!(namespace.prefix(), "shop/");
            Ok(Arc::new(store) as Arc<dyn LockBackend>)
        }
    });
    add.unwrap();

    let config = Config::new("consul://h1:8500,h2:8500").unwrap().with_prefix("shop/").unwrap();
    let locks = [registry.connect(&config).await.unwrap(), registry.connect(&config).await.unwrap()];
    assert!(exclude_each_other(&*locks[0], &*locks[1]).await);
    assert!(registry.schemes().any(|scheme| scheme == "consul"));
    assert!(!Registry::default().schemes().any(|scheme| scheme == "consul"), "it is a value, not a global");
}

#[tokio::test]
async fn registered_scheme_replaces_the_old_one() {
    let mut registry = Registry::default();
    let refuse = |_, _| async { Err(Error::invalid("test", "mine", "")) };
    registry.register("memory", refuse).unwrap();
    let error = registry.connect(&Config::new("memory:").unwrap()).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid test: mine");
}

#[test]
fn scheme_that_no_url_can_have_is_refused() {
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

/// A registry with one scheme, and the prefixes of the backends that were opened.
fn registry_of_namespaces() -> (Registry, Arc<Mutex<Vec<String>>>) {
    let opened = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&opened);
    let mut registry = Registry::empty();
    let open = move |_, namespace: Namespace| {
        note.lock().unwrap().push(namespace.prefix().to_owned());
        async { Ok(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>) }
    };
    registry.register("store", open).unwrap();
    (registry, opened)
}

fn shown_prefix(registry: &Registry, config: &Config) -> String {
    let entries = registry.show(config);
    let prefix = entries.into_iter().find(|entry| entry.key == "prefix").unwrap();
    format!("{} ({})", prefix.value, prefix.source)
}

#[tokio::test]
async fn configured_prefix_replaces_that_of_the_scheme() {
    let (mut registry, opened) = registry_of_namespaces();
    let config = Config::new("store:").unwrap();
    registry.open(&config).await.unwrap();
    registry.set_default_prefix("store", "theirs:").unwrap();
    registry.open(&config).await.unwrap();
    assert_eq!(*opened.lock().unwrap(), ["", "theirs:"]);
    for prefix in ["mine:", ""] {
        let config = config.clone().with_prefix(prefix).unwrap();
        registry.open(&config).await.unwrap();
        assert_eq!(opened.lock().unwrap().last().unwrap(), prefix);
    }
}

#[test]
fn default_prefix_of_an_own_scheme_is_shown_unless_one_is_configured() {
    let (mut registry, _) = registry_of_namespaces();
    let config = Config::new("store:").unwrap();
    assert_eq!(shown_prefix(&registry, &config), " (default)");
    registry.set_default_prefix("store", "theirs:").unwrap();
    assert_eq!(registry.namespace(&config).prefix(), "theirs:");
    assert_eq!(shown_prefix(&registry, &config), "theirs: (default)");
    let config = config.with_prefix("mine:").unwrap();
    assert_eq!(registry.namespace(&config).prefix(), "mine:");
    assert_eq!(shown_prefix(&registry, &config), "mine: (given)");
}

#[test]
fn invalid_default_prefix_is_refused_before_anything_is_opened() {
    let (mut registry, opened) = registry_of_namespaces();
    registry.set_default_prefix("store", "theirs:").unwrap();
    for (prefix, problem) in [
        ("shop: ", "there is white space around it: \"shop: \"; remove it"),
        ("a\nb", "it has a control character: \"a\\nb\"; take it out"),
        (&"x".repeat(129), "129 bytes, limit 128; shorten it"),
    ] {
        let error = registry.set_default_prefix("store", prefix).unwrap_err();
        assert_eq!(said(&error), format!("Invalid: invalid prefix: {problem}"));
    }
    assert_eq!(registry.namespace(&Config::new("store:").unwrap()).prefix(), "theirs:");
    assert!(opened.lock().unwrap().is_empty());
}

#[test]
fn default_prefix_of_an_unknown_scheme_is_refused_with_the_nearest() {
    let (mut registry, _) = registry_of_namespaces();
    let error = registry.set_default_prefix("stor", "theirs:").unwrap_err();
    assert_eq!(
        said(&error),
        "Misconfigured: no backend for \"stor://\"; did you mean \"store\"? compiled in: store"
    );
}

#[test]
fn scheme_that_is_registered_again_has_no_default_prefix() {
    let (mut registry, _) = registry_of_namespaces();
    registry.set_default_prefix("store", "theirs:").unwrap();
    let refuse = |_, _| async { Err(Error::invalid("test", "never", "")) };
    registry.register("store", refuse).unwrap();
    assert_eq!(registry.namespace(&Config::new("store:").unwrap()).prefix(), "");
}

#[tokio::test]
async fn unknown_scheme_is_refused_with_the_nearest() {
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
async fn missing_backend_is_refused_with_its_feature() {
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
async fn missing_tls_is_refused_with_its_feature() {
    assert_eq!(
        refused("rediss://h").await,
        "Misconfigured: the backend of \"rediss://\" is not compiled in; cargo add leasehold --features redis,tls"
    );
}

#[cfg(not(feature = "sqlite"))]
#[tokio::test]
async fn missing_sqlite_is_refused_with_its_feature() {
    assert_eq!(
        refused("sqlite:/l.db").await,
        "Misconfigured: the backend of \"sqlite://\" is not compiled in; cargo add leasehold --features sqlite"
    );
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn connect_opens_no_connection() {
    let locks = leasehold::connect("redis://127.0.0.1:1").await.unwrap();
    assert_eq!(locks.semantics().backend, "redis");
    let error = locks.try_acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), leasehold::ErrorKind::Unavailable);
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn connect_creates_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("locks.db");
    let url = format!("sqlite:{}", file.display());
    let one = leasehold::connect(&url).await.unwrap();
    assert!(!file.exists());
    let other = leasehold::connect(&url).await.unwrap();
    assert!(exclude_each_other(&*one, &*other).await);
    assert!(file.exists());
}

/// A home directory that is not there, or a wrong one, gets nothing made in it.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn default_store_works_on_a_fresh_host() {
    let home = tempfile::tempdir().unwrap();
    let sources = leasehold::ConfigSources::new().with_environment([("HOME", home.path())]);
    let locks = leasehold::connect_with(&sources.load().unwrap()).await.unwrap();
    locks.acquire("a").await.unwrap().release().await.unwrap();
    assert!(home.path().join(".local/state/leasehold/locks.db").exists());
}

#[tokio::test]
async fn state_directory_that_the_user_names_is_not_made() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state");
    let sources = leasehold::ConfigSources::new().with_environment([("XDG_STATE_HOME", &state)]);
    let locks = leasehold::connect_with(&sources.load().unwrap()).await.unwrap();
    let error = locks.acquire("a").await.unwrap_err();
    assert!(error.help().is_some_and(|help| help.ends_with(&format!("mkdir -p -m 700 {}", state.display()))));
    assert!(!state.exists());
    std::fs::create_dir(&state).unwrap();
    locks.acquire("a").await.unwrap().release().await.unwrap();
    assert!(state.join("leasehold/locks.db").exists());
}

#[tokio::test]
async fn memory_without_a_name_is_a_new_store() {
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
async fn memory_with_a_name_lasts_until_its_last_user() {
    let one = leasehold::connect("memory:fleeting").await.unwrap();
    let held = one.acquire("a").await.unwrap();
    drop(one);
    let other = leasehold::connect("memory:fleeting").await.unwrap();
    assert!(other.try_acquire("a").await.unwrap().is_none(), "the guard keeps it");
    held.release().await.unwrap();
    let lingering = leasehold::AcquireOptions::new().with_hold_at_least(std::time::Duration::from_secs(3600));
    let held = other.acquire_with("a", &lingering).await.unwrap();
    held.release().await.unwrap();
    assert!(other.try_acquire("a").await.unwrap().is_none());
    drop(other);
    let fresh = leasehold::connect("memory:fleeting").await.unwrap();
    assert!(fresh.try_acquire("a").await.unwrap().is_some(), "it had no user any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_with_a_name_is_one_store_for_concurrent_connects() {
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
        "Invalid: invalid store URL: unknown parameter \"timeout\"; known: none"
    );
}

#[tokio::test]
async fn client_has_the_options_of_the_configuration() {
    let config = Config::new("memory:").unwrap();
    let config = config.with_ttl(std::time::Duration::from_secs(7)).with_wait(std::time::Duration::ZERO);
    let locks = leasehold::connect_with(&config).await.unwrap();
    assert_eq!(locks.defaults().ttl().as_secs(), 7);
    assert_eq!(locks.defaults().wait(), leasehold::Wait::No);
    let _held = locks.acquire("a").await.unwrap();
    let error = locks.acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), leasehold::ErrorKind::Busy);
}

/// Counts the losses.
#[derive(Debug, Default)]
struct Losses(AtomicUsize);

impl Observer for Losses {
    fn event(&self, event: &Event<'_>) {
        if matches!(event, Event::Lost { .. }) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn connect_with_keeps_the_configuration_and_adds_to_the_client() {
    let losses = Arc::new(Losses::default());
    let config = Config::new("memory:").unwrap().with_wait(std::time::Duration::ZERO);
    let observer = Arc::clone(&losses);
    let locks =
        Registry::default().connect_with(&config, |client| client.with_observer(observer)).await.unwrap();
    assert_eq!(locks.defaults().wait(), leasehold::Wait::No);
    let _open = locks.acquire("a").await.unwrap();
    locks.close().await.unwrap();
    assert_eq!(losses.0.load(Ordering::SeqCst), 1, "the guard that was open");
}

#[tokio::test]
async fn connect_with_names_the_place_of_a_mistake() {
    let sources = leasehold::ConfigSources::new().with_environment([("LEASEHOLD_URL", "mem:")]);
    let connected = Registry::default().connect_with(&sources.load().unwrap(), |client| client).await;
    let error = connected.unwrap_err().to_string();
    assert!(error.starts_with("env LEASEHOLD_URL: no backend"), "{error}");
}
