//! The command as people use it: real processes, real stores, real signals and terminals.
//!
//! Nothing here sleeps and hopes. A test waits for what it needs (a line, a process that is gone, a lock that is held),
//! and the one bound on time is the one that the design promises.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that unwraps fails, which is what it is for"
)]

mod at_each_call;
mod bench;
mod compare;
mod config;
mod conformance;
mod docs;
mod elect;
mod environment;
mod errors;
mod exit_codes;
mod hold;
mod inspection;
mod kinds;
mod loss;
mod nesting;
mod overlap;
mod partial_cluster;
mod processes;
mod quickstart;
mod reentry;
mod secrets;
mod servers;
mod signals;
mod starting;
mod strangers;
mod support;
mod terminal;
mod waiting;
mod watchdog;
