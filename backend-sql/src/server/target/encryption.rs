use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Query, is_this_host};
use std::path::PathBuf;

/// Whether to encrypt, and what to believe; and the PEM files of that.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Encryption {
    pub(crate) mode: SslMode,
    /// Authorities to trust, beside those of the host.
    pub(crate) root: Option<PathBuf>,
    /// The client's certificate and key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// By the names of `libpq`, without `prefer` and `allow`: an attacker in between could make these go on in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SslMode {
    /// In the clear.
    Disable,
    /// Encrypted, with any server.
    Require,
    /// Encrypted, with a server that an authority knows, under any name.
    VerifyCa,
    /// Encrypted, with the server that an authority knows by the name in the URL.
    VerifyFull,
}

impl SslMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

impl Encryption {
    /// Without `sslmode`: in the clear to this host, and with everything verified to any other.
    pub(super) fn from_query(host: &str, socket: bool, query: &mut Query) -> Result<Self> {
        use SslMode::{Disable, Require, VerifyCa, VerifyFull};
        let modes = [Disable, Require, VerifyCa, VerifyFull].map(|mode| (mode.as_str(), mode));
        let mode = query.take_choice("sslmode", &modes)?;
        let mode = mode.unwrap_or(if socket || is_this_host(host) { Disable } else { VerifyFull });
        let root = query.take("sslrootcert").map(PathBuf::from);
        let encryption = Self { mode, root, identity: query.take_files(["sslcert", "sslkey"])? };
        if mode != Disable && !cfg!(feature = "tls") {
            let message = "this database is talked to by TLS, which this build was made without";
            return Err(Error::new(ErrorKind::Misconfigured, message).with_help(
                "build with the feature \"tls\"; or, on a network that you trust, write sslmode=disable",
            ));
        }
        #[cfg(feature = "tls")]
        super::pem::check(&encryption)?;
        if matches!(mode, Disable | Require) && (encryption.root.is_some() || encryption.identity.is_some()) {
            return Err(Error::invalid(
                "sslmode",
                "with it, the files of sslrootcert, sslcert and sslkey are not looked at",
                "write sslmode=verify-full, or leave them out",
            ));
        }
        Ok(encryption)
    }
}
