//! A file that another connection has locked.

use super::store::{Store, claim, granted, is_about, open, sql};
use leasehold_core::{ErrorKind, LockBackend, Renewal};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test]
async fn file_that_stays_locked_is_unavailable_and_unchanged() {
    let store = Store::new();
    let backend = open(&format!("{}?busy_timeout=50ms", store.url())).unwrap();
    let held = claim("held");
    granted(&backend, &held).await;
    let mut raw = store.raw().await;
    sql(&mut raw, "BEGIN IMMEDIATE").await;

    let wanted = claim("a");
    let errors = [
        backend.try_acquire(&wanted).await.unwrap_err(),
        backend.release(&held, Duration::ZERO).await.unwrap_err(),
        backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap_err(),
    ];
    let expected = format!("another process had {} locked for all of 50ms", store.file().display());
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.to_string(), expected);
        assert!(error.help().is_some_and(|help| help.contains("busy_timeout")));
    }

    sql(&mut raw, "ROLLBACK").await;
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 1);
    let renewed = backend.renew(&[held]).await.remove(0).unwrap();
    assert_eq!(renewed, Renewal::Renewed);
    granted(&backend, &wanted).await;
}

/// A transaction that has read and then writes after another has committed fails at once with `SQLITE_BUSY_SNAPSHOT`,
/// however long it was ready to wait. A single statement does not: it looks at the file when it has the lock.
#[tokio::test]
async fn statement_that_waited_for_a_writer_sees_its_changes() {
    let store = Store::new();
    let backend = store.open();
    let first = claim("a");
    let token = granted(&backend, &first).await;
    let mut raw = store.raw().await;
    sql(&mut raw, "BEGIN IMMEDIATE; UPDATE leasehold SET ends_at = 0, token = token + 1000000000").await;
    let waiting = tokio::spawn(attempt(Arc::clone(&backend)));
    until_waiting_for_the_file().await;
    sql(&mut raw, "COMMIT").await;
    let next = waiting.await.unwrap();
    assert!(next > token.get() + 1_000_000_000, "{next}");
}

/// The control: SQLite does fail a transaction that reads first, so the case above shows something.
#[tokio::test]
async fn transaction_that_reads_first_fails_with_a_busy_snapshot() {
    let store = Store::new();
    granted(&store.open(), &claim("a")).await;
    let (mut one, mut other) = (store.raw().await, store.raw().await);
    sql(&mut one, "BEGIN; SELECT * FROM leasehold").await;
    sql(&mut other, "UPDATE leasehold SET ends_at = 0").await;
    let update = sqlx::query("UPDATE leasehold SET ends_at = 1").fetch_all(&mut one);
    let error = update.await.unwrap_err();
    let code = error.as_database_error().and_then(|error| error.code());
    assert_eq!(code.as_deref(), Some("517"));
}

#[tokio::test]
async fn read_does_not_wait_for_a_writer() {
    let store = Store::new();
    let backend = store.open();
    let held = claim("a");
    granted(&backend, &held).await;
    let mut raw = store.raw().await;
    sql(&mut raw, "BEGIN IMMEDIATE; DELETE FROM leasehold").await;
    // The backend's own writer is stuck, too.
    let stuck = tokio::spawn(attempt(Arc::clone(&backend)));
    until_waiting_for_the_file().await;
    let before = Instant::now();
    let seen = backend.admin().unwrap().inspect(held.name()).await.unwrap();
    assert!(is_about(seen[0].ends_in.unwrap(), super::store::TTL));
    assert_eq!(backend.admin().unwrap().list("").await.unwrap().len(), 1);
    assert!(!stuck.is_finished());
    assert!(before.elapsed() < Duration::from_secs(2), "it waited");
    sql(&mut raw, "COMMIT").await;
    stuck.await.unwrap();
}

/// The change to WAL mode needs the file for itself, and SQLite does not wait for that: we do.
#[tokio::test]
async fn file_in_use_enters_wal_mode_once_its_users_are_done() {
    let store = Store::new();
    std::fs::write(store.file(), "").unwrap();
    let mut raw = store.raw().await;
    sql(&mut raw, "CREATE TABLE other (id INTEGER); BEGIN; SELECT * FROM other").await;

    let impatient = open(&format!("{}?busy_timeout=20ms", store.url())).unwrap();
    let error = impatient.try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);

    let patient = tokio::spawn(attempt(store.open()));
    // Long enough to be refused many times over.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!patient.is_finished());
    sql(&mut raw, "COMMIT").await;
    patient.await.unwrap();
}

async fn attempt(backend: Arc<dyn LockBackend>) -> u64 {
    granted(&backend, &claim("a")).await.get()
}

/// Until a thread of the driver sleeps, which it does nowhere but in SQLite's busy handler.
async fn until_waiting_for_the_file() {
    let asleep = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        threads.into_iter().any(|thread| {
            let read = |file| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            // 230 is clock_nanosleep, 35 nanosleep, 115 and 101 the same on 64-bit ARM.
            let sleeps = ["230 ", "35 ", "115 ", "101 "];
            read("comm").starts_with("sqlx-sqlite")
                && sleeps.iter().any(|call| read("syscall").starts_with(call))
        })
    };
    let give_up = Instant::now() + Duration::from_secs(20);
    while !asleep() {
        assert!(Instant::now() < give_up, "nobody waits for the file");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
