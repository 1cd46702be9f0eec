//! TLS by rustls with ring, the only provider that `tonic` is built with. A build without the feature `tls` refuses `etcd+tls://`.

use leasehold_core::ErrorKind::Misconfigured;
use leasehold_core::{Error, Result};
use leasehold_store_url::Query;
use std::error::Error as StdError;
use std::path::PathBuf;
use tonic::transport::Endpoint;

#[cfg(feature = "tls")]
pub(crate) use with_rustls::tls_refusal;

/// How to encrypt.
#[derive(Debug)]
pub(crate) struct Tls {
    /// A file of authorities to trust, in the place of those that this host trusts.
    #[allow(dead_code, reason = "read with the feature tls alone")]
    authority: Option<PathBuf>,
    /// The certificate of the client, and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Reads the parameters of a URL.
    pub(crate) fn from_query(query: &mut Query) -> Result<Self> {
        let authority = query.take("tls_ca").map(PathBuf::from);
        Ok(Self { authority, identity: query.take_files(["tls_cert", "tls_key"])? })
    }
}

#[cfg(not(feature = "tls"))]
impl Tls {
    pub(crate) fn encrypt(&self, _endpoint: Endpoint) -> Result<Endpoint> {
        let message = "the URL asks for TLS, which this build was made without";
        Err(Error::new(Misconfigured, message).with_help("build with the feature \"tls\""))
    }
}

#[cfg(not(feature = "tls"))]
pub(crate) fn tls_refusal(_error: &(dyn StdError + 'static)) -> Option<Error> {
    None
}

#[cfg(feature = "tls")]
mod with_rustls {
    use super::{Endpoint, Error, Misconfigured, Result, StdError, Tls};
    use leasehold_core::ErrorKind::Denied;
    use leasehold_core::error_within::error_within;
    use rustls::CertificateError;
    use std::fs;
    use std::path::Path;
    use tonic::transport::{Certificate, ClientTlsConfig, Identity};

    impl Tls {
        /// Connections to this address are encrypted, and the host in it must be the one of the certificate. The files are read for
        /// every connection: certificates are renewed under running processes.
        pub(crate) fn encrypt(&self, endpoint: Endpoint) -> Result<Endpoint> {
            let config = ClientTlsConfig::new();
            let mut config = match &self.authority {
                Some(file) => config.ca_certificate(Certificate::from_pem(read("tls_ca", file)?)),
                None => config.with_native_roots(),
            };
            if let Some((certificate, key)) = &self.identity {
                let (certificate, key) = (read("tls_cert", certificate)?, read("tls_key", key)?);
                config = config.identity(Identity::from_pem(certificate, key));
            }
            endpoint.tls_config(config).map_err(|error| {
                Error::new(Misconfigured, "TLS cannot be set up")
                    .with_help("look at the host in the URL, and at the certificates")
                    .with_source(error)
            })
        }
    }

    fn read(field: &'static str, file: &Path) -> Result<Vec<u8>> {
        fs::read(file).map_err(|error| {
            let problem = format_args!("{}: {error}", file.display());
            Error::invalid(field, problem, "name a readable file in PEM form")
        })
    }

    /// Why the two ends did not agree on TLS, if that is the cause of this failure.
    pub(crate) fn tls_refusal(error: &(dyn StdError + 'static)) -> Option<Error> {
        use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage};
        let why: &rustls::Error = error_within(error)?;
        let (kind, help) = match why {
            // The second is the error for another authority with the name of the right one.
            InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
                (Misconfigured, "name the authority that signed it: tls_ca=/path/to/ca.pem")
            }
            InvalidCertificate(CertificateError::NotValidForNameContext { .. }) => {
                (Misconfigured, "connect by a name that stands in the certificate")
            }
            InvalidCertificate(_) => (Misconfigured, "have it renewed, or look at the clock of this host"),
            InvalidMessage(_) => (Misconfigured, "for a port without TLS, write etcd://"),
            AlertReceived(_) => {
                (Denied, "if the member wants a client certificate, name one: tls_cert, tls_key")
            }
            _ => return None,
        };
        Some(Error::new(kind, format!("there is no TLS with the member: {why}")).with_help(help))
    }
}
