use super::failure;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Endpoint, Query};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How to encrypt: by rustls with ring, named here and not taken from the process. A process in which two providers
/// are linked has no default one, and rustls panics when asked for it.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// A file of authorities to trust, in the place of those that this host trusts.
    authority: Option<PathBuf>,
    /// True to believe any certificate.
    insecure: bool,
    /// The certificate of the client, and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Reads the parameters of a URL, and once the files that they name, so that a mistake is found when the store is
    /// opened. They are read again for every connection: certificates are renewed under running processes.
    pub(crate) fn from_query(servers: &[Endpoint], query: &mut Query) -> Result<Self> {
        for server in servers {
            server_name(&server.host)?;
        }
        let authority = query.take("tls_ca").map(PathBuf::from);
        let insecure = query.take_choice("tls_insecure", &[("yes", true), ("no", false)])?.unwrap_or(false);
        if insecure && authority.is_some() {
            let problem = "with it, tls_ca is not looked at";
            return Err(Error::invalid("tls_insecure", problem, "leave one of the two out"));
        }
        let tls = Self { authority, insecure, identity: query.take_files(["tls_cert", "tls_key"])? };
        tls.config()?;
        if insecure {
            static WARNED: Once = Once::new();
            let warning = "tls_insecure=yes: any server that answers is believed, and is given the password";
            WARNED.call_once(|| tracing::warn!(target: "leasehold", "{warning}"));
        }
        Ok(tls)
    }

    /// Agrees on encryption with the server, and makes sure that it is the server.
    pub(crate) async fn encrypt(&self, stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>> {
        // They were fit once: that they cannot be read now is an outage, as while they are replaced.
        let config = self.config().map_err(|error| error.with_kind(ErrorKind::Unavailable))?;
        let connector = TlsConnector::from(Arc::new(config));
        let agreed = connector.connect(server_name(host)?, stream).await;
        agreed.map_err(failure::agreement_error)
    }

    fn config(&self) -> Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| {
                Error::new(ErrorKind::Misconfigured, "TLS cannot be set up").with_source(error)
            })?;
        let builder = if self.insecure {
            let algorithms = provider.signature_verification_algorithms;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified { algorithms }))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let Some((certificate, key_file)) = &self.identity else { return Ok(builder.with_no_client_auth()) };
        let chain = certificates("tls_cert", certificate)?;
        let key = PrivateKeyDer::from_pem_file(key_file)
            .map_err(|error| unreadable("tls_key", key_file, &error))?;
        builder.with_client_auth_cert(chain, key).map_err(|error| {
            let problem = format_args!("it does not fit {}: {error}", certificate.display());
            Error::invalid("tls_key", problem, "name the key that the certificate was made for")
        })
    }

    fn roots(&self) -> Result<Arc<RootCertStore>> {
        let Some(file) = &self.authority else { return system_roots() };
        let mut roots = RootCertStore::empty();
        for certificate in certificates("tls_ca", file)? {
            roots.add(certificate).map_err(|error| unreadable("tls_ca", file, &error))?;
        }
        Ok(Arc::new(roots))
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|_| {
        let problem = format_args!("{host:?} is no name that a certificate can have");
        Error::invalid("store URL", problem, "write a DNS name or an address")
    })
}

fn certificates(field: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    match CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        read => Err(unreadable(field, file, &read.err().unwrap_or(pem::Error::NoItemsFound))),
    }
}

/// Found once in a process: it may take as long as reading a few hundred files.
fn system_roots() -> Result<Arc<RootCertStore>> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() {
        let message = "this host has no list of certificate authorities to trust";
        let help = "install ca-certificates, or name the server's authority: tls_ca=/path/to/ca.pem";
        return Err(Error::new(ErrorKind::Misconfigured, message).with_help(help));
    }
    Ok(Arc::clone(roots))
}

fn unreadable(field: &'static str, file: &Path, error: &dyn std::fmt::Display) -> Error {
    let problem = format_args!("{}: {error}", file.display());
    Error::invalid(field, problem, "name a readable file in PEM form")
}

/// Believes any certificate: `tls_insecure=yes`. It still wants the server to have the key of what it shows.
#[derive(Debug)]
struct Unverified {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
