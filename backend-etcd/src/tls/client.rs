use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::Query;
use rustls::CertificateError;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// How to encrypt: by rustls with ring, the only provider that `tonic` is built with.
#[derive(Debug)]
pub(crate) struct Tls {
    /// A file of authorities to trust, in the place of those that this host trusts.
    authority: Option<PathBuf>,
    /// The certificate of the client, and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Reads the parameters of a URL, and once the files that they name, so that a mistake is found when the store is opened. They
    /// are read again for every connection: certificates are renewed under running processes.
    pub(crate) fn from_query(query: &mut Query) -> Result<Self> {
        let missing = |key, other| {
            Error::invalid(key, format_args!("{other} is given without it"), "give both, or none")
        };
        let identity = match (query.take("tls_cert"), query.take("tls_key")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (Some(_), None) => return Err(missing("tls_key", "tls_cert")),
            (None, Some(_)) => return Err(missing("tls_cert", "tls_key")),
        };
        let tls = Self { authority: query.take("tls_ca").map(PathBuf::from), identity };
        tls.config()?;
        Ok(tls)
    }

    /// True if we have a certificate to log in with.
    pub(crate) fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Connections to this address are encrypted, and the host in it must be the one of the certificate.
    pub(crate) fn encrypt(&self, endpoint: Endpoint) -> Result<Endpoint> {
        // They were fit once: that they cannot be read now is an outage, as while they are replaced.
        let config = self.config().map_err(|error| error.with_kind(ErrorKind::Unavailable))?;
        endpoint.tls_config(config).map_err(|error| {
            Error::new(ErrorKind::Misconfigured, "TLS cannot be set up")
                .with_help("look at the host in the URL, and at the certificates")
                .with_source(error)
        })
    }

    fn config(&self) -> Result<ClientTlsConfig> {
        let config = ClientTlsConfig::new();
        let config = match &self.authority {
            Some(file) => config.ca_certificate(Certificate::from_pem(certificates("tls_ca", file)?)),
            None => config.with_native_roots(),
        };
        let Some((certificate, key_file)) = &self.identity else { return Ok(config) };
        let chain = certificates("tls_cert", certificate)?;
        PrivateKeyDer::from_pem_file(key_file).map_err(|error| unreadable("tls_key", key_file, &error))?;
        let key = std::fs::read(key_file).map_err(|error| unreadable("tls_key", key_file, &error))?;
        Ok(config.identity(Identity::from_pem(chain, key)))
    }
}

/// The text of a file that has at least one certificate.
fn certificates(field: &'static str, file: &Path) -> Result<Vec<u8>> {
    let text = std::fs::read(file).map_err(|error| unreadable(field, file, &error))?;
    match CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>() {
        Ok(certificates) if !certificates.is_empty() => Ok(text),
        Ok(_) => Err(unreadable(field, file, &pem::Error::NoItemsFound)),
        Err(error) => Err(unreadable(field, file, &error)),
    }
}

fn unreadable(field: &'static str, file: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::invalid(field, format_args!("{}: {error}", file.display()), "name a readable file in PEM form")
}

/// Why the two ends did not agree on TLS, if that is the cause of this failure.
pub(crate) fn refusal_in(error: &(dyn StdError + 'static)) -> Option<Error> {
    let (kind, message, help) = match cause(error)? {
        rustls::Error::InvalidCertificate(why) => (
            ErrorKind::Misconfigured,
            format!("the member's certificate is not trusted: {why}"),
            help_for(why),
        ),
        rustls::Error::InvalidMessage(_) => (
            ErrorKind::Misconfigured,
            "what answers there does not speak TLS".to_owned(),
            "for a port without TLS, write etcd://",
        ),
        rustls::Error::AlertReceived(alert) => (
            ErrorKind::Denied,
            format!("the member refused the TLS connection: {alert:?}"),
            "if it wants a client certificate, name one: tls_cert=/path/to/cert.pem, tls_key=/path/to/key.pem",
        ),
        rustls::Error::PeerIncompatible(why) => (
            ErrorKind::Misconfigured,
            format!("the member and this client have no TLS in common: {why:?}"),
            "let the member speak TLS 1.2 or 1.3",
        ),
        _ => return None,
    };
    Some(Error::new(kind, message).with_help(help))
}

fn help_for(why: &CertificateError) -> &'static str {
    match why {
        // The second is the error for another authority with the name of the right one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "name the authority that signed it: tls_ca=/path/to/ca.pem"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "connect by a name that stands in the certificate"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "have it renewed, or look at the clock of this host"
        }
        _ => "have a certificate made that is fit for a server",
    }
}

/// The error of rustls within, wherever it was wrapped: an `io::Error` passes over what it holds.
fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut error = Some(error);
    while let Some(this) = error {
        if let Some(found) = this.downcast_ref() {
            return Some(found);
        }
        let held = this.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error = held.map(|held| held as &(dyn StdError + 'static)).or_else(|| this.source());
    }
    None
}
