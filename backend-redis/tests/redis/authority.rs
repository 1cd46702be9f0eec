//! A certificate authority of its own, and servers that it has certified.

use leasehold_conformance::server::free_port;
use leasehold_test_stores::servers::{CertificateAuthority, RedisServer};
use std::ops::Deref;

/// Short time-outs, for what is to fail.
pub(crate) const QUICK: &str = "connect_timeout=1s&timeout=1s";

pub(crate) struct Authority(CertificateAuthority);

impl Authority {
    pub(crate) fn new() -> Self {
        Self(CertificateAuthority::new().unwrap())
    }

    pub(crate) fn ca(&self) -> String {
        format!("tls_ca={}", self.path("ca.pem").display())
    }

    /// The query of a URL that shows this certificate.
    pub(crate) fn identity(&self, file: &str) -> String {
        let path = |end| self.path(&format!("{file}.{end}")).display().to_string();
        format!("tls_cert={}&tls_key={}", path("pem"), path("key"))
    }

    /// A server with this certificate.
    pub(crate) fn server(&self, file: &str, clients: &str) -> TlsServer {
        let port = free_port().unwrap();
        let settings = [self.settings(file, clients), vec![("tls-port", port.to_string())]].concat();
        let settings = settings.into_iter().flat_map(|(setting, value)| [format!("--{setting}"), value]);
        let settings: Vec<String> = settings.collect();
        let server = RedisServer::start_with(&settings.iter().map(String::as_str).collect::<Vec<_>>());
        TlsServer { port, _server: server.unwrap() }
    }

    /// The settings of a server with this certificate.
    pub(crate) fn settings(&self, file: &str, clients: &str) -> Vec<(&'static str, String)> {
        let path = |file: String| self.path(&file).display().to_string();
        vec![
            ("tls-cert-file", path(format!("{file}.pem"))),
            ("tls-key-file", path(format!("{file}.key"))),
            ("tls-ca-cert-file", path("ca.pem".to_owned())),
            ("tls-auth-clients", clients.to_owned()),
        ]
    }

    /// A server for localhost that wants no certificate of its clients.
    pub(crate) fn plain_server(&self) -> TlsServer {
        self.certify("server", &["localhost", "127.0.0.1"]).unwrap();
        self.server("server", "no")
    }
}

impl Deref for Authority {
    type Target = CertificateAuthority;

    fn deref(&self) -> &CertificateAuthority {
        &self.0
    }
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
