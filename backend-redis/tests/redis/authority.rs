//! A certificate authority of its own, and servers that it has certified.

use leasehold_conformance::servers::{RedisServer, free_port};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use std::path::PathBuf;
use tempfile::TempDir;

/// Short time-outs, for what is to fail.
pub(crate) const QUICK: &str = "connect_timeout=1s&timeout=1s";

/// A certificate authority, and what it has made.
pub(crate) struct Authority {
    files: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = called(&format!("authority {}", fastrand::u64(..)));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(files.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { files, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.files.path().join(file)
    }

    pub(crate) fn ca(&self) -> String {
        format!("tls_ca={}", self.path("ca.pem").display())
    }

    /// The query of a URL that shows this certificate.
    pub(crate) fn identity(&self, file: &str) -> String {
        let path = |end| self.path(&format!("{file}.{end}")).display().to_string();
        format!("tls_cert={}&tls_key={}", path("pem"), path("key"))
    }

    /// A certificate for these names, in `<file>.pem`, with its key in `<file>.key`.
    pub(crate) fn certify(&self, file: &str, names: &[&str], change: impl FnOnce(&mut CertificateParams)) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = called(file);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(&format!("{file}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).unwrap();
    }

    /// A server with this certificate.
    pub(crate) fn server(&self, file: &str, clients: &str) -> TlsServer {
        let port = free_port().unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let server = RedisServer::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &text(self.path(&format!("{file}.pem"))),
            "--tls-key-file",
            &text(self.path(&format!("{file}.key"))),
            "--tls-ca-cert-file",
            &text(self.path("ca.pem")),
            "--tls-auth-clients",
            clients,
        ])
        .unwrap();
        TlsServer { port, _server: server }
    }

    /// A server for localhost that wants no certificate of its clients.
    pub(crate) fn plain_server(&self) -> TlsServer {
        self.certify("server", &["localhost", "127.0.0.1"], |_| {});
        self.server("server", "no")
    }
}

/// A name of its own: a certificate that bears the name of its issuer counts as self-signed.
fn called(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

pub(crate) struct TlsServer {
    pub(crate) port: u16,
    _server: RedisServer,
}

impl TlsServer {
    pub(crate) fn url(&self, host: &str, query: &str) -> String {
        format!("rediss://{host}:{}?{QUICK}&{query}", self.port)
    }
}
