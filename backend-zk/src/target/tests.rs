use super::*;
use leasehold_core::ErrorKind;

fn target(url: &str) -> Target {
    Target::from_url(&StoreUrl::parse(url).unwrap()).unwrap()
}

fn refused(url: &str) -> String {
    let error = StoreUrl::parse(url).and_then(|url| Target::from_url(&url)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.help().is_some(), "{error}");
    error.to_string()
}

#[test]
fn shortest_url_has_every_default() {
    let target = target("zk://host");
    assert_eq!(target.servers.to_string(), "host:2181");
    assert_eq!(target.base, "/leasehold");
    assert_eq!(target.access, Access::Anyone);
    assert!(target.login.is_none());
    assert_eq!(target.timeouts.session, Duration::from_secs(10));
}

#[test]
fn full_url_is_read() {
    let url = "zk://app:s%3Ac@z1:2182,z2,[::1]:2183/apps/shop/?session_timeout=4s&timeout=1500ms&connect_timeout=3s";
    let target = target(url);
    assert_eq!(target.servers.to_string(), "z1:2182,z2:2181,[::1]:2183");
    assert_eq!(target.base, "/apps/shop");
    assert_eq!(target.access, Access::Creator);
    assert_eq!(target.login.unwrap().to_bytes().unwrap(), b"app:s:c");
    let times = (target.timeouts.session, target.timeouts.request, target.timeouts.connect);
    assert_eq!(times, (Duration::from_secs(4), Duration::from_millis(1500), Duration::from_secs(3)));
}

#[test]
fn password_file_is_read_for_every_session() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "one\n").unwrap();
    let url = StoreUrl::parse("zk://app@h").unwrap().with_password(Secret::file(&file).unwrap()).unwrap();
    let login = Target::from_url(&url).unwrap().login.unwrap();
    assert_eq!(login.to_bytes().unwrap(), b"app:one");
    std::fs::write(&file, "two\n").unwrap();
    assert_eq!(login.to_bytes().unwrap(), b"app:two");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(login.to_bytes().unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn nodes_may_be_left_to_anyone_on_request() {
    assert_eq!(target("zk://a:b@h?acl=anyone").access, Access::Anyone);
}

#[test]
fn mistake_is_named_with_its_fix() {
    for (url, message) in [
        ("zk://h?login=sasl", "invalid login: the URL names no user"),
        ("zk://a:b@h?login=kerberos", "invalid login: \"kerberos\""),
        ("zk://h/a//b", "invalid path of the store URL: it has an empty segment"),
        ("zk://h/a/../b", "invalid path of the store URL: it is a relative one"),
        ("zk://h/.", "invalid path of the store URL: it is a relative one"),
        ("zk://h/zookeeper/x", "invalid path of the store URL: /zookeeper is the server's own"),
        ("zk://h/%F0%9F%94%92", "invalid path of the store URL: ZooKeeper takes no U+1F512 in a path"),
        ("zk://h/a%00", "invalid path of the store URL: ZooKeeper takes no U+0000 in a path"),
        ("zk://h?session_timeout=1ms", "invalid session_timeout: 1ms, at least 200ms"),
        ("zk://h?timeout=2h", "invalid timeout: 7200s, at most 60s"),
        ("zk://h?acl=creator", "invalid acl: \"creator\", and the URL names no user"),
        ("zk://h?acl=open", "invalid acl: \"open\""),
        ("zk://user@h", "invalid store URL: it has a user and no password"),
        ("zk://:secret@h", "invalid store URL: it has a password and no user"),
        ("zk://a%3Ab:c@h", "invalid user: it has a colon, which ends a user of ZooKeeper"),
        ("zk://h?sessiontimeout=4s", "invalid store URL: unknown parameter \"sessiontimeout\""),
    ] {
        assert_eq!(refused(url), message, "{url}");
    }
    assert!(refused(&format!("zk://h/{}", "x".repeat(1025))).contains("1025 bytes, limit 1024"));
}

#[test]
fn scheme_of_another_store_is_misconfigured() {
    let error = Target::from_url(&StoreUrl::parse("zookeeper://h").unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert_eq!(error.to_string(), "\"zookeeper\" is no scheme of ZooKeeper");
    assert!(error.help().is_some());
}

#[test]
fn password_is_not_shown() {
    let target = target("zk://app:canary@h");
    assert!(!format!("{target:?}").contains("canary"));
}
