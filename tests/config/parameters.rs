//! Keys of a profile that are parameters of its store: only the backend knows them, and its errors name the line.

use crate::host::TestHost;
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

/// The values that the backend gets from these lines of a profile, or the error.
async fn opened(lines: &str) -> Result<Vec<String>, String> {
    let host = TestHost::with_system_file(&format!("default = 'p'\n[profile.p]\n{lines}\n"));
    let seen = Arc::default();
    match registry(&seen).connect(&host.load()).await {
        Ok(_) => Ok(seen.lock().unwrap().clone()),
        Err(error) => Err(host.said(&error)),
    }
}

#[tokio::test]
async fn parameters_of_a_profile_reach_the_backend() {
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
async fn boolean_is_yes_or_no_in_the_url() {
    for (boolean, word) in [(true, "yes"), (false, "no")] {
        let seen = opened(&format!("url = 'store:'\ntls = {{ ca = {boolean} }}")).await.unwrap();
        assert_eq!(seen[1], format!("Some({word:?})"));
    }
}

#[tokio::test]
async fn parameter_that_the_backend_refuses_is_named_with_its_line() {
    let own = "hold_at_least, max_hold, password_env, password_file, prefix, ttl, url, wait";
    let cases = [
        (
            "url = 'store:'\n\ntimout = '1s'",
            "5: unknown key \"timout\" in [profile.p]; did you mean \"timeout\"? known: timeout, tls_ca".to_owned(),
        ),
        (
            "url = 'store:'\ntls = { cb = '/ca.pem' }",
            "4: unknown key \"tls_cb\" in [profile.p]; did you mean \"tls_ca\"? known: timeout, tls_ca".to_owned(),
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
            "url = 'store:'\nlocal_queue = 4",
            "4: unknown key \"local_queue\" in [profile.p]; known: timeout, tls_ca".to_owned(),
        ),
        (
            "url = 'store:?timout=1s'",
            "3: invalid store URL: unknown parameter \"timout\"; did you mean \"timeout\"? known: timeout, tls_ca".to_owned(),
        ),
        ("url = 'stor:'", "3: no backend for \"stor://\"; did you mean \"store\"? compiled in: store".to_owned()),
    ];
    for (lines, expected) in cases {
        let expected = format!("Misconfigured: ~/etc.toml:{expected}");
        assert_eq!(opened(lines).await, Err(expected), "{lines}");
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn parameter_that_redis_refuses_is_named_with_its_line() {
    let host = TestHost::with_system_file("default = 'p'\n[profile.p]\nurl = 'redis://h'\ntimout = '1s'\n");
    let error = leasehold::connect_with(&host.load()).await.unwrap_err();
    let expected = "Misconfigured: ~/etc.toml:4: unknown key \"timout\" in [profile.p]; did you mean \"timeout\"? known: ";
    assert!(host.said(&error).starts_with(expected), "{}", host.said(&error));
}

#[tokio::test]
async fn bad_parameter_in_code_is_an_invalid_argument() {
    let config = Config::new("store:?timout=1s").unwrap();
    let error = registry(&Arc::default()).connect(&config).await.unwrap_err();
    assert_eq!(
        TestHost::new().said(&error),
        "Invalid: invalid store URL: unknown parameter \"timout\"; did you mean \"timeout\"? known: timeout, tls_ca"
    );
}
