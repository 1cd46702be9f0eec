use super::reporter::Reporter;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Says that a run lives, while nothing comes of it.
pub(super) struct Heartbeat<'a> {
    reporter: &'a Reporter,
    next: Interval,
}

impl<'a> Heartbeat<'a> {
    const EVERY: Duration = Duration::from_secs(30);

    pub(super) fn of(reporter: &'a Reporter) -> Self {
        let mut next = interval(Self::EVERY);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        next.reset();
        Self { reporter, next }
    }

    /// Waits for this.
    pub(super) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = self.next.tick() => self.reporter.heartbeat(),
            }
        }
    }
}
