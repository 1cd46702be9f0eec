use crate::{Error, ErrorKind, Wait};
use std::fmt;
use std::future::Future;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

/// One wait over several steps: each step gets what the steps before it have left. By the clock of the runtime, which stands still
/// while the host is suspended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    wait: Wait,
    began: Instant,
}

impl Deadline {
    pub(super) fn start(wait: Wait) -> Self {
        Self { wait, began: Instant::now() }
    }

    /// The wait of the next step; `None` if the time is over, and never for one attempt or an endless wait.
    pub(super) fn remaining(&self) -> Option<Wait> {
        match self.wait {
            Wait::UpTo(time) => {
                time.checked_sub(self.began.elapsed()).filter(|left| !left.is_zero()).map(Wait::UpTo)
            }
            Wait::No | Wait::Forever => Some(self.wait),
        }
    }

    /// The error at the deadline, with what has not come about by then.
    pub(super) fn timed_out(&self, what: fmt::Arguments<'_>) -> Error {
        Error::new(ErrorKind::TimedOut, format!("{what} within {:?}", self.wait.time()))
            .with_help("wait longer, or look at who holds it")
    }

    /// Runs a step, and drops it at the deadline; `None` if it has not ended by then. After the deadline it is still polled once.
    pub(super) async fn run<F: Future>(&self, step: F) -> Option<F::Output> {
        match self.wait {
            // Without a runtime there is no timer; a step that needs one fails by itself.
            Wait::UpTo(time) if Handle::try_current().is_ok() => {
                timeout(time.saturating_sub(self.began.elapsed()), step).await.ok()
            }
            _ => Some(step.await),
        }
    }
}
