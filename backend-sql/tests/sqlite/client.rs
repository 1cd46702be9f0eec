//! Through `LockClient`, as users meet it.

use super::store::{Store, claim, granted, name};
use leasehold_core::{
    AcquireOptions, DistributedLock as _, DistributedLockExt as _, ErrorKind, ExpiryClock, Fault, LossCause,
    Outcome, Reach, WakeUp,
};
use std::time::Duration;

#[tokio::test]
async fn lock_is_acquired_held_and_released() {
    let store = Store::new();
    let (mine, theirs) = (store.client(), store.client());
    let guard = mine.acquire("a").await.unwrap();
    assert!(guard.is_held());
    assert!(theirs.try_acquire("a").await.unwrap().is_none());
    let token = guard.token().unwrap();
    guard.release().await.unwrap();
    let next = theirs.try_acquire("a").await.unwrap().unwrap();
    assert!(next.token().unwrap() > token);
}

#[tokio::test]
async fn wait_for_a_held_lock_times_out() {
    let store = Store::new();
    let locks = store.client();
    let _held = locks.acquire("a").await.unwrap();
    let options = AcquireOptions::new().with_wait(Duration::from_millis(200));
    let error = locks.acquire_with(&name("a"), &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn waiter_gets_the_lock_once_it_is_released() {
    let store = Store::new();
    let (mine, theirs) = (store.client(), store.client());
    let guard = mine.acquire("a").await.unwrap();
    let waiter = tokio::spawn(async move { theirs.acquire("a").await });
    // Until it waits: the name is then known to be contended, and only read.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let next = tokio::time::timeout(Duration::from_secs(10), waiter).await;
    assert!(next.unwrap().unwrap().unwrap().is_held());
}

#[tokio::test]
async fn renewed_lease_outlives_its_ttl() {
    let store = Store::new();
    let locks = store.client();
    let options = AcquireOptions::new().with_ttl(Duration::from_secs(2));
    let guard = locks.acquire_with(&name("a"), &options).await.unwrap();
    let granted_until = store.number("SELECT ends_at FROM leasehold").await;
    let renewed = async {
        while store.number("SELECT ends_at FROM leasehold").await <= granted_until + 2_000_000 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), renewed).await.unwrap();
    assert!(guard.is_held());
}

#[tokio::test]
async fn dropped_guard_frees_its_lock() {
    let store = Store::new();
    let locks = store.client();
    drop(locks.acquire("a").await.unwrap());
    let options = AcquireOptions::new().with_wait(Duration::from_secs(10));
    let next = locks.acquire_with(&name("a"), &options).await;
    assert!(next.unwrap().is_held());
}

#[tokio::test]
async fn acquisition_dropped_at_any_moment_leaves_no_hold() {
    let store = Store::new();
    let locks = store.client();
    locks.acquire("warm").await.unwrap().release().await.unwrap();
    for round in 0..40 {
        let given_up = tokio::time::timeout(Duration::from_micros(20 * round), locks.acquire("a")).await;
        drop(given_up);
        let options = AcquireOptions::new().with_wait(Duration::from_secs(10));
        let guard = locks.acquire_with(&name("a"), &options).await.unwrap();
        guard.release().await.unwrap();
    }
    assert!(locks.admin().unwrap().list("").await.unwrap().is_empty());
}

#[tokio::test]
async fn lock_taken_by_another_owner_is_lost() {
    let store = Store::new();
    let (locks, other) = (store.client(), store.open());
    let options = AcquireOptions::new().with_ttl(Duration::from_secs(3));
    let guard = locks.acquire_with(&name("a"), &options).await.unwrap();
    store.sql("UPDATE leasehold SET ends_at = 0").await;
    granted(&other, &claim("a")).await;
    let loss = tokio::time::timeout(Duration::from_secs(20), guard.lost()).await;
    assert_eq!(loss.unwrap().cause(), LossCause::Taken);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    super::store::busy_for(&other, &claim("a")).await;
}

#[tokio::test]
async fn hundred_tasks_with_a_name_each_share_a_file() {
    let store = Store::new();
    let locks = store.client();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..100 {
        let locks = locks.clone();
        tasks.spawn(async move {
            let guard = locks.acquire(format!("task/{task}")).await.unwrap();
            guard.token().unwrap()
        });
    }
    let tokens = tasks.join_all().await;
    assert_eq!(tokens.len(), 100);
}

#[tokio::test]
async fn closed_store_refuses_every_call() {
    let store = Store::new();
    let backend = store.open();
    let held = claim("a");
    granted(&backend, &held).await;
    backend.close().await.unwrap();
    backend.close().await.unwrap();
    let errors = [
        backend.try_acquire(&claim("b")).await.unwrap_err(),
        backend.release(&held, Duration::ZERO).await.unwrap_err(),
        backend.renew(&[held]).await.remove(0).unwrap_err(),
        backend.admin().unwrap().list("").await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
}

#[test]
fn client_serves_several_runtimes_one_after_the_other() {
    let store = Store::new();
    let locks = store.client();
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            locks.acquire("a").await.unwrap().release().await.unwrap();
        });
    }
}

#[test]
fn semantics_are_those_of_one_host_without_a_wall_clock() {
    let semantics = Store::new().open().semantics();
    assert_eq!((semantics.backend, semantics.mode), ("sqlite", "lease"));
    assert_eq!(semantics.reach, Reach::Host);
    assert_eq!(semantics.expiry_clock, ExpiryClock::Host);
    assert_eq!(semantics.wake_up, WakeUp::Poll { at_most: Duration::from_millis(50) });
    let under = |fault| semantics.promises.under(fault);
    assert_eq!(under(Fault::StoreClockForward), Outcome::Holds);
    assert_eq!(under(Fault::PowerLost), Outcome::Holds);
    assert_eq!(under(Fault::RecordDeleted), Outcome::FencedOnly);
    assert_eq!(under(Fault::NetworkFileSystem), Outcome::Unavailable);
    let allowed = super::store::open("sqlite:/tmp/x.db?allow_network_fs=yes").unwrap();
    let promises = allowed.semantics().promises;
    assert_eq!(promises.under(Fault::NetworkFileSystem), Outcome::MayBreak);
}
