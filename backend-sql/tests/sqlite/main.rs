//! Locks on SQLite, through the real file: what each statement does in each state of a row, what several processes make
//! of one file, and what is refused.
//!
//! Nothing here sets a clock or waits for time that it could write into the row instead.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that unwraps fails, which is what it is for; a worker process answers on its standard output"
)]

mod admin;
mod attempts;
mod busy;
mod client;
mod contention;
mod crash;
mod disk;
mod names;
mod refusals;
mod releases;
mod renewals;
mod replaced;
mod rights;
mod schema;
mod store;
mod time;
mod worker;
