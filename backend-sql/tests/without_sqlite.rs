//! What a program hears that was built without the feature of its store.

#![cfg(not(feature = "sqlite"))]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use leasehold_core::{ErrorKind, Namespace};
use leasehold_store_url::StoreUrl;

#[test]
fn missing_feature_is_refused_by_name() {
    let url = StoreUrl::parse("sqlite:/tmp/locks.db").unwrap();
    let error = leasehold_sql::open(&url, &Namespace::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert_eq!(error.to_string(), "SQLite is not compiled into this program");
    assert_eq!(error.help(), Some("build leasehold-sql with the feature \"sqlite\""));
}
