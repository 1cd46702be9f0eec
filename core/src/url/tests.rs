use super::*;
use crate::ErrorKind;
use proptest::prelude::*;
use secrecy::ExposeSecret;

const CANARY: &str = "S3CR3T-CANARY";

fn authority(url: &str) -> Authority {
    StoreUrl::parse(url).unwrap().authority().unwrap()
}

fn problem(url: &str) -> String {
    let error = StoreUrl::parse(url).and_then(|url| url.authority()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    format!("{error}; {}", error.help().unwrap_or_default())
}

#[test]
fn hosts_ports_users_and_paths_are_found() {
    let all = authority("redis+sentinel://ada:pw%40%2F@s1:26379,s2:26380,[::1]:26381/mymaster/0");
    let hosts: Vec<String> = all.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["s1:26379", "s2:26380", "[::1]:26381"]);
    assert_eq!(all.user.as_deref(), Some("ada"));
    assert_eq!(all.password.unwrap().expose_secret(), "pw@/");
    assert_eq!(all.path, "mymaster/0");

    let least = authority("redis://h");
    assert_eq!((least.endpoints[0].port, least.user, least.path.as_str()), (None, None, ""));
    assert!(least.password.is_none());
    assert_eq!(authority("REDIS://:pw@h/").user, None);
}

#[test]
fn files_are_read_as_sqlx_reads_them() {
    let path = |url: &str| StoreUrl::parse(url).unwrap().path().unwrap();
    assert_eq!(path("sqlite:locks.db"), "locks.db");
    assert_eq!(path("sqlite:/var/lib/locks.db?busy_timeout=1s"), "/var/lib/locks.db");
    assert_eq!(path("sqlite:///var/lib/locks.db"), "/var/lib/locks.db");
    assert_eq!(path("sqlite://rel/locks.db"), "rel/locks.db");
    assert_eq!(path("sqlite:with%20space%3F.db"), "with space?.db");
    assert_eq!(path("memory:"), "");
}

#[test]
fn mistakes_are_named_with_the_way_out() {
    let cases = [
        ("locks.db", "it has no scheme; write it like redis://host:6379/0 or sqlite:/path/to/file"),
        ("://h", "it does not begin with a scheme; begin it with redis:// or sqlite:"),
        ("redis:h", "there is no // after its scheme; write it as redis://host:port"),
        ("redis:/h", "there is no // after its scheme; write it as redis://host:port"),
        ("redis://", "it names no host; name at least one"),
        ("redis://h:0", "the port 0 of its host 1; take one from 1 to 65535"),
        ("redis://h:65536", "the port 65536 of its host 1; take one from 1 to 65535"),
        ("redis://a,b:abc", "the port of its host 2 is no number; take one from 1 to 65535"),
        ("redis://a,,b", "its host 2 is empty; name it, or take the comma or colon out"),
        ("redis://::1", "its host 1 has several colons; put an IPv6 address in brackets: [::1]:6379"),
        ("redis://[::1", "its host 1 has no closing bracket; write it as [::1]:6379"),
        ("redis://[::1]6379", "its host 1 goes on after its bracket; write a : before the port"),
        ("redis://a b", "its host 1 has the character ' '; write a name or an address"),
        ("redis://h?timeout", "a parameter of its query has no value; write key=value"),
        ("redis://h?a=1&a=2", "\"a\" is given twice; leave one of them out"),
        ("redis://:%zz@h", "its password has a % that encodes nothing; write a plain % as %25"),
        ("redis://:%ff@h", "its password is not UTF-8 once decoded; encode it as UTF-8"),
        ("redis://h/0#frag", "it contains '#'; write it as %23"),
        ("redis://h\n", "it has a control character; percent-encode it"),
    ];
    for (url, expected) in cases {
        assert_eq!(problem(url), format!("invalid store URL: {expected}"), "{url}");
    }
}

#[test]
fn a_password_that_should_have_been_encoded_is_not_echoed() {
    for (url, encoded) in [
        (format!("redis://:{CANARY}#x@h"), "%23"),
        (format!("redis://:{CANARY}/x@h"), "%2F"),
        (format!("redis://u:{CANARY}?x@h"), "%3F"),
        (format!("redis://u:{CANARY}@x@h"), "%40"),
        (format!("redis://u:x@{CANARY}/y@h/0"), "%40"),
        (format!("redis://u:x@y/{CANARY}@h/0?timeout=1s"), "%40"),
    ] {
        let problem = problem(&url);
        assert!(problem.contains(encoded), "{problem}");
        assert!(!problem.contains(CANARY), "{problem}");
    }
    assert_eq!(authority("redis://u:p@h/0?tls_ca=/x@y").path, "0");
}

#[test]
fn slips_that_would_show_a_password_are_refused_without_it() {
    for url in [
        format!("ada:{CANARY}@h"),
        format!("ada:x/{CANARY}@h"),
        format!("redis://h?timeout=1s?password={CANARY}"),
    ] {
        let problem = problem(&url);
        assert!(!problem.contains(CANARY), "{problem}");
    }
}

