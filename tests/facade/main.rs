//! What the crate that applications use adds to the core: schemes, the blocking API, metrics, one path to each name.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

#[cfg(all(feature = "blocking", feature = "sqlite"))]
mod blocking;
mod examples;
#[cfg(feature = "metrics")]
mod metrics;
mod one_path;
mod registry;
