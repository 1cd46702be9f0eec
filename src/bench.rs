//! Stores without a lock library over them, for `leasehold bench`. Hidden, behind the feature `bench`, and free to change.

use crate::{Config, Registry, Result};
pub use leasehold_core::bench::{ByHand, Counters, Yardstick};
use leasehold_core::{LocalQueue, Namespace};
use std::sync::Arc;

/// The configured store itself; `None` where there is nothing to be had below the backend. Opens nothing.
///
/// # Errors
///
/// As for [`Registry::open`].
pub fn yardstick(config: &Config) -> Result<Option<Arc<dyn Yardstick>>> {
    // The local queue is the client's, and no store knows its parameter.
    let (url, _) = config.url().clone().split_parameter(LocalQueue::PARAMETER);
    let (url, scheme) = (&url, url.scheme());
    let namespace = match config.prefix() {
        Some(configured) => configured.clone(),
        None => Namespace::new(Registry::default().default_prefix(scheme))?,
    };
    let _of_no_store = (url, &namespace, scheme);
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
    fn a_store_whose_tasks_take_turns_has_one_too() {
        for url in ["redis://localhost", "sqlite:locks.db"] {
            for parameters in ["", "?local_queue=16"] {
                let config = Config::new(&format!("{url}{parameters}")).unwrap();
                assert!(yardstick(&config).unwrap().is_some(), "{url}{parameters}");
            }
        }
    }
}
