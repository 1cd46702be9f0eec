//! The backend against real servers: the recipe step by step, sessions under faults, and what users see of both.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod access;
mod admin;
mod bad_input;
mod basics;
mod cancellation;
mod check;
mod ensemble;
mod ghosts;
mod hand_over;
mod kit;
mod late_replies;
mod line;
mod lost_replies;
mod many;
mod names;
mod numbers;
mod one_process;
mod session;
mod ties;
#[cfg(feature = "tls")]
mod tls;
