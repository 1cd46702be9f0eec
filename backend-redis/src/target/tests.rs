use super::*;
use leasehold_core::ErrorKind;
use secrecy::ExposeSecret;

fn target(url: &str) -> Target {
    Target::of(&StoreUrl::parse(url).unwrap()).unwrap()
}

fn problem(url: &str) -> String {
    let error = Target::of(&StoreUrl::parse(url).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    format!("{error}; {}", error.help().unwrap_or_default())
}

#[test]
fn a_url_says_where_and_who_and_how() {
    let all = target("redis://ada:pw%40@h:7000/3?timeout=500ms&connect_timeout=5s&protocol=resp2");
    assert_eq!(all.address.to_string(), "h:7000");
    let login = all.login.unwrap();
    assert_eq!(login.user.as_deref(), Some("ada"));
    assert_eq!(login.password.unwrap().expose_secret(), "pw@");
    assert_eq!((all.database, all.protocol), (3, Some(Protocol::Resp2)));
    assert_eq!(all.timeouts.request, Duration::from_millis(500));
    assert_eq!(all.timeouts.connect, Duration::from_secs(5));

    let least = target("valkey://[::1]");
    assert_eq!(least.address.to_string(), "[::1]:6379");
    assert!(least.login.is_none() && least.tls.is_none() && least.protocol.is_none());
    assert_eq!((least.database, least.timeouts.request), (0, TIMEOUT));
    assert_eq!(target("redis://h/").database, 0);
}

#[test]
fn a_socket_has_a_path_and_perhaps_a_login() {
    let socket = target("redis+unix:///run/a%20b.sock?db=2");
    assert_eq!(socket.address.to_string(), "/run/a b.sock");
    assert!(socket.login.is_none());
    assert_eq!(socket.database, 2);
    let login = target("redis+unix://ada:pw@/run/redis.sock").login.unwrap();
    assert_eq!(login.user.as_deref(), Some("ada"));
    assert_eq!(login.password.unwrap().expose_secret(), "pw");
}

#[test]
fn mistakes_are_named_with_the_way_out() {
    let cases = [
        ("redis://h/abc", "invalid database: \"abc\" is no index; write a number: redis://host:6379/0"),
        ("redis://h/-1", "invalid database: \"-1\" is no index; write a number: redis://host:6379/0"),
        (
            "redis://h/99999999999",
            "invalid database: \"99999999999\" is no index; write a number: redis://host:6379/0",
        ),
        ("redis://h?timeout=1ms", "invalid timeout: 1ms, at least 10ms; lengthen it"),
        ("redis://h?connect_timeout=2m", "invalid connect_timeout: 120s, at most 60s; shorten it"),
        ("redis://h?timeout=5", "invalid timeout: \"5\" has no unit; write 5s or 5ms"),
        ("redis://h?protocol=resp4", "invalid protocol: \"resp4\"; use one of: resp2, resp3"),
        ("redis://a,b", "invalid store URL: 2 hosts, this scheme takes one; name one host"),
        (
            "redis://h?tls_ca=/ca.pem",
            "invalid tls_ca: redis:// is not encrypted; write rediss://, or leave it out",
        ),
        (
            "redis+unix://run/redis.sock",
            "invalid store URL: it names no absolute path of a socket; write it as redis+unix:///run/redis.sock",
        ),
        (
            "redis+unix:",
            "invalid store URL: it names no absolute path of a socket; write it as redis+unix:///run/redis.sock",
        ),
    ];
    for (url, expected) in cases {
        assert_eq!(problem(url), expected, "{url}");
    }
    assert!(problem("redis://h?timout=1s").contains("did you mean \"timeout\"?"));
    assert!(problem("reddis://h").contains("did you mean \"redis\"?"));
}

#[cfg(not(feature = "tls"))]
#[test]
fn an_encrypted_url_says_which_feature_is_missing() {
    for scheme in ["rediss", "valkeys"] {
        let url = StoreUrl::parse(&format!("{scheme}://h")).unwrap();
        let error = Target::of(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.help().unwrap().contains("\"tls\""));
    }
}
