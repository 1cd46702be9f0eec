//! The backend against real servers: each script alone, the link under faults, and what users see of both.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod acl;
mod admin;
#[cfg(feature = "tls")]
mod authority;
mod bad_input;
mod batch;
mod check;
mod client;
mod connecting;
mod fake;
mod faults;
mod handover;
mod hostile;
mod interop;
mod kit;
mod older_protocol;
mod proxies;
mod redlock;
mod redlock_leftovers;
mod redlock_scripts;
mod refusals;
mod replica;
mod rotated_password;
mod script_acquire;
mod script_queue;
mod script_refusals;
mod script_release;
mod script_renew;
mod script_shared;
mod secrets;
mod sentinel;
mod several_servers;
#[cfg(feature = "tls")]
mod tls;
mod trial;
