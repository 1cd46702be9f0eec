//! Keys of a profile that are parameters of its store: only the backend knows them, and its mistakes are told in the
//! words of the file.

use crate::scene::Scene;
use leasehold::LocalQueue;
use leasehold::backend::{LockBackend, MemoryBackend};
use leasehold::{Config, Registry};
use std::sync::{Arc, Mutex};

/// A registry whose scheme `store` has two parameters, and notes what it was given.
fn registry(seen: &Arc<Mutex<Vec<String>>>) -> Registry {
    let mut registry = Registry::empty();
    let seen = Arc::clone(seen);
    let add = registry.register("store", move |url, namespace| {
        let seen = Arc::clone(&seen);
        async move {
            let mut query = url.query();
            let timeout = query.take_duration("timeout")?;
            let ca = query.take("tls_ca");
            query.finish()?;
            *seen.lock().unwrap() =
                vec![format!("{timeout:?}"), format!("{ca:?}"), namespace.prefix().to_owned()];
            Ok(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>)
        }
    });
    add.unwrap();
    registry
}

/// What the backend sees of these lines of a profile, or what is said of them.
async fn opened(lines: &str) -> Result<Vec<String>, String> {
    let scene = Scene::with_system_file(&format!("default = 'p'\n[profile.p]\n{lines}\n"));
    let seen = Arc::default();
    match registry(&seen).connect(&scene.load()).await {
        Ok(_) => Ok(seen.lock().unwrap().clone()),
        Err(error) => Err(scene.said(&error)),
    }
}

#[tokio::test]
async fn they_reach_the_backend() {
    for lines in [
        "url = 'store:'\ntimeout = '1s'\ntls = { ca = '/ca.pem' }\nprefix = 'a/'",
        "url = 'store:'\ntimeout = '1s'\ntls_ca = '/ca.pem'\nprefix = 'a/'",
        "url = 'store:?timeout=1s'\nprefix = 'a/'\n[profile.p.tls]\nca = '/ca.pem'",
    ] {
        let expected = ["Some(1s)", "Some(\"/ca.pem\")", "a/"].map(str::to_owned).to_vec();
        assert_eq!(opened(lines).await, Ok(expected), "{lines}");
    }
}

#[tokio::test]
async fn a_boolean_is_one_of_a_url() {
    for (boolean, word) in [(true, "yes"), (false, "no")] {
        let seen = opened(&format!("url = 'store:'\ntls = {{ ca = {boolean} }}")).await.unwrap();
        assert_eq!(seen[1], format!("Some({word:?})"));
    }
}

#[tokio::test]
async fn what_the_backend_refuses_is_told_in_the_words_of_the_file() {
    let own = "hold_at_least, max_hold, password_env, password_file, prefix, ttl, url, wait";
    let cases = [
        (
            "url = 'store:'\n\ntimout = '1s'",
            "5: unknown key \"timout\" in [profile.p]; did you mean \"timeout\"? known: local_queue, timeout, tls_ca".to_owned(),
        ),
        (
            "url = 'store:'\ntls = { cb = '/ca.pem' }",
            "4: unknown key \"tls.cb\" in [profile.p]; did you mean \"tls_ca\"? known: local_queue, timeout, tls_ca".to_owned(),
        ),
        (
            "url = 'store:'\npasswd_file = '/pw'",
            format!("4: unknown key \"passwd_file\" in [profile.p]; did you mean \"password_file\"? known: {own}"),
        ),
        (
            "url = 'store:'\ntimeout = 1",
            "4: invalid timeout: \"1\" has no unit; write 1s or 1ms".to_owned(),
        ),
        (
            "url = 'store:'\nlocal_quue = 4",
            "4: unknown key \"local_quue\" in [profile.p]; did you mean \"local_queue\"? known: local_queue, timeout, tls_ca"
                .to_owned(),
        ),
        (
            "url = 'store:?timout=1s'",
            "3: invalid store URL: unknown parameter \"timout\"; did you mean \"timeout\"? known: local_queue, timeout, tls_ca".to_owned(),
        ),
        ("url = 'stor:'", "3: no backend for \"stor://\"; did you mean \"store\"? compiled in: store".to_owned()),
    ];
    for (lines, expected) in cases {
        let expected = format!("Misconfigured: ~/etc.toml:{expected}");
        assert_eq!(opened(lines).await, Err(expected), "{lines}");
    }
}

/// The compiled-in backend says it in the words that are looked for here.
#[cfg(feature = "redis")]
#[tokio::test]
async fn so_is_what_the_redis_backend_refuses() {
    let scene = Scene::with_system_file("default = 'p'\n[profile.p]\nurl = 'redis://h'\ntimout = '1s'\n");
    let error = leasehold::connect_with(&scene.load()).await.unwrap_err();
    let expected = "Misconfigured: ~/etc.toml:4: unknown key \"timout\" in [profile.p]; did you mean \"timeout\"? known: ";
    assert!(scene.said(&error).starts_with(expected), "{}", scene.said(&error));
}

#[tokio::test]
async fn a_mistake_in_code_is_an_invalid_argument() {
    let config = Config::new("store:?timout=1s").unwrap();
    let error = registry(&Arc::default()).connect(&config).await.unwrap_err();
    assert_eq!(
        Scene::new().said(&error),
        "Invalid: invalid store URL: unknown parameter \"timout\"; did you mean \"timeout\"? known: local_queue, timeout, tls_ca"
    );
}

/// It is the client's, whatever the store: the backend never sees it.
#[tokio::test]
async fn the_local_queue_is_taken_from_url_or_profile_before_the_backend_sees_them() {
    for lines in ["url = 'store:?local_queue=64'", "url = 'store:'\nlocal_queue = 64"] {
        assert!(opened(lines).await.is_ok(), "{lines}");
        let scene = Scene::with_system_file(&format!("default = 'p'\n[profile.p]\n{lines}\n"));
        let locks = registry(&Arc::default()).connect(&scene.load()).await.unwrap();
        assert_eq!(locks.semantics().local_queue.map(LocalQueue::grants), Some(64));
    }
    let locks = registry(&Arc::default()).connect(&Config::new("store:").unwrap()).await.unwrap();
    assert!(locks.semantics().local_queue.is_none());
}

#[tokio::test]
async fn a_local_queue_of_no_length_is_refused_where_it_is_written() {
    for lines in ["url = 'store:?local_queue=0'", "url = 'store:'\nlocal_queue = 'many'"] {
        let said = opened(lines).await.unwrap_err();
        assert!(said.contains("invalid local_queue: ") && said.contains("from 1 to 1024"), "{said}");
        assert_eq!(said.matches("invalid local_queue").count(), 1, "{said}");
    }
}
