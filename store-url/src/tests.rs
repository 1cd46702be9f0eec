use super::*;
use leasehold_core::ErrorKind;
use proptest::prelude::*;
use secrecy::ExposeSecret;

/// The password now.
fn read(password: Option<Secret>) -> String {
    password.unwrap().read().unwrap().expose_secret().to_owned()
}

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
fn authority_has_user_password_hosts_and_path() {
    let all = authority("redis+sentinel://ada:pw%40%2F@s1:26379,s2:26380,[::1]:26381/mymaster/0");
    let hosts: Vec<String> = all.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["s1:26379", "s2:26380", "[::1]:26381"]);
    assert_eq!(all.user.as_deref(), Some("ada"));
    assert_eq!(read(all.password), "pw@/");
    assert_eq!(all.path, "mymaster/0");

    let least = authority("redis://h");
    assert_eq!((least.endpoints[0].port, least.user, least.path.as_str()), (None, None, ""));
    assert!(least.password.is_none());
    assert_eq!(authority("REDIS://:pw@h/").user, None);
}

#[test]
fn path_of_a_file_is_the_one_that_sqlx_reads() {
    let path = |url: &str| StoreUrl::parse(url).unwrap().path().unwrap();
    assert_eq!(path("sqlite:locks.db"), "locks.db");
    assert_eq!(path("sqlite:/var/lib/locks.db?busy_timeout=1s"), "/var/lib/locks.db");
    assert_eq!(path("sqlite:///var/lib/locks.db"), "/var/lib/locks.db");
    assert_eq!(path("sqlite://rel/locks.db"), "rel/locks.db");
    assert_eq!(path("sqlite:with%20space%3F.db"), "with space?.db");
    assert_eq!(path("memory:"), "");
}

#[test]
fn mistake_is_refused_with_the_way_out() {
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
        ("redis://::1:6379", "its host 1 has several colons; put an IPv6 address in brackets: [::1]:6379"),
        ("redis://a@h,fe80::1", "its host 2 has several colons; put an IPv6 address in brackets: [::1]:6379"),
        ("redis://h/0#frag", "it contains '#'; write it as %23"),
        ("redis://h\u{1}", "it has the control character '\\u{1}'; percent-encode it"),
    ];
    for (url, expected) in cases {
        assert_eq!(problem(url), format!("invalid store URL: {expected}"), "{url}");
    }
}

#[test]
fn white_space_around_a_part_is_refused_and_shown() {
    let cases = [
        ("sqlite:/srv/l.db ", "it: \"sqlite:/srv/l.db \"; remove it"),
        (" redis://h", "it: \" redis://h\"; remove it"),
        ("redis://u:pw@h/0\r\n", "it: \"redis://u:***@h/0\\r\\n\"; remove it"),
        ("zk://h/shop\u{a0}", "it: \"zk://h/shop\\u{a0}\"; remove it"),
        ("redis://h?sentinel_password=pw ", "it: \"redis://h?sentinel_password=*** \"; remove it"),
        (
            "zk://h/shop ?timeout=1s",
            "its host or path: \"zk://h/shop ?timeout=1s\"; remove it, or percent-encode it",
        ),
        ("zk://h/ shop", "its host or path: \"zk://h/ shop\"; remove it, or percent-encode it"),
        ("zk://h ?timeout=1s", "its host or path: \"zk://h ?timeout=1s\"; remove it, or percent-encode it"),
        ("sqlite: /srv/l.db", "its host or path: \"sqlite: /srv/l.db\"; remove it, or percent-encode it"),
    ];
    for (url, expected) in cases {
        let expected = format!("invalid store URL: there is white space around {expected}");
        assert_eq!(problem(url), expected, "{url:?}");
    }
    assert_eq!(
        problem("mysql://u@h/d?table= locks&timeout=1s"),
        "invalid table: there is white space around it: \" locks\"; remove it"
    );
    let url = StoreUrl::parse("mysql://u@h/d").unwrap();
    assert!(url.clone().with_parameter("table", "locks\n").is_err());
    assert!(url.with_parameter("sentinel_password", " pw ").is_ok(), "it may be a part of the secret");
    assert_eq!(StoreUrl::parse("sqlite:/srv/l.db%20").unwrap().path().unwrap(), "/srv/l.db ");
}

