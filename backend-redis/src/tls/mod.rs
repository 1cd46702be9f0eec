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
