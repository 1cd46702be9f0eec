//! TLS against real servers, with certificates made for the test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that unwraps fails, which is what it is for"
)]

mod environment;
mod kit;
mod password;
mod verified;
