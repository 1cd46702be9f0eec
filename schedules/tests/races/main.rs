//! The races of the core, each under thousands of schedules. The guard, the keeper, the client and the wait queue are the
//! real ones, compiled for a runtime that chooses the next task at every mutex, atomic and await.
//!
//! * `LEASEHOLD_SCHEDULES=100000 cargo test -p leasehold-schedules` searches longer.
//! * `LEASEHOLD_SEED=17` tries other schedules.
//! * A race that fails prints its schedule. To replay it, put all lines of the schedule into `LEASEHOLD_SCHEDULE`, and run
//!   the test of that name alone.
//!
//! Not explored: memory orders weaker than those of mutexes and `SeqCst`, and threads that interleave between two
//! instructions of ours of which none is a lock, an atomic or an await.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that unwraps fails, which is what it is for; the number of schedules is for people"
)]

mod broken_variants;
mod checks;
mod explorer;
mod holds;
mod lock_sets;
mod losses;
mod manual_clock;
mod scopes;
mod store;
mod waiters;
