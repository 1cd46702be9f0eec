use leasehold_core::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// A limit for one call after another.
///
/// It has one timer, which is pushed ahead each time: a new one for each call would wake the thread that keeps the
/// runtime's timers, which is six percent of what a lock in memory costs.
#[derive(Debug)]
pub(super) struct TimeLimit {
    time: Duration,
    too_late: ErrorKind,
    timer: Option<Pin<Box<Sleep>>>,
}

impl TimeLimit {
    /// A limit of this time, and what is known when it is over.
    pub(super) fn new(time: Duration, too_late: ErrorKind) -> Self {
        Self { time, too_late, timer: None }
    }

    pub(super) async fn on<T>(&mut self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let end = Instant::now() + self.time;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        timer.as_mut().reset(end);
        tokio::select! {
            biased;
            answer = call => answer,
            () = timer.as_mut() => Err(no_answer(self.too_late, self.time)),
        }
    }
}

fn no_answer(kind: ErrorKind, time: Duration) -> Error {
    Error::new(kind, format!("the database did not answer within {time:?}"))
        .with_help("look at the disk under it; a frozen or failing one stops every write")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_call_has_the_whole_time() {
        let mut limit = TimeLimit::new(Duration::from_secs(10), ErrorKind::Indeterminate);
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            Ok(())
        };
        for _ in 0..3 {
            assert!(limit.on(slow()).await.is_ok());
        }
        for _ in 0..3 {
            let start = Instant::now();
            let error = limit.on(std::future::pending::<Result<()>>()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Indeterminate);
            assert_eq!(error.to_string(), "the database did not answer within 10s");
            assert_eq!(start.elapsed(), Duration::from_secs(10));
        }
        assert!(limit.on(slow()).await.is_ok());
    }
}
