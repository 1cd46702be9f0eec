//! Arguments that are refused before any request.

use crate::kit::*;
use leasehold_core::{Claim, ErrorKind, LockBackend, OwnerId};

#[tokio::test]
async fn holder_description_above_the_limit_is_refused_and_costs_no_connection() {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("other");
    hold(&backend, &holder).await;
    let large = Claim::new(name("job"), OwnerId::random().unwrap(), TTL, "x".repeat(65 * 1024).into());

    let error = backend.try_acquire(&large).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "invalid holder: 66560 bytes, limit 1024");
    assert_eq!(renew(&backend, &holder).await.unwrap(), leasehold_core::Renewal::Renewed);
    assert_eq!(Look::at(&server).await.children(BASE).await, ["other"]);
}

#[tokio::test]
async fn invalid_url_is_refused_before_any_connection() {
    for url in ["zk://", "zk://h:0", "zk://h?sessiontimeout=4s", "zk://h/zookeeper"] {
        assert_eq!(open(url).unwrap_err().kind(), ErrorKind::Invalid, "{url}");
    }
}
