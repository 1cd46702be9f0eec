//! Users and rights, tokens that are void, and TLS with the certificates of both ends.

use crate::*;
use leasehold_core::{ErrorKind, LockAdmin, LockBackend, Renewal};
use leasehold_test_stores::servers::EtcdServer;

/// A member with the users `root`, `locker` with rights on the locks, and `guest` with none.
fn server_with_users() -> EtcdServer {
    let server = server();
    add_users(&server);
    server.ctl(&["auth", "enable"]).unwrap();
    server
}

fn add_users(server: &EtcdServer) {
    for step in [
        "user add root:r00t",
        "user add locker:l0ck",
        "user add guest:gu3st",
        "role add locks",
        "role grant-permission locks --prefix=true readwrite leasehold/",
        "user grant-role locker locks",
    ] {
        server.ctl(&step.split(' ').collect::<Vec<_>>()).unwrap();
    }
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
    // The end of a user makes its tokens void.
    for step in ["delete locker", "add locker:l0ck", "grant-role locker locks"] {
        let step: Vec<_> = ["--user", "root:r00t", "user"].into_iter().chain(step.split(' ')).collect();
        server.ctl(&step).unwrap();
    }
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    assert!(is_busy(&backend, &claim("job")).await);
    release(&backend, &holder).await;
}

/// It is not repeated: only an outage may pass.
#[tokio::test]
async fn claim_whose_release_is_refused_is_forgotten() {
    let server = server_with_users();
    let backend = backend(&url(&server, "locker:l0ck"));
    let holder = claim("job");
    hold(&backend, &holder).await;
    assert!(is_known(&backend, &holder));
    let revoke = "--user root:r00t role revoke-permission locks --prefix=true leasehold/";
    server.ctl(&revoke.split(' ').collect::<Vec<_>>()).unwrap();
    let error = answered(backend.release(&holder, Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(!is_known(&backend, &holder));
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

/// The first create may have been carried out.
#[tokio::test]
async fn refusal_of_a_create_that_is_repeated_is_an_unknown_outcome() {
    let server = server();
    add_users(&server);
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let backend = backend(&format!("etcd://{}", proxy.address()));
    let holder = waiter("job");
    keep_a_lease(&backend).await;
    proxy.set(Traffic::HoldReplies);
    let lose_the_answer = async {
        until_more_keys(&server, 0).await;
        server.ctl(&["auth", "enable"]).unwrap();
        proxy.set(Traffic::Pass);
        proxy.cut();
    };
    let (attempt, ()) = answered(async { tokio::join!(backend.try_acquire(&holder), lose_the_answer) }).await;
    let error = attempt.unwrap_err();
    assert!(error.is_indeterminate() && error.to_string().contains("wants a user"), "{error:?}");
    assert!(is_known(&backend, &holder));
}

async fn until_suspected(backend: &EtcdBackend, claim: &Claim) {
    while !answered(backend.suspects()).await.contains(&claim.owner()) {}
}

/// The refusal names no watch.
#[tokio::test]
async fn holder_whose_watch_is_refused_once_is_told_of_the_deletion_of_its_key() {
    let server = server();
    add_users(&server);
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let backend = backend(&format!("etcd://{}", proxy.address()));
    let holder = waiter("job");
    granted(attempt_with_a_late_watch(&server, (&proxy, &backend), &holder).await);
    server.ctl(&["auth", "enable"]).unwrap();
    proxy.set(Traffic::Pass);
    until_suspected(&backend, &holder).await;
    server.ctl(&["--user", "root:r00t", "auth", "disable"]).unwrap();
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    assert_eq!(backend.force_release(&name("job"), None).await.unwrap().len(), 1);
    until_suspected(&backend, &holder).await;
}

#[tokio::test]
async fn user_of_a_cluster_without_authentication_is_refused() {
    let server = server();
    let error = answered(backend(&url(&server, "ada:s3cret")).try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.to_string().contains("knows no users"), "{error:?}");
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
}

#[cfg(feature = "tls")]
mod tls {
    use super::*;
    use leasehold_conformance::server::free_port;
    use leasehold_core::Error;
    use leasehold_test_stores::servers::CertificateAuthority;

    /// A member with a certificate for these names, and the URL of its port with TLS.
    fn server_with_tls(
        authority: &CertificateAuthority,
        names: &[&str],
        arguments: &[&str],
    ) -> (EtcdServer, String) {
        authority.certify("server", names).unwrap();
        let file = |file: &str| authority.path(file).display().to_string();
        let (certificate, key, ca) = (file("server.pem"), file("server.key"), file("ca.pem"));
        let port = free_port().unwrap();
        let tls = ["--cert-file", &certificate, "--key-file", &key];
        let server = EtcdServer::start_with_tls(port, &[&tls, arguments].concat()).unwrap();
        (server, format!("etcd+tls://localhost:{port}?tls_ca={ca}"))
    }

    async fn refusal(url: &str) -> Error {
        answered(backend(url).try_acquire(&claim("job"))).await.unwrap_err()
    }

    #[tokio::test]
    async fn lock_is_taken_over_tls_and_another_authority_or_host_is_refused() {
        let authority = CertificateAuthority::new().unwrap();
        let (_server, url) = server_with_tls(&authority, &["localhost"], &[]);
        hold(&backend(&url), &claim("job")).await;
        let error = refusal(&url.replace("localhost", "127.0.0.1")).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(
            error.to_string().contains("there is no TLS with the member: invalid peer certificate"),
            "{error:?}"
        );
        assert_eq!(error.help(), Some("connect by a name that stands in the certificate"));
        let other = CertificateAuthority::new().unwrap();
        let ca = |authority: &CertificateAuthority| authority.path("ca.pem").display().to_string();
        let error = refusal(&url.replace(&ca(&authority), &ca(&other))).await;
        assert_eq!(
            error.help(),
            Some("name the authority that signed it: tls_ca=/path/to/ca.pem"),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn member_that_wants_a_certificate_takes_ours() {
        let authority = CertificateAuthority::new().unwrap();
        let (_server, url) = {
            let ca = authority.path("ca.pem").display().to_string();
            server_with_tls(&authority, &["localhost"], &["--client-cert-auth", "--trusted-ca-file", &ca])
        };
        authority.certify("client", &["locker"]).unwrap();
        let file = |file: &str| authority.path(file).display().to_string();
        let with = format!("{url}&tls_cert={}&tls_key={}", file("client.pem"), file("client.key"));
        hold(&backend(&with), &claim("job")).await;
        let error = refusal(&url).await;
        assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unavailable), "{error:?}");
        let half = format!("{url}&tls_cert={}", file("client.pem"));
        assert_eq!(open(&half).unwrap_err().to_string(), "invalid tls_key: tls_cert is given without it");
    }

    #[tokio::test]
    async fn port_of_the_other_kind_is_named() {
        let authority = CertificateAuthority::new().unwrap();
        let (server, url) = server_with_tls(&authority, &["localhost"], &[]);
        let port = url.split([':', '?']).nth(2).unwrap().to_owned();
        let error = refusal(&url.replace(&port, &server.port().to_string())).await;
        assert_eq!(
            error.help(),
            Some("if the port takes connections without TLS, write etcd://"),
            "{error:?}"
        );
    }
}
