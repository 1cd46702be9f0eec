//! Stores without a lock library over them, for `leasehold bench`. Hidden, behind the feature `bench`, and free to change.

use crate::{Config, Registry, Result};
pub use leasehold_core::bench::{ByHand, Counters, Yardstick};
use std::sync::Arc;

/// The configured store itself; `None` if its backend has none. Opens nothing.
///
/// # Errors
///
/// As for [`Registry::open`].
pub fn yardstick(config: &Config) -> Result<Option<Arc<dyn Yardstick>>> {
    let (url, scheme) = (config.url(), config.url().scheme());
    let namespace = Registry::default().namespace(config)?;
    let _without_stores = (url, &namespace, scheme);
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    if leasehold_sql::SCHEMES.contains(&scheme) {
        return leasehold_sql::bench::open(url, &namespace);
    }
    #[cfg(feature = "zookeeper")]
    if leasehold_zk::SCHEMES.contains(&scheme) {
        return leasehold_zk::bench::open(url, &namespace);
    }
    Ok(None)
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn file_has_a_yardstick() {
        assert!(yardstick(&Config::new("sqlite:locks.db").unwrap()).unwrap().is_some());
    }
}
