//! The API for programs without an async runtime, and how it ends with its program.

use leasehold::blocking::{Locks, connect};
use leasehold::{AcquireOptions, DistributedLockExt, ErrorKind, LockMode};
use std::process::Command;
use std::time::Duration;

const STORE: &str = "LEASEHOLD_TEST_BLOCKING_STORE";

#[test]
fn locks_of_every_form_exclude_each_other_and_are_released() {
    let locks = connect("memory:").unwrap();
    let guard = locks.acquire("job").unwrap();
    assert!(locks.try_acquire("job").unwrap().is_none());
    let error = locks.acquire_timeout("job", Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    guard.extend(Duration::from_secs(60)).unwrap();
    assert!(guard.remaining() > Duration::from_secs(50));
    guard.release().unwrap();
    let (one, other) = (locks.read("job").unwrap(), locks.read("job").unwrap());
    let write = AcquireOptions::new().with_mode(LockMode::Write).with_wait(Duration::ZERO);
    assert_eq!(locks.acquire_with("job", &write).unwrap_err().kind(), ErrorKind::Busy);
    drop((one, other));
    locks.write("job").unwrap().release().unwrap();
    let guard = locks.run(|locks| async move { locks.acquire("job").await }).unwrap();
    locks.guard(guard).release().unwrap();
    locks.close().unwrap();
    assert_eq!(locks.acquire("job").unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn guard_outlives_its_client_and_is_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/locks.db", directory.path().display());
    let ttl = Duration::from_secs(1);
    let guard = connect(&url).unwrap().acquire_with("job", &AcquireOptions::new().with_ttl(ttl)).unwrap();
    std::thread::sleep(ttl * 2);
    assert!(guard.is_held(), "{:?}", guard.loss());
    drop(guard);
    let other = connect(&url).unwrap();
    other.acquire_timeout("job", Duration::from_secs(10)).unwrap().release().unwrap();
}

#[test]
fn failure_to_connect_and_a_bad_name_are_errors() {
    assert_eq!(connect("rediss").unwrap_err().kind(), ErrorKind::Invalid);
    let panics = Locks::new(async { panic!("the connecting future panics") });
    assert_eq!(panics.unwrap_err().kind(), ErrorKind::Unavailable);
    let locks = connect("memory:").unwrap();
    assert_eq!(locks.acquire("").unwrap_err().kind(), ErrorKind::Invalid);
}

/// The child process of the next test.
fn main_of_a_program(url: &str) {
    let locks = connect(url).unwrap();
    locks.acquire("job").unwrap().release().unwrap();
}

#[test]
fn program_that_ends_after_its_release_leaves_nothing_held() {
    if let Ok(url) = std::env::var(STORE) {
        return main_of_a_program(&url);
    }
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/locks.db", directory.path().display());
    let this = "blocking::program_that_ends_after_its_release_leaves_nothing_held";
    let program =
        Command::new(std::env::current_exe().unwrap()).args(["--exact", this]).env(STORE, &url).output();
    assert!(program.unwrap().status.success());
    let guard = connect(&url).unwrap().try_acquire("job").unwrap();
    assert!(guard.is_some(), "the program has left its lock held");
}
