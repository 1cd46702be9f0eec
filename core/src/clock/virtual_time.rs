use super::{Clock, Moment, Sleep};
use tokio::time::Instant;

/// The clock of the runtime: under `tokio::time::pause` it is virtual time, so that a test waits hours in
/// microseconds and every race has one outcome.
///
/// Not for production: it stops while the host is suspended.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    origin: Instant,
}

impl RuntimeClock {
    /// A clock whose origin is now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for RuntimeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Moment {
        Moment::since_origin(self.origin.elapsed())
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        let left = moment.since(self.now());
        Box::pin(async move {
            match Instant::now().checked_add(left) {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        })
    }
}
