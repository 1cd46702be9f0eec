//! Names on the server.

use crate::kit::*;
use leasehold_core::LockAdmin;

const NAMES: [&str; 12] =
    [".", "..", "../x", "/abs", "a/b", "zookeeper", "🔒", "é", "e\u{301}", "50%", "a b ", "A"];

#[tokio::test]
async fn odd_names_are_locks_of_their_own_below_the_directory() {
    let server = server();
    let look = Look::at(&server).await;
    let backend = backend(&server.url());
    let root = look.children("/").await;
    let system = look.children("/zookeeper").await;

    for lock in NAMES {
        hold(&backend, &claim(lock)).await;
    }

    assert_eq!(look.children(BASE).await.len(), NAMES.len());
    let mut with_base = root.clone();
    with_base.push("leasehold".to_owned());
    with_base.sort();
    assert_eq!(look.children("/").await, with_base);
    assert_eq!(look.children("/zookeeper").await, system);
    let mut listed: Vec<String> =
        backend.list("").await.unwrap().into_iter().map(|status| status.name.to_string()).collect();
    listed.sort();
    let mut names = NAMES.map(str::to_owned).to_vec();
    names.sort();
    assert_eq!(listed, names);
}

#[tokio::test]
async fn longest_name_is_a_lock() {
    let server = server();
    let backend = backend(&server.url());
    for long in ["x".repeat(512), "é".repeat(256), "🔒".repeat(128)] {
        let claim = claim(&long);
        hold(&backend, &claim).await;
        assert_eq!(backend.inspect(claim.name()).await.unwrap().remove(0).owner, Some(claim.owner()));
    }
}

#[tokio::test]
async fn deep_directory_is_made_with_its_rights() {
    let server = server();
    let backend = backend(&format!("{}/apps/shop/eu/locks", server.url()));
    hold(&backend, &claim("job")).await;
    let look = Look::at(&server).await;
    assert_eq!(look.children("/apps/shop/eu/locks/job").await.len(), 1);
    for path in ["/apps", "/apps/shop", "/apps/shop/eu/locks", "/apps/shop/eu/locks/job"] {
        let (acls, _) = look.0.get_acl(path).await.unwrap();
        let rights: Vec<String> =
            acls.iter().map(|acl| format!("{}:{}", acl.scheme(), acl.permission())).collect();
        assert_eq!(rights, ["world:READ|CREATE|DELETE"], "{path}");
    }
}
