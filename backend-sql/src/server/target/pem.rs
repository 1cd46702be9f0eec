//! The files of TLS, read once when the store is opened, so that a mistake in them is found then. They are read again for
//! every connection: certificates are renewed under running processes.

use super::encryption::Files;
use leasehold_core::{Error, Result};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub(super) fn check(files: &Files) -> Result<()> {
    if let Some(root) = &files.root {
        certificates("sslrootcert", root)?;
    }
    let Some((certificate, key)) = &files.identity else {
        return Ok(());
    };
    let (chain, secret) = (certificates("sslcert", certificate)?, private_key("sslkey", key)?);
    let provider = Arc::new(ring::default_provider());
    // Nothing is connected to with this one: it only finds out whether the two belong together.
    let fits = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(RootCertStore::empty()))
        .and_then(|builder| builder.with_client_auth_cert(chain, secret));
    fits.map(drop).map_err(|error| {
        let problem = format_args!("it does not fit {}: {error}", certificate.display());
        Error::invalid("sslkey", problem, "name the key that the certificate was made for")
    })
}

/// Makes sure that the process has a provider of cryptography: the driver asks rustls for it where it looks at the
/// authority and not at the name, and rustls panics where two are linked and none was chosen. An earlier choice stays.
pub(super) fn choose_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread has chosen meanwhile.
        let _ = ring::default_provider().install_default();
    }
}

fn certificates(parameter: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, pem::Error>>);
    match read {
        Ok(read) if read.is_empty() => Err(unusable(parameter, path, &"there is no certificate in it")),
        Ok(read) => Ok(read),
        Err(error) => Err(unusable(parameter, path, &error)),
    }
}

fn private_key(parameter: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
        pem::Error::NoItemsFound => unusable(parameter, path, &"there is no private key in it"),
        error => unusable(parameter, path, &error),
    })
}

fn unusable(parameter: &'static str, path: &Path, why: &dyn fmt::Display) -> Error {
    Error::invalid(parameter, format_args!("{}: {why}", path.display()), "name a PEM file that can be read")
}
