use leasehold_conformance::Stop;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use std::fmt;
use std::path::PathBuf;
use tempfile::TempDir;

/// A certificate authority of its own, for servers that are to speak TLS. Its certificate is the file `ca.pem`.
pub struct CertificateAuthority {
    files: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl CertificateAuthority {
    /// Makes a new authority, with a key of its own.
    ///
    /// # Errors
    ///
    /// If its files cannot be written.
    pub fn new() -> Result<Self, Stop> {
        let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
        params.distinguished_name = distinguished_name(&format!("authority {}", fastrand::u64(..)));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        let authority =
            Self { files: tempfile::tempdir().map_err(failed)?, issuer: Issuer::new(params, key) };
        authority.write("ca.pem", &certificate.pem())?;
        Ok(authority)
    }

    /// The path of one of its files.
    pub fn path(&self, file: &str) -> PathBuf {
        self.files.path().join(file)
    }

    /// Makes a certificate for these host names, in `<file>.pem`, and its key in `<file>.key`. The first name is also what a
    /// client with this certificate is called.
    ///
    /// # Errors
    ///
    /// If a name cannot stand in a certificate, or a file cannot be written.
    pub fn certify(&self, file: &str, names: &[&str]) -> Result<(), Stop> {
        self.certify_with(file, names, |_| {})
    }

    /// Makes a certificate as [`certify`](Self::certify) does, with a change to it.
    ///
    /// # Errors
    ///
    /// As [`certify`](Self::certify).
    pub fn certify_with(
        &self,
        file: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Result<(), Stop> {
        let hosts: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).map_err(failed)?;
        params.distinguished_name = distinguished_name(names.first().unwrap_or(&file));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        self.write(&format!("{file}.pem"), &certificate.pem())?;
        self.write(&format!("{file}.key"), &key.serialize_pem())
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Stop> {
        std::fs::write(self.path(file), text).map_err(failed)
    }
}

/// A certificate needs a name of its own: one that bears the name of its issuer counts as self-signed.
fn distinguished_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn failed(error: impl fmt::Display) -> Stop {
    Stop::failed(format!("no certificate: {error}"))
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority").field("files", &self.files).finish_non_exhaustive()
    }
}
