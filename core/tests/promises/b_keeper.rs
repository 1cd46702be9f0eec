//! Breaker: the keeper when its runtime ends.

use leasehold_core::memory::MemoryBackend;
use leasehold_core::{AcquireOptions, DistributedLockExt, LockClient, LockGuard};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn options(millis: u64) -> AcquireOptions {
    AcquireOptions::new().with_ttl(Duration::from_millis(millis))
}

fn is_renewed(guard: &LockGuard) -> bool {
    let mut last = guard.remaining();
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
        let now = guard.remaining();
        if now > last {
            return true;
        }
        if !guard.is_held() {
            return false;
        }
        last = now;
    }
    false
}

/// The work of a thread panics, and its runtime ends with it. The lock of another thread is of the same client.
#[test]
fn renewals_go_on_after_a_panic_of_the_user_has_ended_the_runtime_of_the_keeper() {
    let client = LockClient::new(Arc::new(MemoryBackend::new()));
    let (sender, guards) = mpsc::channel();
    let work = client.clone();
    thread::spawn(move || {
        runtime().block_on(async move {
            sender.send(work.acquire_with("first", &options(3000)).await.unwrap()).unwrap();
            panic!("panic in the work, not in the keeper");
        })
    })
    .join()
    .unwrap_err();
    let guard = guards.recv().unwrap();
    assert!(is_renewed(&guard), "{:?}", guard.loss());
}
