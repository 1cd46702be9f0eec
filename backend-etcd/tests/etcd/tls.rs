//! TLS, and the certificates of both ends.

use crate::kit::*;
use leasehold_conformance::server::free_port;
use leasehold_core::{Error, ErrorKind, LockBackend};
use leasehold_test_stores::servers::{CertificateAuthority, EtcdServer};

/// A member with a certificate for these names, and the URL of its port with TLS.
fn server(authority: &CertificateAuthority, names: &[&str], arguments: &[&str]) -> (EtcdServer, String) {
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
    let (_server, url) = server(&authority, &["localhost"], &[]);
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
    assert_eq!(error.help(), Some("name the authority that signed it: tls_ca=/path/to/ca.pem"), "{error:?}");
}

#[tokio::test]
async fn member_that_wants_a_certificate_takes_ours() {
    let authority = CertificateAuthority::new().unwrap();
    let (_server, url) = {
        let ca = authority.path("ca.pem").display().to_string();
        server(&authority, &["localhost"], &["--client-cert-auth", "--trusted-ca-file", &ca])
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
    let (server, url) = server(&authority, &["localhost"], &[]);
    let port = url.split([':', '?']).nth(2).unwrap().to_owned();
    let error = refusal(&url.replace(&port, &server.port().to_string())).await;
    assert_eq!(error.help(), Some("if the port takes connections without TLS, write etcd://"), "{error:?}");
}
