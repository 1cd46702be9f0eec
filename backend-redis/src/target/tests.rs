use super::*;
use leasehold_core::ErrorKind;
use secrecy::ExposeSecret;

fn deployment(url: &str) -> Deployment {
    Deployment::from_url(&StoreUrl::parse(url).unwrap()).unwrap().0
}

fn target(url: &str) -> Target {
    match deployment(url) {
        Deployment::Single(target) => target,
        other => panic!("{other:?}"),
    }
}

fn problem(url: &str) -> String {
    let error = Deployment::from_url(&StoreUrl::parse(url).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    format!("{error}; {}", error.help().unwrap_or_default())
}

#[test]
fn url_has_address_login_and_parameters() {
    let all = target("redis://ada:pw%40@h:7000/3?timeout=500ms&connect_timeout=5s&protocol=resp2");
    assert_eq!(all.address.to_string(), "h:7000");
    assert_eq!(all.user.as_deref(), Some("ada"));
    assert_eq!(all.password.unwrap().read().unwrap().expose_secret(), "pw@");
    assert_eq!((all.database, all.protocol), (3, Some(ProtocolVersion::RESP2)));
    assert_eq!(all.timeouts.request, Duration::from_millis(500));
    assert_eq!(all.timeouts.connect, Duration::from_secs(5));

    let least = target("valkey://[::1]");
    assert_eq!(least.address.to_string(), "[::1]:6379");
    assert!(!least.has_login() && least.tls.is_none() && least.protocol.is_none());
    assert_eq!((least.database, least.timeouts.request), (0, TIMEOUT));
    assert_eq!(target("redis://h/").database, 0);
}

#[test]
fn socket_url_has_a_path_and_an_optional_login() {
    let socket = target("redis+unix:///run/a%20b.sock?db=2");
    assert_eq!(socket.address.to_string(), "/run/a b.sock");
    assert!(!socket.has_login());
    assert_eq!(socket.database, 2);
    let socket = target("redis+unix://ada:pw@/run/redis.sock");
    assert_eq!(socket.user.as_deref(), Some("ada"));
    assert_eq!(socket.password.unwrap().read().unwrap().expose_secret(), "pw");
}

#[test]
fn password_for_a_socket_may_be_given_beside_its_url() {
    for (url, user) in [("redis+unix:///run/a.sock", None), ("redis+unix://ada@/run/a.sock", Some("ada"))] {
        let url = StoreUrl::parse(url).unwrap().with_password("pw".into()).unwrap();
        let Deployment::Single(socket) = Deployment::from_url(&url).unwrap().0 else { panic!("{url}") };
        assert_eq!(socket.address.to_string(), "/run/a.sock");
        assert_eq!(socket.user.as_deref(), user);
        assert_eq!(
            socket.password.unwrap_or_else(|| panic!("no login of {url}")).read().unwrap().expose_secret(),
            "pw"
        );
    }
}

#[test]
fn sentinels_have_a_name_for_the_primary_and_a_login_of_their_own() {
    let url =
        "redis+sentinel://ada:pw@s1,s2:7,[::1]/shop/3?sentinel_user=guard&sentinel_password=pw2&timeout=1s";
    let Deployment::Sentinel(group) = deployment(url) else { panic!("no group") };
    assert_eq!((&*group.name, group.primary.database), ("shop", 3));
    assert_eq!(group.primary.user.as_deref(), Some("ada"));
    let addresses: Vec<String> = group.sentinels.iter().map(|one| one.address.to_string()).collect();
    assert_eq!(addresses, ["s1:26379", "s2:7", "[::1]:26379"]);
    for sentinel in group.sentinels {
        assert_eq!((sentinel.database, sentinel.timeouts.request), (0, Duration::from_secs(1)));
        assert_eq!(sentinel.user.as_deref(), Some("guard"));
        assert_eq!(sentinel.password.unwrap().read().unwrap().expose_secret(), "pw2");
    }
    let Deployment::Sentinel(group) = deployment("valkey+sentinel://ada:pw@s1/shop") else { panic!() };
    assert!(!group.sentinels[0].has_login(), "the password of the data is nobody else's business");
}

#[test]
fn cluster_url_names_some_nodes_as_seeds() {
    let Deployment::Cluster(seeds) = deployment("redis+cluster://ada:pw@a,b:7000/") else { panic!() };
    let addresses: Vec<String> = seeds.iter().map(|seed| seed.address.to_string()).collect();
    assert_eq!(addresses, ["a:6379", "b:7000"]);
    assert!(seeds.iter().all(Target::has_login));
}

#[test]
fn replicas_are_waited_for_on_request() {
    for url in ["redis://h", "redis+sentinel://h/m", "redis+cluster://h"] {
        let asked = |query: &str| {
            let url = StoreUrl::parse(&format!("{url}{query}")).unwrap();
            Deployment::from_url(&url).unwrap().1
        };
        assert_eq!(asked(""), None);
        let within = Duration::from_millis(100);
        assert_eq!(asked("?wait_replicas=2&timeout=800ms"), Some(Replicas { count: 2, within }));
    }
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
    let cases = cases.into_iter().chain([
        (
            "redis+sentinel://h",
            "invalid store URL: it does not name what the Sentinels watch; write the name behind the hosts: redis+sentinel://s1:26379,s2:26379/mymaster",
        ),
        ("redis+sentinel://h/m/x", "invalid database: \"x\" is no index; write a number: redis://host:6379/0"),
        ("redis+sentinel://h,h:26379/m", "invalid store URL: its hosts 1 and 2 are the same, h:26379; name each server once"),
        ("redis+cluster://a,b,a", "invalid store URL: its hosts 1 and 3 are the same, a; name each server once"),
        ("redis+sentinel://S1,s2,s1/x", "invalid store URL: its hosts 1 and 3 are the same, s1; name each server once"),
        ("redis+cluster://a/2", "invalid database: 2, and a cluster has database 0 only; leave it out"),
        ("redis://h?wait_replicas=0", "invalid wait_replicas: \"0\"; write a number from 1 to 64, or leave it out"),
        ("redis://h?wait_replicas=+1", "invalid wait_replicas: \"+1\"; write a number from 1 to 64, or leave it out"),
        ("redis://h?wait_replicas=65", "invalid wait_replicas: \"65\"; write a number from 1 to 64, or leave it out"),
    ]);
    for (url, expected) in cases {
        assert_eq!(problem(url), expected, "{url}");
    }
    assert!(problem("redis://h?timout=1s").contains("did you mean \"timeout\"?"));
    assert!(problem("redis://h?sentinel_password=x").contains("unknown parameter"));
}

#[test]
fn scheme_of_another_store_is_misconfigured() {
    for url in ["reddis://h", "postgres://h/db"] {
        let url = StoreUrl::parse(url).unwrap();
        for error in [Deployment::from_url(&url).unwrap_err(), Target::nodes(&url).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            let (message, scheme) = (error.to_string(), url.scheme());
            assert_eq!(message, format!("the scheme {scheme:?} of the store URL is none of Redis"));
        }
    }
    let error = Deployment::from_url(&StoreUrl::parse("reddis://h").unwrap()).unwrap_err();
    assert!(error.help().unwrap().contains("did you mean \"redis\"?"));
}

#[cfg(not(feature = "tls"))]
#[test]
fn encrypted_url_without_tls_names_the_missing_feature() {
    for scheme in ["rediss", "valkeys", "rediss+sentinel", "valkeys+cluster"] {
        let url = StoreUrl::parse(&format!("{scheme}://h/0")).unwrap();
        let error = Deployment::from_url(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.help().unwrap().contains("\"tls\""));
    }
}
