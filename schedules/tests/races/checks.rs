//! The checks of a race: mutual exclusion, the number of losses, and the end of the client.

use crate::manual_clock::ManualClock;
use leasehold_schedules::{Clock, Event, LockBackend, LockClient, LockClientBuilder, LockGuard, Observer};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Fails if two guards of one name are held at once, or if a token is not larger than the last.
#[derive(Debug, Default)]
pub(crate) struct ExclusionCheck(Mutex<Holds>);

#[derive(Debug, Default)]
struct Holds {
    is_held: bool,
    last_token: u64,
}

impl ExclusionCheck {
    pub(crate) fn enter(&self, guard: &LockGuard) {
        let token = guard.token().unwrap().get();
        // Poisoned: this check has failed in another task. A second panic would hide the message of the first.
        let Ok(mut holds) = self.0.lock() else { return };
        assert!(!holds.is_held, "two hold");
        assert!(token > holds.last_token, "token {token} after {}", holds.last_token);
        *holds = Holds { is_held: true, last_token: token };
    }

    pub(crate) fn leave(&self) {
        if let Ok(mut holds) = self.0.lock() {
            holds.is_held = false;
        }
    }
}

/// What an observer of one client saw.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    losses: AtomicUsize,
    client_gone: Notify,
}

impl Observed {
    /// The number of announced losses. Waits until the last handle, guard and task of the client is gone, so that no more
    /// losses can follow: a race in which one of them stays deadlocks.
    pub(crate) async fn total_losses(&self) -> usize {
        self.client_gone.notified().await;
        self.losses.load(SeqCst)
    }
}

/// Counts losses. The client owns it, so its drop is the end of the client.
#[derive(Debug)]
struct LossObserver(Arc<Observed>);

impl Observer for LossObserver {
    fn event(&self, event: &Event<'_>) {
        if matches!(event, Event::Lost { .. }) {
            self.0.losses.fetch_add(1, SeqCst);
        }
    }
}

impl Drop for LossObserver {
    fn drop(&mut self) {
        self.0.client_gone.notify_one();
    }
}

/// A builder of a client of this store, and what its observer will see.
pub(crate) fn builder<B: LockBackend>(
    store: &Arc<B>,
    clock: &ManualClock,
) -> (LockClientBuilder, Arc<Observed>) {
    let observed = Arc::new(Observed::default());
    let builder = LockClient::builder(Arc::clone(store) as Arc<dyn LockBackend>)
        .with_clock(Arc::new(clock.clone()) as Arc<dyn Clock>)
        .with_observer(Arc::new(LossObserver(Arc::clone(&observed))));
    (builder, observed)
}
