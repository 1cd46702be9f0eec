//! TLS, in builds that have it.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod client;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::{Tls, refusal_in};
#[cfg(feature = "tls")]
pub(crate) use client::{Tls, refusal_in};

use leasehold_core::{Error, Result};
use leasehold_store_url::Query;

/// The parameters of a URL that say how to encrypt.
const PARAMETERS: [&str; 3] = ["tls_ca", "tls_cert", "tls_key"];

/// Parameters of TLS on a connection without it would be a false sense of security.
pub(crate) fn refuse(query: &mut Query) -> Result<()> {
    for key in PARAMETERS {
        if query.take(key).is_some() {
            let fix = "write etcd+tls://, or leave it out";
            return Err(Error::invalid(key, "etcd:// is not encrypted", fix));
        }
    }
    Ok(())
}
