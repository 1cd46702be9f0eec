//! The conformance suite of Leasehold, for its own backends and for yours.
//!
//! A [`Subject`] is a backend in a mode: how to start its store, how to connect, what it is called. The suite does the
//! rest: every case that applies to it is one named line in the output of `cargo test`, on a real store, with real
//! processes that are killed and stopped, and a network that loses replies on command. A complete backend with its
//! `Subject` is in the guide `docs/backend-author.md` of the repository.
//!
//! ```no_run
//! use async_trait::async_trait;
//! use leasehold_conformance::{Stop, Store, Subject};
//! use leasehold_core::memory::MemoryBackend;
//! use leasehold_core::{DistributedLock, LockClient, Result};
//! use std::sync::Arc;
//!
//! #[derive(Debug)]
//! struct Mine;
//!
//! #[async_trait]
//! impl Subject for Mine {
//!     fn name(&self) -> &str {
//!         "mine"
//!     }
//!     async fn start(&self) -> Result<Box<dyn Store>, Stop> {
//!         Ok(Box::new(RunningServer))
//!     }
//!     async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
//!         Ok(Arc::new(LockClient::new(Arc::new(MemoryBackend::new()))))
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct RunningServer;
//!
//! impl Store for RunningServer {
//!     fn address(&self) -> String {
//!         "127.0.0.1:4711".to_owned()
//!     }
//! }
//!
//! leasehold_conformance::main!(Mine);
//! ```
//!
//! Minor releases add cases: a backend may then fail a case that was not there before.

mod administrator;
mod case;
mod cases;
mod checker;
mod clock;
mod context;
mod expect;
mod fault_run;
mod faults;
mod history;
mod kinds;
mod lateness;
pub mod matrix;
pub mod proxy;
mod run_config;
mod runner;
mod running_client;
pub mod server;
mod soak;
mod stop;
mod subject;
mod time_scale;
mod worker;
mod workload;

use leasehold_core::sync::locked;

pub use administrator::Administrator;
pub use case::{Case, Harm, HostShare};
pub use cases::{all, by_id};
pub use clock::ProcessClock;
pub use kinds::{BlockingGuard, BlockingLocks, Kinds, LockSet, Permits};
#[doc(hidden)]
pub use lateness::was_too_late_since;
pub use runner::{
    CaseEvent, CaseOutcome, CaseResult, Run, Tally, run, run_case, run_case_here, skipped_by_reason,
};
pub use soak::{Round, Soak};
pub use stop::{Stop, Verdict};
pub use subject::{Counters, Members, Replicas, Store, Subject};
pub use time_scale::said_time_scale;
pub use worker::{serve_as_worker, worker_order};

/// The `main` of a test target with `harness = false`: runs the suite against these subjects.
#[macro_export]
macro_rules! main {
    ($($subject:expr),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::run(vec![$(::std::boxed::Box::new($subject)),+])
        }

        // Exists only under the default harness, which would otherwise report "0 tests, ok".
        #[test]
        fn conformance_suite_needs_harness_false() {
            panic!("add `harness = false` to this [[test]] in Cargo.toml: not one case has run");
        }
    };
}
