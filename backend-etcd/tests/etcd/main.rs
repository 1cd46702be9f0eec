//! The backend against real members: the recipe, members that fail, other programs in the same queue, and input that is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod bad_input;
mod basics;
mod interop;
mod kit;
mod login;
mod members;
#[cfg(feature = "tls")]
mod tls;
