use super::failure;
use super::unverified::Unverified;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::Query;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How to encrypt: by rustls with ring, named here and not taken from the process. A process in which two providers
/// are linked has no default one, and rustls panics when asked for it.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    server: ServerName<'static>,
    trust: Trust,
    identity: Option<Identity>,
}

/// The certificates by which a server is believed.
#[derive(Clone, Debug)]
enum Trust {
    /// Signed by an authority that this host trusts, as other programs here do.
    System,
    /// Signed by an authority in this file.
    Authority(PathBuf),
    /// Any certificate.
    Anybody,
}

/// The certificate of the client.
#[derive(Clone, Debug)]
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
}

impl Tls {
    /// Reads the parameters of a URL, and once the files that they name, so that a mistake is found when the store is
    /// opened. They are read again for every connection: certificates are renewed under running processes.
    pub(crate) fn from_query(host: &str, query: &mut Query) -> Result<Self> {
        let tls = Self { server: server_name(host)?, trust: trust(query)?, identity: identity(query)? };
        tls.config()?;
        if matches!(tls.trust, Trust::Anybody) {
            warn_once(host);
        }
        Ok(tls)
    }

    /// The same for another server.
    pub(crate) fn for_host(&self, host: &str) -> Result<Self> {
        Ok(Self { server: server_name(host)?, ..self.clone() })
    }

    /// Agrees on encryption with the server, and makes sure that it is the server.
    pub(crate) async fn encrypt(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>> {
        // They were fit once: that they cannot be read now is an outage, as while somebody replaces them.
        let config = self.config().map_err(|error| error.with_kind(ErrorKind::Unavailable))?;
        let connector = TlsConnector::from(Arc::new(config));
        let agreed = connector.connect(self.server.clone(), stream).await;
        agreed.map_err(failure::of_agreement)
    }

    fn config(&self) -> Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match self.trust.roots()? {
            Some(roots) => builder.with_root_certificates(roots),
            None => builder.dangerous().with_custom_certificate_verifier(unverified(&provider)),
        };
        match &self.identity {
            None => Ok(builder.with_no_client_auth()),
            Some(identity) => {
                let (chain, key) = identity.load()?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    let problem = format_args!("it does not fit {}: {error}", identity.certificate.display());
                    Error::invalid("tls_key", problem, "name the key that the certificate was made for")
                })
            }
        }
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|_| {
        let problem = format_args!("{host:?} is no name that a certificate can have");
        Error::invalid("store URL", problem, "write a DNS name or an address")
    })
}

impl Trust {
    /// The authorities to trust; `None` if no word is asked for.
    fn roots(&self) -> Result<Option<Arc<RootCertStore>>> {
        match self {
            Self::Anybody => Ok(None),
            Self::System => system_roots().map(Some),
            Self::Authority(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates("tls_ca", file)? {
                    roots.add(certificate).map_err(|error| unreadable("tls_ca", file, &error))?;
                }
                Ok(Some(Arc::new(roots)))
            }
        }
    }
}

impl Identity {
    fn load(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let chain = certificates("tls_cert", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| unreadable("tls_key", &self.key, &error))?;
        Ok((chain, key))
    }
}

fn trust(query: &mut Query) -> Result<Trust> {
    let authority = query.take("tls_ca");
    let insecure = query.take_choice("tls_insecure", &[("yes", true), ("no", false)])?;
    match (authority, insecure.unwrap_or(false)) {
        (None, false) => Ok(Trust::System),
        (None, true) => Ok(Trust::Anybody),
        (Some(file), false) => Ok(Trust::Authority(file.into())),
        (Some(_), true) => Err(Error::invalid(
            "tls_insecure",
            "with it, tls_ca is not looked at",
            "leave one of the two out",
        )),
    }
}

fn identity(query: &mut Query) -> Result<Option<Identity>> {
    let missing = |key, other| {
        let problem = format_args!("{other} is given without it");
        Error::invalid(key, problem, "give both, or none")
    };
    match (query.take("tls_cert"), query.take("tls_key")) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            Ok(Some(Identity { certificate: certificate.into(), key: key.into() }))
        }
        (Some(_), None) => Err(missing("tls_key", "tls_cert")),
        (None, Some(_)) => Err(missing("tls_cert", "tls_key")),
    }
}

fn certificates(field: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(unreadable(field, file, &pem::Error::NoItemsFound))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unreadable(field, file, &error)),
    }
}

/// Found once in a process: it may take as long as reading a few hundred files.
fn system_roots() -> Result<Arc<RootCertStore>> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let message = "this host has no list of certificate authorities to trust";
        let help = "install ca-certificates, or name the server's authority: tls_ca=/path/to/ca.pem";
        return Err(Error::new(ErrorKind::Misconfigured, message).with_help(help));
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots))))
}

fn unverified(provider: &CryptoProvider) -> Arc<Unverified> {
    Arc::new(Unverified::new(provider.signature_verification_algorithms))
}

fn unreadable(field: &'static str, file: &Path, error: &dyn std::fmt::Display) -> Error {
    let problem = format_args!("{}: {error}", file.display());
    Error::invalid(field, problem, "name a readable file in PEM form")
}

fn unusable(error: rustls::Error) -> Error {
    Error::new(ErrorKind::Misconfigured, "TLS cannot be set up").with_source(error)
}

fn warn_once(host: &str) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            target: "leasehold",
            "tls_insecure=yes: whoever answers at {host} is believed to be the server, and is given the password"
        );
    });
}
