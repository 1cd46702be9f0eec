//! A clock that only the test advances.

use leasehold_schedules::{Clock, Moment, Sleep};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::sync::{Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Time stands still until [`advance`](Self::advance). A task that sleeps past it blocks for ever, and the explorer reports a
/// deadlock. The clones are one clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManualClock(Arc<State>);

#[derive(Debug, Default)]
struct State {
    nanos: AtomicU64,
    sleepers: Mutex<Vec<Waker>>,
}

impl ManualClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.nanos.fetch_add(u64::try_from(by.as_nanos()).unwrap(), SeqCst);
        let sleepers = std::mem::take(&mut *self.sleepers());
        sleepers.into_iter().for_each(Waker::wake);
    }

    /// Also after a panic under this lock: a failed race drops futures that sleep.
    fn sleepers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::since_origin(Duration::from_nanos(self.0.nanos.load(SeqCst)))
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        let clock = self.clone();
        Box::pin(std::future::poll_fn(move |cx| {
            // Compared under the lock: an advance between the comparison and the push would miss this waker.
            let mut sleepers = clock.sleepers();
            if clock.now() >= moment {
                return Poll::Ready(());
            }
            sleepers.push(cx.waker().clone());
            Poll::Pending
        }))
    }
}
