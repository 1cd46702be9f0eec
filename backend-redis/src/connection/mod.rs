//! Connections to servers, and what their replies mean.

mod handshake;
mod link;
mod manager;
mod multiplexed;
mod role;
mod route;
mod sentinel;
mod stream;

pub(crate) use link::{ConfirmKind, ScriptCall, ScriptReply, ServerLink, wait_for};
pub(crate) use route::Route;
pub(crate) use sentinel::Sentinels;
