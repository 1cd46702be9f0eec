//! What people would see: who holds, what holders are told, and whether a client is gone.

use leasehold_schedules::{Clock, Event, LockBackend, LockClient, LockClientBuilder, LockGuard, Observer};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Notify;

use crate::time::Time;

/// Who holds, and the last token: at most one, and each larger than the last.
#[derive(Debug, Default)]
pub(crate) struct Witness(Mutex<(bool, u64)>);

impl Witness {
    pub(crate) fn enters(&self, guard: &LockGuard) {
        let token = guard.token().unwrap().get();
        // Poisoned: somebody has seen what is wrong, and panicked. One finding is enough, and a second panic hides it.
        let Ok(mut seen) = self.0.lock() else { return };
        assert!(!seen.0, "two hold");
        assert!(token > seen.1, "token {token} after {}", seen.1);
        *seen = (true, token);
    }

    pub(crate) fn leaves(&self) {
        if let Ok(mut seen) = self.0.lock() {
            seen.0 = false;
        }
    }
}

/// What the holders of one client were told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    losses: AtomicUsize,
    client_gone: Notify,
}

impl Told {
    /// How many losses were announced, when nothing of the client is left: neither a handle, nor a guard, nor a task that
    /// could announce another. Whatever keeps one alive makes this wait for ever.
    pub(crate) async fn losses_in_all(&self) -> usize {
        self.client_gone.notified().await;
        self.losses.load(SeqCst)
    }
}

/// The observer of a client; it goes with it.
#[derive(Debug)]
struct Ears(Arc<Told>);

impl Observer for Ears {
    fn event(&self, event: &Event<'_>) {
        if matches!(event, Event::Lost { .. }) {
            self.0.losses.fetch_add(1, SeqCst);
        }
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        self.0.client_gone.notify_one();
    }
}

/// A client of this store, to be built, and what it will tell.
pub(crate) fn builder<B: LockBackend>(store: &Arc<B>, time: &Time) -> (LockClientBuilder, Arc<Told>) {
    let told = Arc::new(Told::default());
    let builder = LockClient::builder(Arc::clone(store) as Arc<dyn LockBackend>)
        .with_clock(Arc::new(time.clone()) as Arc<dyn Clock>)
        .with_observer(Arc::new(Ears(Arc::clone(&told))));
    (builder, told)
}
