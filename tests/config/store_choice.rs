//! Mistakes in naming the store: in the environment, in code, on a command line.

use crate::host::{TestHost, shown};
use leasehold::ConfigSources;

#[test]
fn missing_profile_is_refused_with_the_nearest() {
    let fix = "did you mean \"prod\"? known: dev, prod";
    let text = "[profile.prod]\nurl = 'memory:'\n[profile.dev]\nurl = 'memory:'\n";
    let mut host = TestHost::with_system_file(&format!("default = 'prdo'\n{text}"));
    assert_eq!(
        host.problem(),
        format!("Misconfigured: ~/etc.toml:1: invalid profile: there is no \"prdo\" in ~/etc.toml; {fix}")
    );
    let error = host.sources().with_profile("pro").load().unwrap_err();
    let expected = format!("Invalid: invalid profile: there is no \"pro\" in ~/etc.toml; {fix}");
    assert_eq!(host.said(&error), expected);
    host.set("LEASEHOLD_PROFILE", "prod2");
    assert_eq!(
        host.problem(),
        format!(
            "Misconfigured: env LEASEHOLD_PROFILE: invalid profile: there is no \"prod2\" in ~/etc.toml; {fix}"
        )
    );
    assert_eq!(
        TestHost::with_system_file(text).problem(),
        "Misconfigured: ~/etc.toml: no profile is chosen; write default = \"NAME\" into it, or set LEASEHOLD_PROFILE; \
         known: dev, prod"
    );
    let error = ConfigSources::new().with_profile("prod").load().unwrap_err();
    assert_eq!(
        host.said(&error),
        "Invalid: invalid profile: there is no configuration file; write a leasehold.toml, or name a file with \
         LEASEHOLD_CONFIG"
    );
}

#[test]
fn bad_value_in_the_environment_is_misconfigured() {
    let cases = [
        ("LEASEHOLD_TTL", "30", "invalid ttl: \"30\" has no unit; write 30s or 30ms"),
        ("LEASEHOLD_URL", "", "invalid url: it is empty; give LEASEHOLD_URL a value, or unset it"),
        ("LEASEHOLD_TTL", "", "invalid ttl: it is empty; give LEASEHOLD_TTL a value, or unset it"),
        (
            "LEASEHOLD_URL",
            "redis",
            "invalid store URL: it has no scheme; write it like redis://host:6379/0 or sqlite:/path/to/file",
        ),
    ];
    for (variable, value, expected) in cases {
        let mut host = TestHost::new();
        host.set(variable, value);
        if variable != "LEASEHOLD_URL" {
            host.set("LEASEHOLD_URL", "memory:");
        }
        assert_eq!(host.problem(), format!("Misconfigured: env {variable}: {expected}"));
    }
}

#[test]
fn variable_that_is_not_text_is_refused() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let not_text = OsString::from_vec(vec![0xff]);
    let sources = ConfigSources::new().with_environment([("LEASEHOLD_URL", not_text)]);
    assert_eq!(
        TestHost::new().said(&sources.load().unwrap_err()),
        "Misconfigured: env LEASEHOLD_URL: invalid LEASEHOLD_URL: its value is not UTF-8; set it to text"
    );
}

/// A home of `/`, as services have it, makes two slashes of one, and a path behind two slashes would be relative.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn home_that_ends_with_a_slash_does_not_mean_another_store() {
    for home in ["/", "//srv"] {
        let mut host =
            TestHost::with_system_file("default = 'p'\n[profile.p]\nurl = 'sqlite:${HOME}/locks.db'\n");
        host.set("HOME", home);
        host.set("XDG_CONFIG_HOME", "/nowhere");
        let error = leasehold::connect_with(&host.load()).await.unwrap_err();
        assert_eq!(
            host.said(&error),
            "Misconfigured: ~/etc.toml:3: invalid store URL: it has two slashes where a path begins; \
             write sqlite:/path, or sqlite:./path"
        );
    }
}

#[test]
fn url_and_profile_from_one_source_are_refused() {
    let problem = "a URL and a profile are both given; leave one of them out: a profile has a URL of its own";
    let mut host = TestHost::new();
    let error = host.sources().with_url("memory:").with_profile("p").load().unwrap_err();
    assert_eq!(host.said(&error), format!("Invalid: {problem}"));
    host.set("LEASEHOLD_URL", "memory:");
    host.set("LEASEHOLD_PROFILE", "p");
    assert_eq!(host.problem(), format!("Misconfigured: env LEASEHOLD_URL: {problem}"));
}