/// Each slip at each end of each part; and the same characters where they have always been legal.
#[test]
fn slip_at_an_end_is_refused_and_shown_and_legal_within() {
    let unseen = ['\u{feff}', '\u{200b}', '\u{200d}', '\u{200e}', '\u{202e}', '\u{2066}', '\u{ad}'];
    for slip in ['"', '\'', '`', ',', ';', '=', '”'].into_iter().chain(unseen) {
        let shown = |text: &str| format!("invalid store URL: its host or path ends with {slip:?}: {text:?}");
        for (begin, end) in [
            ("sqlite:/srv/l.db", ""),
            ("sqlite://rel", ""),
            ("zk://h/shop", ""),
            ("zk://h/shop", "/"),
            ("zk://h/shop", "?timeout=1s"),
            ("mysql://u:***@h/locks", ""),
            ("redis+sentinel://s1,s2/mymaster", ""),
            ("redis+unix:///run/redis.sock", ""),
            ("postgres://h", ""),
        ] {
            let url = format!("{begin}{slip}{end}");
            let said = problem(&url.replace("***", "pw"));
            assert!(said.starts_with(&shown(&url)), "{url}: {said}");
        }
        for url in [
            format!("sqlite:{slip}/l.db"),
            format!("sqlite:/dir/{slip}l.db"),
            format!("sqlite:a/{slip}l.db?table=a"),
            format!("redis+unix:///run/{slip}redis.sock"),
            format!("zk://h/{slip}shop"),
            format!("zk://h/shop/{slip}locks/"),
            format!("zk://{slip}h/shop"),
        ] {
            let expected = format!("invalid store URL: its host or path begins with {slip:?}: {url:?}");
            assert!(problem(&url).starts_with(&expected), "{}", problem(&url));
        }
        let value = format!("locks{slip}");
        let url = StoreUrl::parse("mysql://u@h/d").unwrap();
        let error = url.clone().with_parameter("table", &value).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid table: it ends with {slip:?}: {value:?}"));
        assert!(StoreUrl::parse(&format!("mysql://u@h/d?table={value}")).is_err());
        assert_eq!(slip_at_ends("it", &value).unwrap(), format!("it ends with {slip:?}"));

        assert!(url.with_parameter("sentinel_password", &value).is_ok(), "it may be a part of the secret");
        let within = StoreUrl::parse(&format!("sqlite:/a{slip}b/l{slip}.db?table=a{slip}b")).unwrap();
        assert_eq!(within.path().unwrap(), format!("/a{slip}b/l{slip}.db"));
        assert!(StoreUrl::parse(&format!("sqlite:/{slip}a{slip}/l.db")).is_ok());
        let login = StoreUrl::parse(&format!("redis://{slip}u:p{slip}@h/0")).unwrap().authority().unwrap();
        assert_eq!(login.user, Some(format!("{slip}u")));
        let encoded =
            percent_encoding::percent_encode(slip.to_string().as_bytes(), percent_encoding::NON_ALPHANUMERIC)
                .to_string();
        assert_eq!(
            StoreUrl::parse(&format!("sqlite:/l{encoded}")).unwrap().path().unwrap(),
            format!("/l{slip}")
        );
    }
    for text in ["shop:", "shop/", "a=b", "o'neil/x", "{shop}:", "-", "(a)", "", "a.b_c", "é"] {
        assert_eq!(slip_at_ends("it", text), None, "{text}");
    }
}

#[test]
fn urls_are_equal_if_their_passwords_are() {
    let url = |text: &str| StoreUrl::parse(text).unwrap();
    assert_eq!(url("redis://h?a=1"), url("REDIS://h?a=1"));
    assert_ne!(url("redis://:one@h"), url("redis://:two@h"));
    let given = |password: &str| url("redis://h").with_password(password.into()).unwrap();
    assert_eq!(given("one"), given("one"));
    assert_ne!(given("one"), given("two"));
}

/// The `@host` was forgotten, so the password stands where a port does.
#[test]
fn password_in_the_place_of_a_port_is_not_shown() {
    for url in [
        format!("redis://ada:{CANARY} "),
        format!("redis://ada:{CANARY}\n"),
        format!("redis://h1:6379,ada:{CANARY} "),
        format!("redis://h?pw= {CANARY}"),
        format!("redis://ada:{CANARY}"),
    ] {
        let shown = match StoreUrl::parse(&url) {
            Ok(url) => format!("{url} {url:?} {:?}", url.authority()),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!shown.contains(CANARY), "{shown}");
    }
    let url = StoreUrl::parse("redis://h1:1,[::1]:2,h3/0").unwrap();
    assert_eq!(url.to_string(), "redis://h1:1,[::1]:2,h3/0");
}

