//! Signals that this process sends to itself: in a program of their own, because a signal, and the runtime that reads it, belong to
//! the whole process.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use leasehold_console::signals::Signals;
use nix::sys::signal::{Signal as Number, raise};
use rustix::process::Signal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One runtime at a time: each one that listens reads the signals of all.
fn alone(test: impl Future<Output = ()>) {
    static RUNTIME: Mutex<()> = Mutex::new(());
    let _alone = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// As `kill -TSTP` and `kill -CONT` of a script, before this process came to look at the first.
#[test]
fn process_suspended_and_continued_at_once_goes_on() {
    alone(async {
        let mut signals = Signals::listen().unwrap();
        raise(Number::SIGTSTP).unwrap();
        raise(Number::SIGCONT).unwrap();
        assert_eq!(signals.next().await, Signal::CONT);
        raise(Number::SIGWINCH).unwrap();
        assert_eq!(signals.next().await, Signal::WINCH);
        let later = tokio::time::timeout(Duration::from_millis(20), signals.next()).await;
        assert!(later.is_err(), "{later:?}");
    });
}

#[test]
fn process_continued_and_suspended_at_once_is_suspended() {
    alone(async {
        let mut signals = Signals::listen().unwrap();
        raise(Number::SIGCONT).unwrap();
        raise(Number::SIGTSTP).unwrap();
        assert_eq!(signals.next().await, Signal::CONT);
        assert_eq!(signals.next().await, Signal::TSTP);
    });
}

#[test]
fn signal_that_ended_a_wait_is_remembered() {
    alone(async {
        let mut signals = Signals::listen().unwrap();
        assert_eq!(signals.unless_ended(async {}).await, Ok(()));
        assert_eq!(signals.ended_by(), None);
        raise(Number::SIGTERM).unwrap();
        assert_eq!(signals.unless_ended(std::future::pending::<()>()).await, Err(Signal::TERM));
        assert_eq!(signals.ended_by(), Some(Signal::TERM));
    });
}