#[test]
fn bad_given_value_is_an_invalid_argument() {
    let host = TestHost::new();
    let error = host.sources().with_url("redis//h").load().unwrap_err();
    assert_eq!(
        host.said(&error),
        "Invalid: invalid store URL: it has no scheme; write it like redis://host:6379/0 or sqlite:/path/to/file"
    );
    let error = host.sources().with_url("memory:").with_ttl("30").load().unwrap_err();
    assert_eq!(host.said(&error), "Invalid: invalid ttl: \"30\" has no unit; write 30s or 30ms");
}

#[test]
fn white_space_around_a_name_is_refused_and_shown() {
    let file = "default = 'p'\n[profile.p]\nurl = 'memory:'\n";
    let around = |shown: &str| format!("there is white space around it: {shown}; remove it");
    let host = TestHost::with_system_file(file);
    let error = host.sources().with_profile("p ").load().unwrap_err();
    assert_eq!(host.said(&error), format!("Invalid: invalid profile: {}", around("\"p \"")));
    let error = host.sources().with_file("x.toml\n").load().unwrap_err();
    assert_eq!(
        host.said(&error),
        format!("Invalid: invalid configuration file: {}", around("\"x.toml\\n\""))
    );

    for (variable, value, expected) in [
        ("LEASEHOLD_PROFILE", "p\n", format!("invalid profile: {}", around("\"p\\n\""))),
        ("LEASEHOLD_CONFIG", " x.toml", format!("invalid configuration file: {}", around("\" x.toml\""))),
        ("LEASEHOLD_PREFIX", "shop: ", format!("invalid prefix: {}", around("\"shop: \""))),
        ("LEASEHOLD_URL", "memory:a ", format!("invalid store URL: {}", around("\"memory:a \""))),
        (
            "LEASEHOLD_URL",
            "redis://:pw@h\n",
            format!("invalid store URL: {}", around("\"redis://:***@h\\n\"")),
        ),
        (
            "LEASEHOLD_PASSWORD_FILE",
            "/run/pw ",
            "invalid password_file \"/run/pw \": there is white space around its path; remove it".to_owned(),
        ),
    ] {
        let mut host = TestHost::with_system_file(file);
        host.set(variable, value);
        assert_eq!(host.problem(), format!("Misconfigured: env {variable}: {expected}"));
    }
    for (text, expected) in [
        ("default = 'p '\n[profile.p]\nurl = 'memory:'", format!("1: invalid profile: {}", around("\"p \""))),
        (
            "default = 'p'\n[profile.'p ']\nurl = 'memory:'",
            format!("2: invalid profile: {}", around("\"p \"")),
        ),
        (
            "default = 'p'\n[profile.p]\nurl = 'memory:a '",
            format!("3: invalid store URL: {}", around("\"memory:a \"")),
        ),
        (
            "default = 'p'\n[profile.p]\nurl = 'memory:'\ntable = ' t'",
            format!("4: invalid table: {}", around("\" t\"")),
        ),
        (
            "default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_env = 'PW '",
            "4: invalid password_env: there is white space around the name; remove it".to_owned(),
        ),
        (
            "default = 'p'\n[defaults]\nprefix = ' a'\n[profile.p]\nurl = 'memory:'",
            format!("3: invalid prefix: {}", around("\" a\"")),
        ),
    ] {
        let host = TestHost::with_system_file(text);
        assert_eq!(host.problem(), format!("Misconfigured: ~/etc.toml:{expected}"), "{text}");
    }
}

