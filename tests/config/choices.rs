//! Mistakes about which store and which word: in the environment, in code, on a command line.

use crate::scene::Scene;
use leasehold::ConfigSources;

#[test]
fn a_profile_that_is_not_there() {
    let fix = "did you mean \"prod\"? known: dev, prod";
    let text = "[profile.prod]\nurl = 'memory:'\n[profile.dev]\nurl = 'memory:'\n";
    let mut scene = Scene::with_system_file(&format!("default = 'prdo'\n{text}"));
    assert_eq!(
        scene.problem(),
        format!("Misconfigured: ~/etc.toml:1: invalid profile: there is no \"prdo\" in ~/etc.toml; {fix}")
    );
    let error = scene.sources().with_profile("pro").load().unwrap_err();
    let expected = format!("Invalid: invalid profile: there is no \"pro\" in ~/etc.toml; {fix}");
    assert_eq!(scene.said(&error), expected);
    scene.set("LEASEHOLD_PROFILE", "prod2");
    assert_eq!(
        scene.problem(),
        format!(
            "Misconfigured: env LEASEHOLD_PROFILE: invalid profile: there is no \"prod2\" in ~/etc.toml; {fix}"
        )
    );
    assert_eq!(
        Scene::with_system_file(text).problem(),
        "Misconfigured: ~/etc.toml: no profile is chosen; write default = \"NAME\" into it, or set LEASEHOLD_PROFILE; \
         known: dev, prod"
    );
    let error = ConfigSources::new().with_profile("prod").load().unwrap_err();
    assert_eq!(
        scene.said(&error),
        "Invalid: invalid profile: there is no configuration file; write a leasehold.toml, or name a file with \
         LEASEHOLD_CONFIG"
    );
}

#[test]
fn in_the_environment() {
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
        let mut scene = Scene::new();
        scene.set(variable, value);
        if variable != "LEASEHOLD_URL" {
            scene.set("LEASEHOLD_URL", "memory:");
        }
        assert_eq!(scene.problem(), format!("Misconfigured: env {variable}: {expected}"));
    }
}

#[test]
fn a_variable_that_is_not_text() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let not_text = OsString::from_vec(vec![0xff]);
    let sources = ConfigSources::new().with_environment([("LEASEHOLD_URL", not_text)]);
    assert_eq!(
        Scene::new().said(&sources.load().unwrap_err()),
        "Misconfigured: env LEASEHOLD_URL: invalid LEASEHOLD_URL: its value is not UTF-8; set it to text"
    );
}

/// A home of `/`, as services have it, makes two slashes of one; a path behind two would be a relative one.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_home_directory_that_ends_with_a_slash_makes_no_other_store() {
    for home in ["/", "//srv"] {
        let mut scene =
            Scene::with_system_file("default = 'p'\n[profile.p]\nurl = 'sqlite:${HOME}/locks.db'\n");
        scene.set("HOME", home);
        scene.set("XDG_CONFIG_HOME", "/nowhere");
        let error = leasehold::connect_with(&scene.load()).await.unwrap_err();
        assert_eq!(
            scene.said(&error),
            "Misconfigured: ~/etc.toml:3: invalid store URL: it has two slashes where a path begins; \
             write sqlite:/path, or sqlite:./path"
        );
    }
}

#[test]
fn two_words_of_the_same_strength_about_the_store() {
    let fix = "leave one of them out: a profile has a URL of its own";
    let mut scene = Scene::new();
    let error = scene.sources().with_url("memory:").with_profile("p").load().unwrap_err();
    assert_eq!(scene.said(&error), format!("Invalid: a URL and a profile are both given; {fix}"));
    scene.set("LEASEHOLD_URL", "memory:");
    scene.set("LEASEHOLD_PROFILE", "p");
    assert_eq!(
        scene.problem(),
        format!("Misconfigured: LEASEHOLD_URL and LEASEHOLD_PROFILE are both set; {fix}")
    );
}

#[test]
fn what_is_given_is_an_invalid_argument() {
    let scene = Scene::new();
    let said = |sources: ConfigSources| scene.said(&sources.load().unwrap_err());
    let store = || scene.sources().with_url("memory:");
    assert_eq!(said(store().with_ttl("30")), "Invalid: invalid ttl: \"30\" has no unit; write 30s or 30ms");
    assert_eq!(
        said(store().with_wait("never")),
        "Invalid: invalid wait: \"never\"; write forever, 0, or a time such as 10s"
    );
    assert_eq!(
        said(scene.sources().with_url("redis//h")),
        "Invalid: invalid store URL: it has no scheme; write it like redis://host:6379/0 or sqlite:/path/to/file"
    );
}

#[test]
fn a_password_where_others_can_read_it_is_refused() {
    let scene = Scene::new();
    let expected = "Invalid: invalid store URL: it has a password, and others can read it where it stands; \
                    put the URL into LEASEHOLD_URL, or the password into a file that LEASEHOLD_PASSWORD_FILE names";
    for url in ["redis://:hunter2@h", "redis://h?sentinel_password=hunter2"] {
        let error = scene.sources().with_public_url(url).load().unwrap_err();
        assert_eq!(scene.said(&error), expected);
    }
    assert!(scene.sources().with_public_url("redis://ada@h").load().is_ok());
    assert!(scene.sources().with_url("redis://:hunter2@h").load().is_ok());
}
