//! MySQL's dialect and PostgreSQL's on real servers of their own: what the conformance suite does not know of.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that unwraps fails, which is what it is for"
)]

mod between;
mod deadlocks;
mod dropped_releases;
mod faults;
mod fenced;
mod first_use;
mod for_update;
mod hardened;
mod idle_waiters;
mod kit;
mod late_entries;
mod listener;
mod one_server;
mod poolers;
mod pools;
mod purge;
mod read_only;
mod readers;
mod refusals;
mod rotated_password;
mod round_trips;
mod settings;
mod time;
mod tokens;
mod triggers;
mod waking;
