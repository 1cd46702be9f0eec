use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::Query;
use std::net::IpAddr;
use std::path::PathBuf;

/// Whether to encrypt, and what to believe. By the names of `libpq`; its `prefer` and `allow` are not there, because both
/// go on in the clear when somebody in between says that the server cannot encrypt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// In the clear.
    None,
    /// Encrypted, with whoever answers.
    Anybody,
    /// Encrypted, with a server that an authority knows, under whatever name.
    Authority(Files),
    /// Encrypted, with the server that an authority knows by the name in the URL.
    Full(Files),
}

/// PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// Authorities to trust, beside those of the host.
    pub(crate) root: Option<PathBuf>,
    /// The client's certificate and key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SslMode {
    Disable,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Encryption {
    /// Without a word on it: in the clear to this host, and with everything verified to any other.
    pub(super) fn from_query(host: &str, socket: bool, query: &mut Query) -> Result<Self> {
        let asked = sslmode(query)?;
        let local = socket || is_this_host(host);
        let mode = asked.unwrap_or(if local { SslMode::Disable } else { SslMode::VerifyFull });
        let files = Files { root: query.take("sslrootcert").map(PathBuf::from), identity: identity(query)? };
        if mode != SslMode::Disable && !cfg!(feature = "tls") {
            return Err(without_tls(asked.is_some()));
        }
        #[cfg(feature = "tls")]
        super::pem::check(&files)?;
        match mode {
            SslMode::VerifyFull => Ok(Self::Full(files)),
            SslMode::VerifyCa => {
                #[cfg(feature = "tls")]
                super::pem::choose_provider();
                Ok(Self::Authority(files))
            }
            _ if files != Files::default() => Err(Error::invalid(
                "sslmode",
                "with it, the files of sslrootcert, sslcert and sslkey are not looked at",
                "write sslmode=verify-full, or leave them out",
            )),
            SslMode::Require => Ok(Self::Anybody),
            SslMode::Disable => Ok(Self::None),
        }
    }
}

fn sslmode(query: &mut Query) -> Result<Option<SslMode>> {
    let choices = [
        ("disable", SslMode::Disable),
        ("require", SslMode::Require),
        ("verify-ca", SslMode::VerifyCa),
        ("verify-full", SslMode::VerifyFull),
    ];
    query.take_choice("sslmode", &choices)
}

fn identity(query: &mut Query) -> Result<Option<(PathBuf, PathBuf)>> {
    match (query.take("sslcert"), query.take("sslkey")) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some((certificate.into(), key.into()))),
        (Some(_), None) => Err(Error::invalid("sslkey", "sslcert is given without it", "give both, or none")),
        (None, Some(_)) => Err(Error::invalid("sslcert", "sslkey is given without it", "give both, or none")),
    }
}

fn without_tls(asked: bool) -> Error {
    let (message, help) = if asked {
        ("the URL asks for TLS, which this build was made without", "build with the feature \"tls\"")
    } else {
        (
            "a database on another host is talked to by TLS, which this build was made without",
            "build with the feature \"tls\"; or, on a network that you trust, write sslmode=disable",
        )
    };
    Error::new(ErrorKind::Misconfigured, message).with_help(help)
}

fn is_this_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}
