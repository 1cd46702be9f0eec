//! The files of TLS, read once when the store is opened, so that a mistake in them is found then. They are read again for
//! every connection: certificates are renewed under running processes.

use super::{Encryption, SslMode};
use leasehold_core::{Error, Result};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::path::Path;

pub(super) fn check(encryption: &Encryption) -> Result<()> {
    if let Some(root) = &encryption.root {
        certificates("sslrootcert", root)?;
    }
    if let Some((certificate, key)) = &encryption.identity {
        let chain = certificates("sslcert", certificate)?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("sslkey", key, &error))?;
        CertifiedKey::from_der(chain, secret, &ring::default_provider()).map_err(|error| {
            let problem = format_args!("it does not fit {}: {error}", certificate.display());
            Error::invalid("sslkey", problem, "name the key that the certificate was made for")
        })?;
    }
    // The driver asks rustls for the provider of the process where it looks at the authority and not at the name, and rustls
    // panics where two are linked and none was chosen. An earlier choice stays.
    if encryption.mode == SslMode::VerifyCa && CryptoProvider::get_default().is_none() {
        // An error means that another thread has chosen meanwhile.
        let _ = ring::default_provider().install_default();
    }
    Ok(())
}

fn certificates(parameter: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, pem::Error>>);
    match read {
        Ok(read) if read.is_empty() => Err(unusable(parameter, path, &"there is no certificate in it")),
        Ok(read) => Ok(read),
        Err(error) => Err(unusable(parameter, path, &error)),
    }
}

fn unusable(parameter: &'static str, path: &Path, why: &dyn fmt::Display) -> Error {
    Error::invalid(parameter, format_args!("{}: {why}", path.display()), "name a PEM file that can be read")
}
