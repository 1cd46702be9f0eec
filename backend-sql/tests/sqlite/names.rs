//! Names are bytes: whatever looks alike to people or to a collation is a lock of its own.

use super::store::{Store, busy_for, claim, granted};
use leasehold_core::Namespace;
use leasehold_store_url::StoreUrl;

#[tokio::test]
async fn names_that_look_alike_are_different_locks() {
    let store = Store::new();
    let backend = store.open();
    let long = "x".repeat(511);
    let (one, other) = (format!("{long}1"), format!("{long}2"));
    // The two é are one character, and an e with an accent after it.
    let names = [
        "A", "a", "A ", "Á", "\u{e9}", "e\u{301}", "%", "_", "a%", "a_", "'", "\"", "a'--", "🔒", &one,
        &other,
    ];
    for name in names {
        granted(&backend, &claim(name)).await;
    }
    for name in names {
        busy_for(&backend, &claim(name)).await;
    }
    let held = backend.admin().unwrap().list("").await.unwrap();
    assert_eq!(held.len(), names.len());
}

#[tokio::test]
async fn list_has_the_names_with_the_prefix_in_the_order_of_their_bytes() {
    let store = Store::new();
    let backend = store.open();
    for name in ["b", "a/2", "a/1", "a", "a%", "A/1", "a\u{10ffff}z", "ab"] {
        granted(&backend, &claim(name)).await;
    }
    let list = async |prefix: &str| -> Vec<String> {
        let held = backend.admin().unwrap().list(prefix).await.unwrap();
        held.iter().map(|status| status.name.to_string()).collect()
    };
    assert_eq!(list("a/").await, ["a/1", "a/2"]);
    assert_eq!(list("a%").await, ["a%"]);
    assert_eq!(list("a").await, ["a", "a%", "a/1", "a/2", "ab", "a\u{10ffff}z"]);
    assert_eq!(list("_").await, [""; 0]);
    assert_eq!(list("").await.len(), 8);
}

#[tokio::test]
async fn namespaces_share_a_file_and_no_lock() {
    let store = Store::new();
    let open = |prefix| {
        let url = StoreUrl::parse(&store.url()).unwrap();
        leasehold_sql::open(&url, &Namespace::new(prefix).unwrap()).unwrap()
    };
    let (shop, other, all) = (open("shop/"), open("other/"), open(""));
    granted(&shop, &claim("a")).await;
    granted(&other, &claim("a")).await;
    busy_for(&shop, &claim("a")).await;
    let names = async |backend: &std::sync::Arc<dyn leasehold_core::LockBackend>| -> Vec<String> {
        let held = backend.admin().unwrap().list("").await.unwrap();
        held.iter().map(|status| status.name.to_string()).collect()
    };
    assert_eq!(names(&shop).await, ["a"]);
    assert_eq!(names(&all).await, ["other/a", "shop/a"]);
}

#[tokio::test]
async fn tables_share_a_file_and_no_lock() {
    let store = Store::new();
    for table in ["leasehold", "order", "T1", "_x", &"t".repeat(63)] {
        let backend = super::store::open(&format!("{}?table={table}", store.url())).unwrap();
        granted(&backend, &claim("a")).await;
        busy_for(&backend, &claim("a")).await;
    }
}
