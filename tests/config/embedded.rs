//! A configuration as a part of an application's own.

use leasehold::Config;
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Deserialize)]
struct Application {
    locks: Config,
}

fn locks(value: &serde_json::Value) -> Result<Config, String> {
    let application = Application::deserialize(json!({ "locks": value }));
    application.map(|application| application.locks).map_err(|error| error.to_string())
}

#[test]
fn url_and_table_are_read() {
    assert_eq!(locks(&json!("memory:a")).unwrap().url().to_string(), "memory:a");
    let config = locks(&json!({
        "url": "redis://h", "ttl": "10s", "prefix": "a/", "timeout": "1s", "db": 3, "tls": { "ca": "/ca.pem" },
    }));
    let config = config.unwrap();
    assert_eq!(config.url().to_string(), "redis://h?db=3&timeout=1s&tls_ca=/ca.pem");
    assert_eq!(config.options().ttl().as_secs(), 10);
    assert_eq!(config.prefix().unwrap().prefix(), "a/");
}

#[test]
fn variables_of_the_process_are_read() {
    let config =
        locks(&json!({ "url": "redis://h", "password_env": "PATH", "client": "${CARGO_PKG_NAME}" })).unwrap();
    assert_eq!(config.url().to_string(), "redis://h?client=leasehold");
    let password = config.url().authority().unwrap().password.unwrap();
    let password = password.read().unwrap();
    assert_eq!(secrecy::ExposeSecret::expose_secret(&password), std::env::var("PATH").unwrap());
}

#[test]
fn variables_in_a_url_are_replaced() {
    let config = locks(&json!("memory:${CARGO_PKG_NAME}")).unwrap();
    assert_eq!(config.url().to_string(), "memory:leasehold");
}

#[test]
fn mistake_is_refused_with_the_way_out() {
    let cases = [
        (json!(7), "it is an integer; make it a store URL, or a table with one"),
        (json!(null), "it is nothing; make it a store URL, or a table with one"),
        (json!({ "ttl": "1s" }), "invalid url: it is missing; add one: redis://host:6379/0"),
        (json!({ "url": "memory:", "ttl": 30 }), "ttl is an integer; write it in quotes: ttl = \"30s\""),
        (json!({ "url": "memory:", "ttl": "30" }), "invalid ttl: \"30\" has no unit; write 30s or 30ms"),
        (
            json!({ "url": "memory:", "nodes": ["a"] }),
            "nodes is an array; make it a string, a number or a table",
        ),
        (
            json!({ "url": "redis://h", "password": "hunter2" }),
            "a password does not stand here; name its file with password_file, or its variable with password_env",
        ),
        (
            json!({ "url": "redis://:hunter2#@h" }),
            "invalid store URL: its password seems to contain '#'; write it as %23",
        ),
    ];
    for (value, expected) in cases {
        assert_eq!(locks(&value).unwrap_err(), expected, "{value}");
    }
    let twice = serde_json::from_str::<Config>("{\"url\": \"memory:\", \"url\": \"memory:\"}").unwrap_err();
    assert!(twice.to_string().starts_with("duplicate key: `url`"), "{twice}");
}
