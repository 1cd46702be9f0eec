//! The races of the core, each under thousands of schedules. The guard, the keeper, the client and the local queue are the
//! real ones, compiled for a runtime that decides at every lock of a mutex, every atomic and every await who goes on.
//!
//! * `LEASEHOLD_SCHEDULES=100000 cargo test -p leasehold-schedules` searches longer.
//! * `LEASEHOLD_SEED=17` tries others than usual.
//! * A race that fails prints its schedule; with that, all its lines, in `LEASEHOLD_SCHEDULE`, and the name of the
//!   race, it is run once more as it was.
//!
//! What is not explored: weaker orders of memory than what mutexes and `SeqCst` give, and threads that meet within one
//! instruction of ours that is neither a lock, nor an atomic, nor an await.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that unwraps fails, which is what it is for; how much was tried is for people"
)]

mod explorer;
mod holds;
mod losses;
mod store;
mod time;
mod twins;
mod waiters;
mod witness;
