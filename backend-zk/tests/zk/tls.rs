//! TLS against a real server, with certificates made for the test.

use crate::kit::*;
use leasehold_conformance::server::free_port;
use leasehold_core::{Attempt, ErrorKind, LockBackend, Release, Renewal};
use leasehold_test_stores::servers::ZooKeeperServer;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A certificate authority, and the directory of its files.
struct Authority {
    files: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = called(&format!("authority {}", fastrand::u64(..)));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(files.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { files, issuer: Issuer::new(params, key) }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.files.path().join(file)
    }

    fn ca(&self) -> String {
        format!("tls_ca={}", self.path("ca.pem").display())
    }

    fn identity(&self, file: &str) -> String {
        let path = |end| self.path(&format!("{file}.{end}")).display().to_string();
        format!("tls_cert={}&tls_key={}", path("pem"), path("key"))
    }

    /// A certificate for these names, in `<file>.pem`, its key in `<file>.key`, and both in `<file>.both.pem`.
    fn certify(&self, file: &str, names: &[&str]) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = called(file);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        std::fs::write(self.path(&format!("{file}.both.pem")), key.serialize_pem() + &certificate).unwrap();
        std::fs::write(self.path(&format!("{file}.pem")), certificate).unwrap();
        std::fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).unwrap();
    }

    /// A server with a certificate for these names. `clients` says whether it asks clients for one.
    fn server(&self, names: &[&str], clients: &str) -> TlsServer {
        self.certify("server", names);
        let port = free_port().unwrap();
        let lines = [
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
            format!("secureClientPort={port}"),
            "secureClientPortAddress=127.0.0.1".to_owned(),
            format!("ssl.keyStore.location={}", self.path("server.both.pem").display()),
            "ssl.keyStore.type=PEM".to_owned(),
            format!("ssl.trustStore.location={}", self.path("ca.pem").display()),
            "ssl.trustStore.type=PEM".to_owned(),
            format!("ssl.clientAuth={clients}"),
            "ssl.hostnameVerification=false".to_owned(),
            "authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider".to_owned(),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        TlsServer { port, plain: ZooKeeperServer::start_with(&lines).unwrap() }
    }
}

struct TlsServer {
    port: u16,
    plain: ZooKeeperServer,
}

impl TlsServer {
    fn url(&self, host: &str, query: &str) -> String {
        format!("zk+tls://{host}:{}?connect_timeout=3s&{query}", self.port)
    }
}

fn called(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// The refusal of the first use of this URL, which must come in time.
async fn refused(url: &str) -> (ErrorKind, String) {
    let start = Instant::now();
    let error = answered(backend(url).try_acquire(&claim("job"))).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}: {error}", start.elapsed());
    (error.kind(), format!("{error}; {}", error.help().unwrap_or_default()))
}

/// The same, once the server shows its certificate in time.
async fn misconfigured(url: &str) -> String {
    eventually(async || match refused(url).await {
        (ErrorKind::Misconfigured, told) => Some(told),
        (ErrorKind::Unavailable, _) => None,
        (kind, told) => panic!("{kind:?}: {told}"),
    })
    .await
}

#[tokio::test]
async fn server_with_a_trusted_certificate_serves_locks() {
    let authority = Authority::new();
    let server = authority.server(&["localhost", "127.0.0.1"], "none");
    for host in ["localhost", "127.0.0.1"] {
        let (backend, claim) = (backend(&server.url(host, &authority.ca())), claim("job"));
        let granted = eventually(async || backend.try_acquire(&claim).await.ok()).await;
        assert!(matches!(granted, Attempt::Granted(_)));
        assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
        assert_eq!(release(&backend, &claim).await, Release::Released);
    }
}

#[tokio::test]
async fn untrusted_certificate_is_refused_with_its_fix() {
    let authority = Authority::new();
    let server = authority.server(&["elsewhere.example"], "none");
    let told = misconfigured(&server.url("localhost", &Authority::new().ca())).await;
    assert!(told.contains("certificate is not trusted") && told.contains("tls_ca="), "{told}");
    let told = misconfigured(&server.url("localhost", &authority.ca())).await;
    assert!(told.contains("not valid for name \"localhost\""), "{told}");
}

#[tokio::test]
async fn port_with_tls_and_without_are_told_apart() {
    let authority = Authority::new();
    let server = authority.server(&["localhost"], "none");
    let plain = format!("zk+tls://localhost:{}?{}&connect_timeout=2s", server.plain.port(), authority.ca());
    assert_eq!(refused(&plain).await.0, ErrorKind::Unavailable);
    let (kind, told) = refused(&format!("zk://127.0.0.1:{}?connect_timeout=2s", server.port)).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(told.contains("TLS"), "{told}");
}

#[tokio::test]
async fn client_with_a_certificate_owns_its_nodes() {
    let authority = Authority::new();
    let server = authority.server(&["localhost"], "need");
    authority.certify("client", &["client"]);
    let url = server.url("localhost", &format!("{}&{}", authority.ca(), authority.identity("client")));
    let (backend, claim) = (backend(&url), claim("job"));
    let granted = eventually(async || backend.try_acquire(&claim).await.ok()).await;
    assert!(matches!(granted, Attempt::Granted(_)));
    let look = Look::at(&server.plain).await;
    assert_eq!(look.0.list_children(BASE).await.unwrap_err(), zookeeper_client::Error::NoAuth);

    let (kind, told) = refused(&server.url("localhost", &authority.ca())).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(told.contains("tls_cert=") && told.contains("tls_key="), "{told}");
    let stranger = Authority::new();
    stranger.certify("stranger", &["stranger"]);
    let unknown = format!("{}&{}", authority.ca(), stranger.identity("stranger"));
    let (kind, told) = refused(&server.url("localhost", &unknown)).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(told.contains("does not trust the certificate of tls_cert"), "{told}");
}

#[test]
fn unusable_files_are_named_before_any_connection() {
    let authority = Authority::new();
    authority.certify("one", &["one"]);
    authority.certify("other", &["other"]);
    let path = |file: &str| authority.path(file).display().to_string();
    for (query, field) in [
        (format!("tls_ca={}", path("one.key")), "tls_ca"),
        (format!("tls_cert={}&tls_key={}", path("one.key"), path("one.key")), "tls_cert"),
        (format!("tls_cert={}&tls_key={}", path("one.pem"), path("one.pem")), "tls_key"),
        (format!("tls_cert={}&tls_key={}", path("one.pem"), path("other.key")), "tls_key"),
    ] {
        let error = open(&format!("zk+tls://h?{query}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().starts_with(&format!("invalid {field}: ")), "{error}");
        assert!(error.help().is_some());
    }
}

#[test]
fn missing_files_are_named_before_any_connection() {
    for (query, message) in [
        ("tls_ca=/nowhere.pem", "invalid tls_ca: /nowhere.pem: No such file"),
        ("tls_cert=/nowhere.pem", "invalid tls_key: tls_cert is given without it"),
        ("tls_key=/nowhere.pem", "invalid tls_cert: tls_key is given without it"),
    ] {
        let error = open(&format!("zk+tls://h?{query}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with(message), "{error}");
    }
    let error = open("zk://h?tls_ca=/nowhere.pem").unwrap_err();
    assert_eq!(error.to_string(), "invalid tls_ca: zk:// is not encrypted");
}
