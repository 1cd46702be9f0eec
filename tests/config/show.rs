//! `leasehold config show`: every value that counts, with its source, and no password.

use crate::host::TestHost;
use leasehold::Config;
use std::time::Duration;

/// The rows of `show`, one per line.
fn rows(host: &TestHost, config: &Config) -> String {
    let rows = config.show().into_iter();
    let rows = rows.map(|entry| format!("{} = {} ({})\n", entry.key, entry.value, entry.source));
    host.shortened(&rows.collect::<String>())
}

#[test]
fn every_value_is_shown_with_its_source() {
    let mut host = TestHost::new();
    host.write("home/pw", "hunter2\n");
    host.write(
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
    host.set("LEASEHOLD_WAIT", "0");
    let config = host.load().with_ttl(Duration::from_secs(90));
    assert_eq!(
        rows(&host, &config),
        "profile = prod (~/etc.toml:1)
url = redis://locker@redis.int:6380/0?sentinel_password=*** (~/etc.toml:8)
password_file = ~/home/pw (~/etc.toml:9)
timeout = 1s (~/etc.toml:11)
tls_ca = /ca.pem (~/etc.toml:12)
tls_key_password = *** (~/etc.toml:12)
prefix = shop/ (~/etc.toml:10)
ttl = 1m 30s (given)
wait = 0 (env LEASEHOLD_WAIT)
max_hold = none (default)
hold_at_least = 0s (default)
"
    );
    assert!(!config.is_default_store());
}

#[test]
fn configuration_in_code_is_shown() {
    let config = Config::new("redis://:hunter2@h").unwrap();
    assert!(!config.is_default_store());
    let config =
        config.with_ttl(Duration::from_secs(10)).with_wait(Duration::ZERO).with_prefix("shop/").unwrap();
    assert_eq!(
        rows(&TestHost::new(), &config),
        "url = redis://:***@h (given)
prefix = shop/ (given)
ttl = 10s (given)
wait = 0 (given)
max_hold = none (default)
hold_at_least = 0s (default)
"
    );
    let config = Config::new("redis://h").unwrap().with_password("hunter2").unwrap();
    assert!(rows(&TestHost::new(), &config).starts_with("url = redis://h (given)\npassword = *** (given)\n"));
}

#[test]
fn entries_are_serialized_as_strings() {
    let config = Config::new("memory:").unwrap();
    let json = serde_json::to_value(config.show()).unwrap();
    let first = serde_json::json!({ "key": "url", "value": "memory:", "source": "given" });
    assert_eq!(json[0], first);
}

#[test]
fn documented_file_can_be_loaded() {
    let documentation = include_str!("../../src/config/mod.rs");
    let example = documentation.split("/// ```toml\n").nth(1).unwrap();
    let example = example.split("/// ```").next().unwrap();
    let text: Vec<&str> = example.lines().map(|line| line.trim_start_matches("///")).collect();
    let host = TestHost::with_system_file(&text.join("\n").replace("/run/secrets/redis", "${HOME}/pw"));
    host.write("home/pw", "hunter2");
    let (prod, laptop) = (host.load(), host.sources().with_profile("laptop").load().unwrap());
    assert_eq!(
        host.shortened(&format!("{} {}", prod.url(), laptop.url())),
        "rediss://locker@redis.int:6380/0?timeout=1s&tls_ca=/etc/ssl/int-ca.pem sqlite:~/home/locks.db"
    );
    assert_eq!(prod.options().ttl().as_secs(), 10);
    assert_eq!(laptop.options().ttl().as_secs(), 30);
}

#[cfg(feature = "sqlite")]
#[test]
fn default_store_is_a_file_of_this_user() {
    let mut host = TestHost::new();
    let config = host.load();
    let expected = "url = sqlite:~/home/.local/state/leasehold/locks.db (default)\nprefix =  (default)\nttl = 30s (default)\n";
    assert!(rows(&host, &config).starts_with(expected), "{}", rows(&host, &config));
    assert!(config.is_default_store());
    assert!(!host.path("home").exists(), "loading creates nothing");

    host.set("XDG_STATE_HOME", "/state");
    assert_eq!(host.load().url().to_string(), "sqlite:/state/leasehold/locks.db");
    host.set("XDG_STATE_HOME", "");
    host.set("HOME", "");
    assert_eq!(
        host.problem(),
        "Misconfigured: no store is configured, and the default one has no place: HOME is not set; \
         set LEASEHOLD_URL, or HOME"
    );
    host.set("LEASEHOLD_URL", "memory:");
    assert!(!host.load().is_default_store());
}

#[cfg(not(feature = "sqlite"))]
#[test]
fn default_store_without_its_feature_is_refused() {
    assert_eq!(
        TestHost::new().problem(),
        "Misconfigured: no store is configured; \
         set LEASEHOLD_URL, or add the local default: cargo add leasehold --features sqlite"
    );
}

#[cfg(feature = "redis")]
#[test]
fn prefix_of_the_scheme_is_shown_if_none_is_configured() {
    let config = Config::new("redis://h").unwrap();
    assert!(rows(&TestHost::new(), &config).contains("prefix = leasehold: (default)\n"));
    let config = config.with_prefix("").unwrap();
    assert!(rows(&TestHost::new(), &config).contains("prefix =  (given)\n"));
}

#[test]
fn display_is_the_url_without_its_password() {
    let config = Config::new("redis://ada:hunter2@h/0?sentinel_password=hunter2").unwrap();
    assert_eq!(config.to_string(), "redis://ada:***@h/0?sentinel_password=***");
    assert_eq!(config.to_string(), config.show()[0].value);
}

#[test]
fn configurations_are_equal_by_store_and_options() {
    let config = |url: &str| Config::new(url).unwrap();
    let mut host =
        TestHost::with_system_file("default = 'p'\n[profile.p]\nurl = 'redis://:a@h'\nttl = '9s'\n");
    assert_eq!(host.load(), config("redis://:a@h").with_ttl(Duration::from_secs(9)), "whatever the source");
    host.set("LEASEHOLD_WAIT", "0");
    assert_ne!(host.load(), config("redis://:a@h").with_ttl(Duration::from_secs(9)));
    assert_ne!(config("redis://:a@h"), config("redis://:b@h"));
    assert_ne!(config("redis://h"), config("redis://h").with_prefix("a/").unwrap());
    let with_password = |password: &str| config("redis://h").with_password(password).unwrap();
    assert_eq!(with_password("a"), with_password("a"));
    assert_ne!(with_password("a"), with_password("b"));
}
