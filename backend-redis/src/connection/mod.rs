//! Connections to servers, and what their replies mean.

mod handshake;
mod link;
mod multiplexed;
mod replicas;
mod route;
mod stream;
mod tls;

pub(crate) use link::{Call, ConfirmKind, Link, Reply};
pub(crate) use replicas::wait_for;
pub(crate) use route::Route;
pub(crate) use tls::Tls;
