//! Bad input is refused before anything is sent: no connection, no key.

use crate::fake::{Fake, WELCOME};
use crate::kit::{client, name, with_prefix};
use leasehold_core::{AcquireOptions, DistributedLockExt, ErrorKind, Namespace};
use leasehold_store_url::StoreUrl;
use std::time::Duration;

#[tokio::test]
async fn names_and_leases_out_of_range_reach_no_server() {
    let fake = Fake::answering(|_| WELCOME.to_owned()).await;
    let locks = client(&fake.url());
    for bad in ["", "a\0b", "a\nb", "\u{1b}[2J", &"x".repeat(513)] {
        assert_eq!(locks.acquire(bad).await.unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
    }
    let leases = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(49),
        Duration::from_secs(86_401),
        Duration::MAX,
    ];
    for ttl in leases {
        let options = AcquireOptions::new().with_ttl(ttl);
        let error = locks.acquire_with(&name("job"), &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{ttl:?}");
        assert!(error.to_string().starts_with("invalid ttl: "), "{error}");
    }
    assert_eq!(fake.connections(), 0);
}

#[test]
fn urls_and_prefixes_that_make_no_sense_are_refused_when_the_store_is_opened() {
    let refused = |url: &str, prefix: &str| with_prefix(url, prefix).unwrap_err();
    for url in [
        "redis://h:0",
        "redis://h:65536",
        "redis://h:abc",
        "redis://::1",
        "redis://",
        "redis:h",
        "redis://a,b",
        "redis://h/x",
        "redis://h?nonsense=1",
        "redis://h?timeout=5",
        "redis://h?timeout=0s",
        "redis://h?timeout=2m",
        "redis://h?protocol=4",
        "redis://h?tls_insecure=yes",
        "redis+unix://relative.sock",
    ] {
        let error = refused(url, "leasehold:");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
        assert!(error.help().is_some(), "{url}: {error}");
    }
    assert_eq!(refused("redis://h", "a{b").kind(), ErrorKind::Invalid);
    assert_eq!(refused("redys://h", "leasehold:").kind(), ErrorKind::Misconfigured);
}

#[test]
fn opening_needs_neither_a_runtime_nor_a_server() {
    let url = StoreUrl::parse("redis://127.0.0.1:1").unwrap();
    for scheme in leasehold_redis::SCHEMES {
        assert!(StoreUrl::parse(&format!("{scheme}://h/p")).is_ok());
    }
    let backend =
        leasehold_redis::open(&url, &Namespace::new(leasehold_redis::DEFAULT_PREFIX).unwrap()).unwrap();
    assert_eq!(backend.semantics().backend, "redis");
}
