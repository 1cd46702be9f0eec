//! A file that is deleted or replaced while it is in use: no grant stays in a file that no other process can open.

use super::store::{Store, claim, granted};
use super::worker::Worker;
use leasehold_core::{AcquireOptions, DistributedLockExt as _, Finding, LossCause, Release, Renewal};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn lock_in_a_deleted_file_is_lost_and_granted_next_in_a_new_file() {
    let store = Store::new();
    let (holder, other) = (store.open(), store.open());
    let held = claim("a");
    let first = granted(&holder, &held).await;
    std::fs::remove_file(store.file()).unwrap();

    let second = granted(&other, &claim("a")).await;
    assert!(second > first, "tokens grow across a lost file");
    let lost = holder.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
    assert_eq!(lost, Renewal::Lost(LossCause::Taken));
    let released = holder.release(&held, Duration::ZERO).await.unwrap();
    assert_eq!(released, Release::NotHeld);
    super::store::busy_for(&holder, &claim("a")).await;
}

#[tokio::test]
async fn holder_whose_file_is_deleted_loses_its_lock() {
    let store = Store::new();
    let backend = store.open();
    let held = claim("a");
    granted(&backend, &held).await;
    std::fs::remove_file(store.file()).unwrap();
    let lost = backend.renew(&[held]).await.remove(0).unwrap();
    assert_eq!(lost, Renewal::Lost(LossCause::Gone));
    assert!(store.file().exists(), "and a new file is there for the next");
}

#[tokio::test]
async fn guard_whose_file_is_deleted_is_lost_by_its_next_renewal() {
    let store = Store::new();
    let locks = store.client();
    let options = AcquireOptions::new().with_ttl(Duration::from_secs(3));
    let guard = locks.acquire_with(&super::store::name("a"), &options).await.unwrap();
    std::fs::remove_file(store.file()).unwrap();
    let loss = tokio::time::timeout(Duration::from_secs(20), guard.lost()).await.unwrap();
    assert_eq!(loss.cause(), LossCause::Gone);
    assert!(locks.try_acquire("a").await.unwrap().is_some());
}

#[tokio::test]
async fn file_that_is_moved_away_is_not_followed() {
    let store = Store::new();
    let backend = store.open();
    let held = claim("a");
    granted(&backend, &held).await;
    std::fs::rename(store.file(), store.directory().join("moved.db")).unwrap();
    granted(&backend, &claim("a")).await;
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 1);
}

#[tokio::test]
async fn side_files_that_are_deleted_are_noticed() {
    for suffix in ["-wal", "-shm"] {
        let store = Store::new();
        let backend = store.open();
        granted(&backend, &claim("before")).await;
        std::fs::remove_file(store.side_file(suffix)).unwrap();
        // They are looked at when 10 ms have gone by since the last time.
        tokio::time::sleep(Duration::from_millis(20)).await;
        granted(&backend, &claim("a")).await;
        // What was granted after it is where another process finds it.
        super::store::busy_for(&store.open(), &claim("a")).await;
    }
}

/// The most natural way to delete a store: the file alone, while another process holds a lock in it.
#[tokio::test]
async fn new_file_begins_without_the_side_files_of_the_old() {
    let store = Store::new();
    let mut worker = Worker::start(&store.url());
    let held = worker.ask("hold a 600000").await;
    std::fs::remove_file(store.file()).unwrap();
    let backend = store.open();
    for round in 0..20 {
        let mine = claim("a");
        let token = granted(&backend, &mine).await;
        assert!(format!("token {token}") > held);
        // The holder's process turns to the new file with its next use, and damages nothing.
        let answer = worker.ask(&format!("try other{round}")).await;
        assert!(answer.starts_with("granted"), "{answer}");
        let answer = worker.ask("try a").await;
        assert!(answer.starts_with("busy"), "{answer}");
        backend.release(&mine, Duration::ZERO).await.unwrap();
    }
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 21);
}

#[tokio::test]
async fn reader_of_a_deleted_file_finds_nothing_and_makes_no_file() {
    let store = Store::new();
    let backend = store.open();
    let held = claim("a");
    granted(&backend, &held).await;
    let admin = backend.admin().unwrap();
    assert!(!admin.inspect(held.name()).await.unwrap().is_empty());
    std::fs::remove_file(store.file()).unwrap();
    assert!(admin.inspect(held.name()).await.unwrap().is_empty());
    assert!(!store.file().exists(), "who looks makes nothing");
}

#[tokio::test]
async fn dropped_table_is_made_again() {
    let store = Store::new();
    let backend = store.open();
    let held = claim("a");
    granted(&backend, &held).await;
    store.sql("DROP TABLE leasehold").await;
    let admin = backend.admin().unwrap();
    assert!(admin.inspect(held.name()).await.unwrap().is_empty());
    let lost = backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
    assert_eq!(lost, Renewal::Lost(LossCause::Gone));
    granted(&backend, &claim("a")).await;
    let none: Vec<Finding> = Arc::clone(&backend).admin().unwrap().check().await.unwrap();
    assert_eq!(none, []);
}
