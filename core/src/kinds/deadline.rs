use crate::Wait;
use std::future::Future;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

/// One wait over several steps: each step gets what the steps before it have left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    wait: Wait,
    began: Instant,
}

impl Deadline {
    /// Begins now.
    pub(super) fn of(wait: Wait) -> Self {
        Self { wait, began: Instant::now() }
    }

    /// The wait of the next step; `None` if the time is over.
    pub(super) fn left(&self) -> Option<Wait> {
        match self.wait {
            Wait::UpTo(time) => {
                time.checked_sub(self.began.elapsed()).filter(|left| !left.is_zero()).map(Wait::UpTo)
            }
            Wait::No | Wait::Forever => Some(self.wait),
        }
    }

    /// The time of all steps together, for a message.
    pub(super) fn time(&self) -> Duration {
        match self.wait {
            Wait::UpTo(time) => time,
            Wait::No | Wait::Forever => Duration::ZERO,
        }
    }

    /// Runs a step, and drops it at the deadline; `None` if it has not ended by then.
    pub(super) async fn bound<F: Future>(&self, step: F) -> Option<F::Output> {
        match self.left()? {
            // Without a runtime there is no timer, and the step itself fails for the want of it.
            Wait::UpTo(left) if Handle::try_current().is_ok() => timeout(left, step).await.ok(),
            _ => Some(step.await),
        }
    }
}
