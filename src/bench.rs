//! Stores without a lock library over them, for `leasehold bench`. Hidden, behind the feature `bench`, and free to change.

use crate::{Config, Registry, Result};
pub use leasehold_core::bench::{ByHand, Counters, Yardstick};
use std::sync::Arc;

/// The configured store itself; `None` if there is none below the backend. Opens nothing.
///
/// # Errors
///
/// As for [`Registry::open`].
pub fn yardstick(config: &Config) -> Result<Option<Arc<dyn Yardstick>>> {
    let (url, scheme) = (config.url(), config.url().scheme());
    let namespace = Registry::default().namespace(config)?;
    let _without_stores = (url, &namespace, scheme);
    #[cfg(feature = "redis")]
    if leasehold_redis::SCHEMES.contains(&scheme) {
        return leasehold_redis::bench::open(url, &namespace);
    }
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

#[cfg(all(test, feature = "redis", feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn server_and_file_have_a_yardstick() {
        for url in ["redis://localhost", "sqlite:locks.db"] {
            assert!(yardstick(&Config::new(url).unwrap()).unwrap().is_some(), "{url}");
        }
    }
}
