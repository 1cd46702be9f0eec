//! TLS, in builds that have it.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod client;
#[cfg(feature = "tls")]
mod failure;

#[cfg(feature = "tls")]
pub(crate) use self::{client::Tls, failure::refusal_by_peer};
#[cfg(not(feature = "tls"))]
pub(crate) use absent::{Tls, refusal_by_peer};

impl Tls {
    /// The parameters of a URL that say how to encrypt.
    pub(crate) const PARAMETERS: [&'static str; 4] = ["tls_ca", "tls_cert", "tls_key", "tls_insecure"];
}