#[test]
fn has_secret_is_true_for_each_form_of_password() {
    let has = |url: &str| StoreUrl::parse(url).unwrap().has_secret();
    assert!(has("redis://:pw@h"));
    assert!(has("redis://h?sentinel_password=pw"));
    assert!(!has("redis://h?password="));
    assert!(!has("redis://ada@h/0?timeout=1s"));
    assert!(!has("sqlite:/home/ada@corp/locks.db"));
    assert_eq!(StoreUrl::shown_parameter("timeout", "1s"), "1s");
    assert_eq!(StoreUrl::shown_parameter("sentinel.password", "pw"), "***");
}

#[test]
fn no_rendering_shows_a_password() {
    let urls = [
        format!("redis://:{CANARY}@h:1,h:2/0?timeout=1s"),
        format!("redis://user:{CANARY}@h"),
        format!("redis://h/0?password={CANARY}&sentinel_pass={CANARY}&auth={CANARY}"),
        format!("redis://user:{CANARY}@x@h"),
    ];
    for url in urls {
        let url = StoreUrl::parse(&url).unwrap();
        let mut seen = format!("{url} {url:?} {:?} {:?}", url.query(), url.authority());
        seen += &format!("{:?}", url.query().finish());
        assert!(!seen.contains(CANARY), "{seen}");
    }
    let url = StoreUrl::parse("redis://user@h").unwrap().with_password(SecretString::from(CANARY)).unwrap();
    assert!(!format!("{url} {url:?} {:?}", url.authority()).contains(CANARY));
    assert_eq!(url.authority().unwrap().password.unwrap().expose_secret(), CANARY);
}

#[test]
fn the_user_and_the_place_stay_readable() {
    let url = StoreUrl::parse("rediss://ada:pw@h:6380/2?timeout=1s").unwrap();
    assert_eq!(url.to_string(), "rediss://ada:***@h:6380/2?timeout=1s");
    let url = StoreUrl::parse("sqlite:/home/ada@corp/locks.db").unwrap();
    assert_eq!(url.to_string(), "sqlite:/home/ada@corp/locks.db");
}

/// A scheme whose URL has no authority has the password all the same.
#[test]
fn a_password_that_is_given_beside_the_url_is_kept_beside_it() {
    let url = StoreUrl::parse("redis+unix:///run/redis.sock").unwrap();
    assert!(url.password().is_none());
    let url = url.with_password(SecretString::from(CANARY)).unwrap();
    assert_eq!(url.password().unwrap().expose_secret(), CANARY);
    assert!(!format!("{url} {url:?}").contains(CANARY));
}

#[test]
fn two_passwords_are_one_too_many() {
    let url = StoreUrl::parse("redis://:one@h").unwrap();
    assert!(url.with_password(SecretString::from("two")).is_err());
}

#[test]
fn parameters_are_taken_or_refused_with_the_nearest() {
    let url = StoreUrl::parse("redis://h?timout=1s").unwrap();
    let mut query = url.query();
    assert_eq!(query.take_duration("timeout").unwrap(), None);
    query.take("layout");
    let error = query.finish().unwrap_err();
    assert_eq!(error.to_string(), "invalid store URL: unknown parameter \"timout\"");
    assert_eq!(error.help(), Some("did you mean \"timeout\"? known: layout, timeout"));

    let url = url.with_parameter("layout", "round").unwrap();
    let error = url.query().take_choice("layout", &[("string", 1), ("hash", 2)]).unwrap_err();
    assert_eq!(
        format!("{error}; {}", error.help().unwrap()),
        "invalid layout: \"round\"; use one of: string, hash"
    );
    assert!(url.with_parameter("layout", "string").is_err());
}

proptest! {
    /// Parsing and printing of any text end without a panic.
    #[test]
    fn anything_may_be_written(text in "[ -~é]{0,40}", scheme in "(redis|sqlite|[a-z+]{0,6})") {
        for url in [text.clone(), format!("{scheme}:{text}"), format!("{scheme}://{text}")] {
            if let Ok(url) = StoreUrl::parse(&url) {
                let _ = (url.authority(), url.path(), url.query().finish(), url.to_string());
            }
        }
    }

    /// Encoded credentials come back as they were, and are never shown.
    #[test]
    fn credentials_round_trip(user in "[ -~]{1,12}", password in "[ -~]{4,24}", host in "[a-z0-9.-]{1,12}") {
        let encode = |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
        let url = format!("redis://{}:X{}X@{host}:1", encode(&user), encode(&password));
        let url = StoreUrl::parse(&url).unwrap();
        let authority = url.authority().unwrap();
        prop_assert_eq!(authority.user.as_deref(), Some(user.as_str()));
        let found = authority.password.unwrap();
        prop_assert_eq!(found.expose_secret(), &format!("X{password}X"));
        let secret = format!("X{}X", encode(&password));
        prop_assert!(!url.to_string().contains(&secret));
    }

    /// A list of hosts comes back in its order.
    #[test]
    fn hosts_round_trip(hosts in proptest::collection::vec(("[a-z][a-z0-9-]{0,8}", 1..=65535_u16), 1..6)) {
        let list: Vec<String> = hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        let url = StoreUrl::parse(&format!("zk://{}/a/b", list.join(","))).unwrap();
        let parsed: Vec<String> = url.authority().unwrap().endpoints.iter().map(ToString::to_string).collect();
        prop_assert_eq!(parsed, list);
    }
}
