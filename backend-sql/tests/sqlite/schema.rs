//! The table: made once, recognised afterwards, and left alone if it is somebody else's.

use super::store::{Store, claim, granted, open};
use leasehold_core::{ErrorKind, LockBackend};
use std::sync::Arc;

#[tokio::test]
async fn file_is_made_on_first_use_and_not_before() {
    let store = Store::new();
    let backend = store.open();
    assert!(!store.file().exists());
    granted(&backend, &claim("a")).await;
    assert!(store.file().exists());
    let mode: String = sqlx::Row::get(&store.sql("PRAGMA journal_mode").await[0], 0);
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn empty_file_becomes_a_store() {
    let store = Store::new();
    std::fs::write(store.file(), "").unwrap();
    granted(&store.open(), &claim("a")).await;
}

#[tokio::test]
async fn store_in_the_database_of_another_program_keeps_its_tables() {
    let store = Store::new();
    std::fs::write(store.file(), "").unwrap();
    store.sql("CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (7)").await;
    granted(&store.open(), &claim("a")).await;
    assert_eq!(store.number("SELECT id FROM orders").await, 7);
}

#[tokio::test]
async fn init_and_its_script_make_the_same_table() {
    let (made, scripted) = (Store::new(), Store::new());
    let admin = made.open();
    admin.admin().unwrap().init().await.unwrap();
    admin.admin().unwrap().init().await.unwrap();
    let script = admin.admin().unwrap().init_script().unwrap();
    std::fs::write(scripted.file(), "").unwrap();
    scripted.sql(&script).await;
    let schema = "SELECT sql FROM sqlite_schema WHERE name = 'leasehold'";
    let text = async |store: &Store| -> String { sqlx::Row::get(&store.sql(schema).await[0], 0) };
    assert_eq!(text(&made).await, text(&scripted).await);
    granted(&scripted.open(), &claim("a")).await;
}

/// A table that was made with the same columns by another statement is as good.
#[tokio::test]
async fn table_with_the_right_columns_is_accepted() {
    let store = Store::new();
    std::fs::write(store.file(), "").unwrap();
    store.sql(&format!("CREATE TABLE leasehold ({COLUMNS})")).await;
    granted(&store.open(), &claim("a")).await;
}

const COLUMNS: &str = "name BLOB NOT NULL PRIMARY KEY, owner BLOB NOT NULL, token INTEGER NOT NULL, \
     ends_at INTEGER NOT NULL, linger_until INTEGER NOT NULL, written_at INTEGER NOT NULL, boot TEXT, \
     acquired_at INTEGER NOT NULL, holder TEXT NOT NULL, sharers TEXT NOT NULL DEFAULT ''";

#[tokio::test]
async fn foreign_table_is_refused_with_the_difference_and_unchanged() {
    let columns = |from: &str, to: &str| format!("CREATE TABLE leasehold ({})", COLUMNS.replace(from, to));
    let cases = [
        (
            "CREATE TABLE leasehold (id INTEGER)".to_owned(),
            "it has \"id INTEGER\" in place of \"name BLOB NOT NULL PRIMARY KEY\"",
        ),
        (
            columns("name BLOB", "name TEXT"),
            "it has \"name TEXT NOT NULL PRIMARY KEY\" in place of \"name BLOB NOT NULL PRIMARY KEY\"",
        ),
        (
            columns(" PRIMARY KEY", ""),
            "it has \"name BLOB NOT NULL\" in place of \"name BLOB NOT NULL PRIMARY KEY\"",
        ),
        (
            columns("boot TEXT", "boot TEXT NOT NULL"),
            "it has \"boot TEXT NOT NULL\" in place of \"boot TEXT\"",
        ),
        (
            format!("CREATE TABLE leasehold ({COLUMNS}, permits INTEGER)"),
            "it has \"permits INTEGER\" besides",
        ),
        ("CREATE VIEW leasehold AS SELECT 1 AS name".to_owned(), "it has \"view\" in place of \"table\""),
        (
            format!(
                "CREATE TABLE leasehold ({COLUMNS}); \
                 CREATE TRIGGER thief AFTER UPDATE ON leasehold BEGIN DELETE FROM leasehold; END"
            ),
            "it has \"trigger thief\" besides",
        ),
    ];
    for (made, difference) in cases {
        let store = Store::new();
        std::fs::write(store.file(), "").unwrap();
        store.sql(&made).await;
        let before = std::fs::read(store.file()).unwrap();
        for error in all_refusals(&store.open()).await {
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            let expected =
                format!("the table leasehold in {} is not ours: {difference}", store.file().display());
            assert_eq!(error.to_string(), expected);
            assert!(error.help().is_some_and(|help| help.contains("table=NAME")));
        }
        assert_eq!(std::fs::read(store.file()).unwrap(), before, "{difference}");
        let elsewhere = open(&format!("{}?table=locks", store.url())).unwrap();
        granted(&elsewhere, &claim("a")).await;
    }
}

/// The errors of each use of a store.
async fn all_refusals(backend: &Arc<dyn LockBackend>) -> Vec<leasehold_core::Error> {
    let admin = backend.admin().unwrap();
    vec![
        backend.try_acquire(&claim("a")).await.unwrap_err(),
        backend.renew(&[claim("a")]).await.remove(0).unwrap_err(),
        admin.inspect(claim("a").name()).await.unwrap_err(),
        admin.init().await.unwrap_err(),
        admin.check().await.unwrap_err(),
    ]
}
