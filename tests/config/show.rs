//! What `leasehold config show` prints: every value that counts, with its source, and no password.

use crate::scene::Scene;
use leasehold::Config;
use std::time::Duration;

/// The rows of `show`, one per line.
fn rows(scene: &Scene, config: &Config) -> String {
    let rows = config.show().into_iter();
    let rows = rows.map(|entry| format!("{} = {} ({})\n", entry.key, entry.value, entry.source));
    scene.shortened(&rows.collect::<String>())
}

#[test]
fn every_value_has_its_source() {
    let mut scene = Scene::new();
    scene.write("home/pw", "hunter2\n");
    scene.write(
        "etc.toml",
        "default = \"prod\"

[defaults]
wait = \"10s\"
prefix = \"all/\"

[profile.prod]
url = \"redis://locker@${HOST:-redis.int}:6380/0?sentinel_password=hunter2\"
password_file = \"${HOME}/pw\"
prefix = \"shop/\"
timeout = \"1s\"
tls = { ca = \"/ca.pem\", key_password = \"hunter2\" }
",
    );
    scene.set("LEASEHOLD_WAIT", "0");
    let config = scene.sources().with_ttl("90s").load().unwrap();
    assert_eq!(
        rows(&scene, &config),
        "profile = prod (~/etc.toml:1)
url = redis://locker@redis.int:6380/0?sentinel_password=*** (~/etc.toml:8)
password_file = ~/home/pw (~/etc.toml:9)
timeout = 1s (~/etc.toml:11)
tls.ca = /ca.pem (~/etc.toml:12)
tls.key_password = *** (~/etc.toml:12)
prefix = shop/ (~/etc.toml:10)
ttl = 1m 30s (given)
wait = 0 (env LEASEHOLD_WAIT)
max_hold = none (default)
hold_at_least = 0s (default)
"
    );
    assert_eq!(config.profile(), Some("prod"));
    assert!(!config.is_default_store());
}

#[test]
fn a_configuration_in_code_is_shown_likewise() {
    let config = Config::new("redis://:hunter2@h").unwrap();
    assert!(!config.is_default_store());
    let config = config
        .with_ttl(Duration::from_secs(10))
        .with_wait(Duration::ZERO)
        .with_max_hold(Duration::from_secs(3600))
        .with_hold_at_least(Duration::from_secs(60))
        .with_prefix("shop/")
        .unwrap();
    assert_eq!(
        rows(&Scene::new(), &config),
        "url = redis://:***@h (given)
prefix = shop/ (given)
ttl = 10s (given)
wait = 0 (given)
max_hold = 1h (given)
hold_at_least = 1m (given)
"
    );
    let config = Config::new("redis://h").unwrap().with_password("hunter2").unwrap();
    assert!(rows(&Scene::new(), &config).starts_with("url = redis://h (given)\npassword = *** (given)\n"));
}

#[test]
fn it_can_be_printed_as_json() {
    let config = Config::new("memory:").unwrap();
    let json = serde_json::to_value(config.show()).unwrap();
    let first = serde_json::json!({ "key": "url", "value": "memory:", "source": "given" });
    assert_eq!(json[0], first);
}

/// The file in the documentation of `Config`, so that nobody copies a mistake from there.
#[test]
fn the_documented_file_is_a_good_one() {
    let documentation = include_str!("../../src/config/mod.rs");
    let example = documentation.split("/// ```toml\n").nth(1).unwrap();
    let example = example.split("/// ```").next().unwrap();
    let text: Vec<&str> = example.lines().map(|line| line.trim_start_matches("///")).collect();
    let scene = Scene::with_system_file(&text.join("\n").replace("/run/secrets/redis", "${HOME}/pw"));
    scene.write("home/pw", "hunter2");
    let (prod, laptop) = (scene.load(), scene.sources().with_profile("laptop").load().unwrap());
    assert_eq!(
        scene.shortened(&format!("{} {}", prod.url(), laptop.url())),
        "rediss://locker@redis.int:6380/0?local_queue=64&timeout=1s&tls_ca=/etc/ssl/int-ca.pem sqlite:~/home/locks.db"
    );
    assert_eq!(prod.options().ttl().as_secs(), 10);
    assert_eq!(laptop.options().ttl().as_secs(), 30);
}

/// Nobody configured anything.
#[cfg(feature = "sqlite")]
#[test]
fn the_built_in_store_is_a_file_of_this_user() {
    let mut scene = Scene::new();
    let config = scene.load();
    let expected = "url = sqlite:~/home/.local/state/leasehold/locks.db (default)\nprefix =  (default)\nttl = 30s (default)\n";
    assert!(rows(&scene, &config).starts_with(expected), "{}", rows(&scene, &config));
    assert!(config.is_default_store());
    assert!(!scene.path("home").exists(), "loading creates nothing");

    scene.set("XDG_STATE_HOME", "/state");
    assert_eq!(scene.load().url().to_string(), "sqlite:/state/leasehold/locks.db");
    scene.set("XDG_STATE_HOME", "");
    scene.set("HOME", "");
    assert_eq!(
        scene.problem(),
        "Misconfigured: no store is configured, and the default one has no place: HOME is not set; \
         set LEASEHOLD_URL, or HOME"
    );
    scene.set("LEASEHOLD_URL", "memory:");
    assert!(!scene.load().is_default_store());
}

#[cfg(not(feature = "sqlite"))]
#[test]
fn there_is_no_built_in_store_without_its_feature() {
    assert_eq!(
        Scene::new().problem(),
        "Misconfigured: no store is configured; \
         set LEASEHOLD_URL, or add the local default: cargo add leasehold --features sqlite"
    );
}

#[cfg(feature = "redis")]
#[test]
fn the_prefix_of_the_scheme_is_shown_if_there_is_no_other() {
    let config = Config::new("redis://h").unwrap();
    assert!(rows(&Scene::new(), &config).contains("prefix = leasehold: (default)\n"));
    let config = config.with_prefix("").unwrap();
    assert!(rows(&Scene::new(), &config).contains("prefix =  (given)\n"));
}
