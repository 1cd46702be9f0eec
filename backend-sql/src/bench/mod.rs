//! The database without a library over it, for `leasehold bench`.

#[cfg(feature = "_server")]
mod server;

use leasehold_core::bench::Yardstick;
use leasehold_core::{Namespace, Result};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;

/// The database at this URL; `None` where it is not compiled in. Touches nothing yet. Errors as of [`open`](crate::open).
pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Option<Arc<dyn Yardstick>>> {
    match url.scheme() {
        #[cfg(feature = "mysql")]
        "mariadb" | "mysql" => {
            let dialect = Arc::new(crate::mysql::MySqlDialect::open(url)?);
            Ok(Some(Arc::new(server::Raw::new(dialect, namespace)?)))
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            let dialect = Arc::new(crate::postgres::PostgresDialect::open(url)?);
            Ok(Some(Arc::new(server::Raw::new(dialect, namespace)?)))
        }
        #[cfg(all(feature = "sqlite", target_os = "linux"))]
        "sqlite" => Ok(Some(Arc::new(crate::sqlite::bench::Raw::new(url, namespace)?))),
        _ => Ok(None),
    }
}