#[test]
fn password_without_encoding_is_refused_and_not_shown() {
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
fn slip_that_would_show_a_password_is_refused_without_it() {
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
fn has_secret_is_true_if_display_hides_a_part() {
    let has = |url: &str| StoreUrl::parse(url).unwrap().has_secret();
    assert!(has("redis://:pw@h"));
    assert!(has("redis://h?sentinel_password=pw"));
    assert!(!has("redis://h?password=") && !has("redis://ada:@h"));
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
    let url = StoreUrl::parse("redis://user@h").unwrap().with_password(CANARY.into()).unwrap();
    assert!(!format!("{url} {url:?} {:?}", url.authority()).contains(CANARY));
    assert_eq!(read(url.authority().unwrap().password), CANARY);
}

#[test]
fn display_shows_user_host_and_path() {
    let url = StoreUrl::parse("rediss://ada:pw@h:6380/2?timeout=1s").unwrap();
    assert_eq!(url.to_string(), "rediss://ada:***@h:6380/2?timeout=1s");
    let url = StoreUrl::parse("sqlite:/home/ada@corp/locks.db").unwrap();
    assert_eq!(url.to_string(), "sqlite:/home/ada@corp/locks.db");
}

#[test]
fn password_beside_a_url_without_authority_is_kept() {
    let url = StoreUrl::parse("redis+unix:///run/redis.sock").unwrap();
    assert!(url.password().is_none());
    let url = url.with_password(CANARY.into()).unwrap();
    assert_eq!(read(url.password().cloned()), CANARY);
    assert!(!format!("{url} {url:?}").contains(CANARY));
}

#[test]
fn password_beside_a_url_that_has_one_is_refused() {
    let url = StoreUrl::parse("redis://:one@h").unwrap();
    assert!(url.with_password("two".into()).is_err());
}

#[test]
fn unknown_parameter_is_refused_with_the_nearest() {
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

#[test]
fn address_is_shown_without_its_secrets() {
    let bare = authority("redis://[::1]");
    assert_eq!((bare.endpoints[0].host.as_str(), bare.endpoints[0].port), ("::1", None));
    let url = StoreUrl::parse("redis://u:hidden@h/?a=1&b=2").unwrap();
    assert_eq!(url.scheme(), "redis");
    let logged = format!("{url:?}");
    assert!(logged.starts_with("StoreUrl(redis:") && !logged.contains("hidden"), "{logged}");
}

proptest! {
    /// Parsing any text ends without a panic.
    #[test]
    fn parse_of_any_text_ends_without_a_panic(text in "[ -~é]{0,40}", scheme in "(redis|sqlite|[a-z+]{0,6})") {
        for url in [text.clone(), format!("{scheme}:{text}"), format!("{scheme}://{text}")] {
            if let Ok(url) = StoreUrl::parse(&url) {
                let _ = (url.authority(), url.path(), url.query().finish(), url.to_string());
            }
        }
    }

    /// Encoded credentials come back as they were, and are never shown.
    #[test]
    fn credentials_come_back_as_they_were_written(user in "[ -~]{1,12}", password in "[ -~]{4,24}", host in "[a-z0-9.-]{1,12}") {
        let encode = |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
        let url = format!("redis://{}:X{}X@{host}:1", encode(&user), encode(&password));
        let url = StoreUrl::parse(&url).unwrap();
        let authority = url.authority().unwrap();
        prop_assert_eq!(authority.user.as_deref(), Some(user.as_str()));
        prop_assert_eq!(read(authority.password), format!("X{password}X"));
        let secret = format!("X{}X", encode(&password));
        prop_assert!(!url.to_string().contains(&secret));
    }

    /// A list of hosts comes back in its order.
    #[test]
    fn hosts_come_back_in_their_order(hosts in proptest::collection::vec(("[a-z][a-z0-9-]{0,8}", 1..=65535_u16), 1..6)) {
        let list: Vec<String> = hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        let url = StoreUrl::parse(&format!("zk://{}/a/b", list.join(","))).unwrap();
        let parsed: Vec<String> = url.authority().unwrap().endpoints.iter().map(ToString::to_string).collect();
        prop_assert_eq!(parsed, list);
    }
}
