//! TLS by rustls with ring, the only provider that `tonic` is built with. A build without the feature `tls` refuses `etcd+tls://`.

use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::Query;
use std::error::Error as StdError;
use std::path::PathBuf;
use tonic::transport::Endpoint;

/// How to encrypt.
#[derive(Debug)]
pub(crate) struct Tls {
    /// A file of authorities to trust, in the place of those that this host trusts.
    authority: Option<PathBuf>,
    /// The certificate of the client, and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Parameters of TLS on a connection without it would be a false sense of security.
    pub(crate) fn refuse(query: &mut Query) -> Result<()> {
        let given = ["tls_ca", "tls_cert", "tls_key"].into_iter().find(|key| query.take(key).is_some());
        let fix = "write etcd+tls://, or leave it out";
        given.map_or(Ok(()), |key| Err(Error::invalid(key, "etcd:// is not encrypted", fix)))
    }

    /// Reads the parameters of a URL.
    pub(crate) fn from_query(query: &mut Query) -> Result<Self> {
        let missing = |key, problem| Error::invalid(key, problem, "give both, or none");
        let authority = query.take("tls_ca").map(PathBuf::from);
        let identity = match (query.take("tls_cert"), query.take("tls_key")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (Some(_), None) => return Err(missing("tls_key", "tls_cert is given without it")),
            (None, Some(_)) => return Err(missing("tls_cert", "tls_key is given without it")),
        };
        Ok(Self { authority, identity })
    }

    /// True if we have a certificate to log in with.
    pub(crate) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }
}

#[cfg(not(feature = "tls"))]
impl Tls {
    pub(crate) fn encrypt(&self, _endpoint: Endpoint) -> Result<Endpoint> {
        let message = "the URL asks for TLS, which this build was made without";
        Err(Error::new(ErrorKind::Misconfigured, message).with_help("build with the feature \"tls\""))
    }
}

#[cfg(not(feature = "tls"))]
pub(crate) fn tls_refusal(_error: &(dyn StdError + 'static)) -> Option<Error> {
    None
}

#[cfg(feature = "tls")]
pub(crate) use with_rustls::tls_refusal;

#[cfg(feature = "tls")]
mod with_rustls {
    use super::{Endpoint, Error, ErrorKind, Result, StdError, Tls};
    use rustls::CertificateError;
    use rustls::pki_types::pem::{self, PemObject};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use std::path::Path;
    use std::{fs, io};
    use tonic::transport::{Certificate, ClientTlsConfig, Identity};

    impl Tls {
        /// Connections to this address are encrypted, and the host in it must be the one of the certificate. The files are read for
        /// every connection: certificates are renewed under running processes.
        pub(crate) fn encrypt(&self, endpoint: Endpoint) -> Result<Endpoint> {
            let config = ClientTlsConfig::new();
            let mut config = match &self.authority {
                Some(file) => config.ca_certificate(Certificate::from_pem(certificates("tls_ca", file)?)),
                None => config.with_native_roots(),
            };
            if let Some((certificate, key)) = &self.identity {
                let certificate = certificates("tls_cert", certificate)?;
                PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("tls_key", key, &error))?;
                let key = fs::read(key).map_err(|error| unreadable("tls_key", key, &error))?;
                config = config.identity(Identity::from_pem(certificate, key));
            }
            endpoint.tls_config(config).map_err(|error| {
                Error::new(ErrorKind::Misconfigured, "TLS cannot be set up")
                    .with_help("look at the host in the URL, and at the certificates")
                    .with_source(error)
            })
        }
    }

    /// The text of a file that has at least one certificate.
    fn certificates(field: &'static str, file: &Path) -> Result<Vec<u8>> {
        let text = fs::read(file).map_err(|error| unreadable(field, file, &error))?;
        let first = CertificateDer::pem_slice_iter(&text).next().unwrap_or(Err(pem::Error::NoItemsFound));
        first.map_err(|error| unreadable(field, file, &error))?;
        Ok(text)
    }

    fn unreadable(field: &'static str, file: &Path, error: &dyn std::fmt::Display) -> Error {
        Error::invalid(field, format_args!("{}: {error}", file.display()), "name a readable file in PEM form")
    }

    /// Why the two ends did not agree on TLS, if that is the cause of this failure.
    pub(crate) fn tls_refusal(error: &(dyn StdError + 'static)) -> Option<Error> {
        use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage};
        let why = rustls_error(error)?;
        let (kind, help) = match why {
            // The second is the error for another authority with the name of the right one.
            InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
                (ErrorKind::Misconfigured, "name the authority that signed it: tls_ca=/path/to/ca.pem")
            }
            InvalidCertificate(CertificateError::NotValidForNameContext { .. }) => {
                (ErrorKind::Misconfigured, "connect by a name that stands in the certificate")
            }
            InvalidCertificate(_) => {
                (ErrorKind::Misconfigured, "have it renewed, or look at the clock of this host")
            }
            InvalidMessage(_) => (ErrorKind::Misconfigured, "for a port without TLS, write etcd://"),
            AlertReceived(_) => {
                (ErrorKind::Denied, "if the member wants a client certificate, name one: tls_cert, tls_key")
            }
            _ => return None,
        };
        Some(Error::new(kind, format!("there is no TLS with the member: {why}")).with_help(help))
    }

    /// The error of rustls within, wherever it was wrapped: an `io::Error` passes over what it holds.
    fn rustls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = held.map(|held| held as &(dyn StdError + 'static)).or_else(|| error.source());
        error.downcast_ref().or_else(|| rustls_error(inner?))
    }
}
