//! The backend against real servers: the recipe step by step, sessions under faults, and their effect on users.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod access;
mod admin;
mod bad_input;
mod basics;
mod cancellation;
mod check;
mod earlier_sessions;
mod ensemble;
mod kit;
mod late_replies;
mod lost_replies;
mod many;
mod names;
mod numbers;
mod proofs;
mod queue;
mod session;
mod several_ensembles;
mod shared;
#[cfg(feature = "tls")]
mod tls;
