//! The whole command for a scheme of your own: the five lines of `main`.
//!
//! `cargo run -p leasehold-cli --example own_scheme -- -u mine:/tmp/locks.db run demo -- echo hello`

#![allow(clippy::expect_used, reason = "a wrong scheme is found by the first run")]

use leasehold::backend::{LockBackend, Namespace, StoreUrl};
use leasehold::{Config, Registry, Result};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let mut registry = Registry::default();
    registry.register("mine", open).expect("the scheme is well formed");
    leasehold_cli::main(registry)
}

/// Opens `mine:FILE`. A backend of your own takes the place of this file of SQLite.
async fn open(url: StoreUrl, namespace: Namespace) -> Result<Arc<dyn LockBackend>> {
    let file = Config::new(&format!("sqlite:{}", url.path()?))?.with_prefix(namespace.prefix())?;
    Registry::default().open(&file).await
}