/// A file of variables that keeps its quotes, the comma of a list: another store, and nobody would say so.
#[test]
fn quotes_and_the_like_around_a_name_are_refused_and_shown() {
    for (variable, value, expected) in [
        (
            "LEASEHOLD_PREFIX",
            "\"shop:\"",
            "invalid prefix: it begins with '\"': \"\\\"shop:\\\"\"; remove it",
        ),
        ("LEASEHOLD_PREFIX", "shop:;", "invalid prefix: it ends with ';': \"shop:;\"; remove it"),
        ("LEASEHOLD_PREFIX", "=shop:", "invalid prefix: it begins with '=': \"=shop:\"; remove it"),
        (
            "LEASEHOLD_PREFIX",
            "shop:\u{1}",
            "invalid prefix: it ends with '\\u{1}': \"shop:\\u{1}\"; remove it",
        ),
        ("LEASEHOLD_PROFILE", "'p'", "invalid profile: it begins with '\\'': \"'p'\"; remove it"),
        (
            "LEASEHOLD_CONFIG",
            "x.toml,",
            "invalid configuration file: it ends with ',': \"x.toml,\"; remove it",
        ),
        (
            "LEASEHOLD_URL",
            "memory:a\"",
            "invalid store URL: its host or path ends with '\"': \"memory:a\\\"\"; remove it, or percent-encode it",
        ),
        (
            "LEASEHOLD_PASSWORD_FILE",
            "/run/pw;",
            "invalid password_file \"/run/pw;\": its path ends with ';'; remove it",
        ),
    ] {
        let mut host = TestHost::with_system_file("default = 'p'\n[profile.p]\nurl = 'memory:'\n");
        host.set(variable, value);
        assert_eq!(host.problem(), format!("Misconfigured: env {variable}: {expected}"));
    }
    for (setting, expected) in [
        ("prefix = 'shop:,'", "3: invalid prefix: it ends with ',': \"shop:,\"; remove it"),
        ("table = '`t`'", "3: invalid table: it begins with '`': \"`t`\"; remove it"),
    ] {
        let host =
            TestHost::with_system_file(&format!("default = 'p'\n[profile.p]\n{setting}\nurl = 'memory:'"));
        assert_eq!(host.problem(), format!("Misconfigured: ~/etc.toml:{expected}"));
    }
    assert!(leasehold::Config::new("memory:").unwrap().with_prefix("'shop:'").is_err());
    assert!(leasehold::Config::new("memory:").unwrap().with_prefix("o'neil;a,b=c/").is_ok());
}

#[test]
fn default_store_is_refused_if_a_store_is_required() {
    let fix =
        "name a store with LEASEHOLD_URL, LEASEHOLD_PROFILE or leasehold -u, or by default = \"NAME\" in";
    let refused = "no store is configured, and require_store forbids the default one";
    let mut host = TestHost::new();
    host.set("LEASEHOLD_REQUIRE_STORE", "1");
    assert_eq!(
        host.problem(),
        format!(
            "Misconfigured: env LEASEHOLD_REQUIRE_STORE: {refused}; {fix} ~/work/leasehold.toml or \
             ~/home/.config/leasehold/config.toml or ~/etc.toml"
        )
    );
    let in_file = TestHost::with_system_file("[defaults]\nttl = '9s'\n");
    in_file.write("etc.toml", "require_store = true\n[defaults]\nttl = '9s'\n");
    assert_eq!(in_file.problem(), format!("Misconfigured: ~/etc.toml:1: {refused}; {fix} ~/etc.toml"));

    host.set("LEASEHOLD_URL", "memory:");
    let config = host.load();
    assert!(!config.is_default_store());
    let expected = ("true".to_owned(), "env LEASEHOLD_REQUIRE_STORE".to_owned());
    assert_eq!(shown(&config, "require_store"), expected);
}

#[cfg(feature = "sqlite")]
#[test]
fn variable_overrides_require_store_of_a_file() {
    let mut host = TestHost::with_system_file("require_store = true\n");
    host.set("LEASEHOLD_REQUIRE_STORE", "0");
    assert!(host.load().is_default_store());
    host.write("etc.toml", "require_store = false\n");
    host.set("LEASEHOLD_REQUIRE_STORE", "1");
    assert!(host.problem().contains("require_store forbids"), "{}", host.problem());
}

#[test]
fn bad_require_store_is_refused_even_if_a_store_is_named() {
    let mut host = TestHost::with_system_file("require_store = 'maybe'\n");
    host.set("LEASEHOLD_URL", "memory:");
    assert_eq!(
        host.problem(),
        "Misconfigured: ~/etc.toml:1: invalid require_store: \"maybe\"; write true or false"
    );
    host.write("etc.toml", "");
    host.set("LEASEHOLD_REQUIRE_STORE", "maybe");
    assert_eq!(
        host.problem(),
        "Misconfigured: env LEASEHOLD_REQUIRE_STORE: invalid require_store: \"maybe\"; write true or false"
    );
}

#[test]
fn secret_in_a_public_url_is_refused() {
    let host = TestHost::new();
    let expected = "Invalid: invalid store URL: it has a password, and others can read it where it stands; \
                    put the URL into LEASEHOLD_URL, or the password into a file that LEASEHOLD_PASSWORD_FILE names";
    for url in ["redis://:hunter2@h", "redis://h?sentinel_password=hunter2"] {
        let error = host.sources().with_public_url(url).load().unwrap_err();
        assert_eq!(host.said(&error), expected);
    }
    assert!(host.sources().with_public_url("redis://ada@h").load().is_ok());
    assert!(host.sources().with_url("redis://:hunter2@h").load().is_ok());
}
