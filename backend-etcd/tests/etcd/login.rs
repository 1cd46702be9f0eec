//! Users, rights and tokens that expire.

use crate::kit::*;
use leasehold_core::{ErrorKind, LockBackend, Renewal};
use leasehold_test_stores::servers::EtcdServer;
use std::time::Duration;

/// A member with the users `root`, `locker` with rights on the locks, and `guest` with none. Tokens live for a second.
fn server_with_users() -> EtcdServer {
    let server = EtcdServer::start_with(&["--auth-token-ttl", "1"]).or_else(|_| EtcdServer::start()).unwrap();
    for step in [
        "user add root:r00t",
        "user add locker:l0ck",
        "user add guest:gu3st",
        "role add locks",
        "role grant-permission locks --prefix=true readwrite leasehold/",
        "user grant-role locker locks",
        "auth enable",
    ] {
        server.ctl(&step.split(' ').collect::<Vec<_>>()).unwrap();
    }
    server
}

fn url(server: &EtcdServer, login: &str) -> String {
    server.url().replace("://", &format!("://{login}@"))
}

#[tokio::test]
async fn user_with_rights_takes_locks_and_logs_in_again_when_its_token_is_void() {
    let server = server_with_users();
    let backend = backend(&url(&server, "locker:l0ck"));
    let holder = claim("job");
    hold(&backend, &holder).await;
    // A change of the users makes every token void.
    server.ctl(&["--user", "root:r00t", "user", "add", "another:an0ther"]).unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    assert!(is_busy(&backend, &claim("job")).await);
    release(&backend, &holder).await;
}

#[tokio::test]
async fn user_without_rights_or_password_is_denied_and_leaves_no_key() {
    let server = server_with_users();
    for (login, message) in [
        ("guest:gu3st", "does not permit this user to use the keys of the locks"),
        ("locker:wrong", "does not accept this user with this password"),
    ] {
        let backend = backend(&url(&server, login));
        let error = answered(backend.try_acquire(&waiter("job"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        assert!(error.to_string().contains(message), "{error:?}");
        assert!(!format!("{error:?} {error:#?}").contains("gu3st"), "{error:?}");
    }
    let error = answered(backend(&server.url()).try_acquire(&claim("job"))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("wants a user"), "{error:?}");
    let found = server.ctl(&["--user", "root:r00t", "get", "--prefix", "leasehold/", "--keys-only"]).unwrap();
    assert_eq!(found.trim(), "");
}

#[tokio::test]
async fn user_of_a_cluster_without_authentication_is_refused() {
    let server = server();
    let error = answered(backend(&url(&server, "ada:s3cret")).try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.to_string().contains("knows no users"), "{error:?}");
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
}
