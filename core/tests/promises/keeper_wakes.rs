//! When the keeper is awake: not for locks that are over before anything of them is due.

use crate::scripted::{Scripted, TTL, settle};
use leasehold_core::{Clock, DistributedLockExt, Moment, RuntimeClock, Sleep};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::time::sleep;

/// Counts who begins to sleep.
#[derive(Debug, Default)]
struct CountsSleeps {
    clock: RuntimeClock,
    sleeps: AtomicUsize,
}

impl Clock for CountsSleeps {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        self.sleeps.fetch_add(1, SeqCst);
        self.clock.sleep_until(moment)
    }
}

#[tokio::test(start_paused = true)]
async fn locks_that_are_given_back_at_once_do_not_wake_the_keeper() {
    let (store, clock) = (Scripted::new(), Arc::new(CountsSleeps::default()));
    let client = store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default());
    for _ in 0..100 {
        client.acquire("job").await.unwrap().release().await.unwrap();
        settle().await;
    }
    let sleeps = clock.sleeps.load(SeqCst);
    assert!(sleeps <= 5, "the keeper was awake {sleeps} times");
    // Then it sleeps for good.
    sleep(TTL).await;
    let sleeps = clock.sleeps.load(SeqCst);
    sleep(TTL * 5).await;
    assert_eq!(clock.sleeps.load(SeqCst), sleeps);
}
