//! A clock that is moved by hand.

use leasehold_schedules::{Clock, Moment, Sleep};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::sync::{Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Stands still until it is moved: whoever waits for a time that nobody brings about waits for ever, which the explorer
/// sees. The clones are one clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Time(Arc<Hands>);

#[derive(Debug, Default)]
struct Hands {
    nanos: AtomicU64,
    sleepers: Mutex<Vec<Waker>>,
}

impl Time {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.nanos.fetch_add(u64::try_from(by.as_nanos()).unwrap(), SeqCst);
        let sleepers = std::mem::take(&mut *self.sleepers());
        sleepers.into_iter().for_each(Waker::wake);
    }

    /// Whether or not a race has failed under this lock: what is dropped after that sleeps, too.
    fn sleepers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Time {
    fn now(&self) -> Moment {
        Moment::since_origin(Duration::from_nanos(self.0.nanos.load(SeqCst)))
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        let time = self.clone();
        Box::pin(std::future::poll_fn(move |cx| {
            // Looked at under the lock: who moves the hands between the look and the push finds nobody to wake.
            let mut sleepers = time.sleepers();
            if time.now() >= moment {
                return Poll::Ready(());
            }
            sleepers.push(cx.waker().clone());
            Poll::Pending
        }))
    }
}
