use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Endpoint, Query};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use zookeeper_client::{Client, Connector, Error as Answer, TlsOptions};

/// The TLS of connections. The documentation of the crate says why ring is made the default of the process.
#[derive(Debug)]
pub(crate) struct Tls {
    authority: Option<PathBuf>,
    /// The certificate of the client, and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Reads the parameters of a URL, and once the files that they name, so that a mistake is found when the store is
    /// opened. They are read again for every session: certificates are renewed under running processes.
    pub(crate) fn from_query(servers: &[Endpoint], query: &mut Query) -> Result<Self> {
        for server in servers {
            ServerName::try_from(server.host.as_str()).map_err(|_| {
                let problem = format_args!("{:?} is no name that a certificate can have", server.host);
                Error::invalid("store URL", problem, "write a DNS name or an address")
            })?;
        }
        let identity = query.take_files(["tls_cert", "tls_key"])?;
        let tls = Self { authority: query.take("tls_ca").map(PathBuf::from), identity };
        tls.options()?;
        Ok(tls)
    }

    pub(crate) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    pub(crate) async fn connect(
        &self,
        connector: Connector,
        servers: &str,
    ) -> Result<std::result::Result<Client, Answer>> {
        Ok(connector.with_tls(self.options()?).secure_connect(servers).await)
    }

    /// Why this server refuses TLS, if it does. The library does not tell.
    pub(crate) async fn refusal(&self, host: &str, stream: TcpStream) -> Option<Error> {
        let server = ServerName::try_from(host.to_owned()).ok()?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().ok()?;
        let config = builder.with_root_certificates(self.roots().ok()?).with_no_client_auth();
        let refused = TlsConnector::from(Arc::new(config)).connect(server, stream).await.err()?;
        let why = refused.get_ref().and_then(|within| within.downcast_ref::<rustls::Error>())?;
        let (message, help) = match why {
            rustls::Error::InvalidCertificate(why) => (
                format!("the server's certificate is not trusted: {why}"),
                "name the authority that signed it: tls_ca=/path/to/ca.pem",
            ),
            rustls::Error::InvalidMessage(_) => {
                ("what answers there does not speak TLS".to_owned(), "for a port without TLS, write zk://")
            }
            _ => return None,
        };
        Some(Error::new(ErrorKind::Misconfigured, message).with_help(help))
    }

    fn options(&self) -> Result<TlsOptions> {
        if CryptoProvider::get_default().is_none() {
            // Another thread may be quicker.
            let _ = ring::default_provider().install_default();
        }
        let options = TlsOptions::new().with_pem_ca(&self.authorities()?).map_err(|error| {
            let help = "name a file of certificates of authorities in PEM form";
            Error::invalid("tls_ca", error, help)
        })?;
        let Some((cert_file, key_file)) = &self.identity else { return Ok(options) };
        let (certificate, key) = (read("tls_cert", cert_file)?, read("tls_key", key_file)?);
        check_identity(cert_file, &certificate, key_file, &key)?;
        options
            .with_pem_identity(&certificate, &key)
            .map_err(|error| Error::invalid("tls_cert", error, "name a certificate and its key"))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let pem = self.authorities()?;
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem.as_bytes()).flatten());
        Ok(roots)
    }

    fn authorities(&self) -> Result<String> {
        match &self.authority {
            Some(file) => read("tls_ca", file),
            None => system_authorities().map(str::to_owned),
        }
    }
}

/// The library reads both files when it connects, and does not tell which of them is wrong.
fn check_identity(cert_file: &Path, certificate: &str, key_file: &Path, key: &str) -> Result<()> {
    let (cert_file, key_file) = (cert_file.display(), key_file.display());
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.as_bytes()).flatten().collect();
    if chain.is_empty() {
        let problem = format_args!("{cert_file}: there is no certificate in it");
        return Err(Error::invalid("tls_cert", problem, "name the certificate that says who we are"));
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| {
        let problem = format_args!("{key_file}: {error}");
        Error::invalid("tls_key", problem, "name a private key in PEM form, without a password")
    })?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let fits = builder.with_safe_default_protocol_versions().and_then(|builder| {
        builder.with_root_certificates(RootCertStore::empty()).with_client_auth_cert(chain, key)
    });
    fits.map(drop).map_err(|error| {
        let problem = format_args!("{key_file}: it does not fit {cert_file}: {error}");
        Error::invalid("tls_key", problem, "name the key that the certificate was made for")
    })
}

/// The authorities that this host trusts, in the form that the library reads. Found once in a process: it may take as long
/// as reading a few hundred files.
fn system_authorities() -> Result<&'static str> {
    static AUTHORITIES: OnceLock<String> = OnceLock::new();
    let authorities = AUTHORITIES.get_or_init(|| {
        let certificates = rustls_native_certs::load_native_certs().certs;
        // An unreadable certificate would make the library refuse them all.
        let usable = certificates.into_iter().filter(|one| RootCertStore::empty().add(one.clone()).is_ok());
        let blocks: Vec<pem::Pem> = usable.map(|one| pem::Pem::new("CERTIFICATE", one.to_vec())).collect();
        pem::encode_many(&blocks)
    });
    if authorities.is_empty() {
        let message = "this host has no list of certificate authorities to trust";
        let help = "install ca-certificates, or name the servers' authority: tls_ca=/path/to/ca.pem";
        return Err(Error::new(ErrorKind::Misconfigured, message).with_help(help));
    }
    Ok(authorities)
}

fn read(field: &'static str, file: &Path) -> Result<String> {
    let unreadable = |problem: &dyn Display| {
        let problem = format_args!("{}: {problem}", file.display());
        Error::invalid(field, problem, "name a readable file in PEM form")
    };
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    if text.contains("-----BEGIN ") {
        Ok(text)
    } else {
        Err(unreadable(&"there is nothing in PEM form in it"))
    }
}
