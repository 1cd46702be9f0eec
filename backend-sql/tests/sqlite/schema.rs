//! The table: made once, recognised afterwards, and left alone if it is somebody else's.

use super::store::{Store, claim, granted, open};
use leasehold_core::{Attempt, ErrorKind, LockBackend, LockMode};
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
     acquired_at INTEGER NOT NULL, holder TEXT NOT NULL";

#[tokio::test]
async fn foreign_table_is_refused_with_the_difference_and_unchanged() {
    let columns = |from: &str, to: &str| format!("CREATE TABLE leasehold ({})", COLUMNS.replace(from, to));
    let cases = [
        ("CREATE TABLE leasehold (id INTEGER)".to_owned(), "it has no column name"),
        (
            columns("name BLOB", "name TEXT"),
            "its column name TEXT NOT NULL PRIMARY KEY should be name BLOB NOT NULL PRIMARY KEY",
        ),
        (
            columns(" PRIMARY KEY", ""),
            "its column name BLOB NOT NULL should be name BLOB NOT NULL PRIMARY KEY",
        ),
        (columns("boot TEXT", "boot TEXT NOT NULL"), "its column boot TEXT NOT NULL should be boot TEXT"),
        (
            format!("CREATE TABLE leasehold ({COLUMNS}, permits INTEGER)"),
            "it has a column too many, permits INTEGER",
        ),
        ("CREATE VIEW leasehold AS SELECT 1 AS name".to_owned(), "it is a view"),
        (
            format!(
                "CREATE TABLE leasehold ({COLUMNS}); \
                 CREATE TRIGGER thief AFTER UPDATE ON leasehold BEGIN DELETE FROM leasehold; END"
            ),
            "it has a trigger, \"thief\"",
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

/// Of two processes that change it at once, one finds it done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn table_of_schema_1_is_changed_by_the_first_writer_and_keeps_its_locks() {
    let store = Store::new();
    let held = claim("a");
    granted(&store.open(), &held).await;
    store
        .sql(&format!(
            "ALTER TABLE leasehold RENAME TO newer; CREATE TABLE leasehold ({COLUMNS});
            INSERT INTO leasehold SELECT name, owner, token, ends_at, linger_until, written_at, boot, acquired_at, holder
            FROM newer; DROP TABLE newer"
        ))
        .await;
    let reader = store.open();
    let error = reader.admin().unwrap().inspect(held.name()).await.unwrap_err();
    assert!(error.to_string().ends_with("has schema 1, and this program reads 2"), "{error}");
    assert!(error.help().is_some_and(|help| help.contains("leasehold init")));
    let (one, other) = (store.open(), store.open());
    let (again, another) = (claim("a"), claim("a"));
    let (first, second) = tokio::join!(one.try_acquire(&again), other.try_acquire(&another));
    assert!(matches!((first.unwrap(), second.unwrap()), (Attempt::Busy(_), Attempt::Busy(_))));
    assert_eq!(reader.admin().unwrap().inspect(held.name()).await.unwrap()[0].owner, Some(held.owner()));
    granted(&one, &claim("b").with_mode(LockMode::Shared)).await;
    granted(&other, &claim("b").with_mode(LockMode::Shared)).await;
}

#[tokio::test]
async fn newer_schema_is_refused() {
    let store = Store::new();
    std::fs::write(store.file(), "").unwrap();
    store
        .sql(&format!("CREATE TABLE Leasehold (\n  -- leasehold schema 3\n  {COLUMNS}, permits INTEGER)"))
        .await;
    for error in all_refusals(&store.open()).await {
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        let expected = format!(
            "the table leasehold in {} has schema 3, and this program knows 2",
            store.file().display()
        );
        assert_eq!(error.to_string(), expected);
        assert!(error.help().is_some_and(|help| help.contains("update")));
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
