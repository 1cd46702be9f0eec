//! Stores without a lock library over them, for `leasehold bench`. Hidden, behind the feature `bench`, and free to change.

use crate::{Config, Registry, Result};
use leasehold_core::Namespace;
pub use leasehold_core::bench::{Counters, Yardstick};
use std::sync::Arc;

/// The configured store itself; `None` where there is nothing to be had below the backend. Opens nothing.
///
/// # Errors
///
/// As of [`Registry::open`].
pub fn yardstick(config: &Config) -> Result<Option<Arc<dyn Yardstick>>> {
    let (url, scheme) = (config.url(), config.url().scheme());
    let namespace = match config.prefix() {
        Some(configured) => configured.clone(),
        None => Namespace::new(Registry::default().default_prefix(scheme))?,
    };
    let _ = (url, &namespace);
    #[cfg(feature = "redis")]
    if leasehold_redis::SCHEMES.contains(&scheme) {
        return leasehold_redis::bench::open(url, &namespace);
    }
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    if leasehold_sql::SCHEMES.contains(&scheme) {
        return leasehold_sql::bench::open(url, &namespace);
    }
    Ok(None)
}
