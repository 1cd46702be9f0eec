use crate::{Error, ErrorKind, Result};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The timeout of callers that are queued behind a limit on requests at once. It fires only if no request was answered
/// meanwhile: a long queue before a healthy store is no outage. For backends.
#[derive(Debug)]
pub struct StallTimeout {
    limit: Duration,
    answers: AtomicU64,
}

impl StallTimeout {
    /// A timeout that fires this long after the last answer.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self { limit, answers: AtomicU64::new(0) }
    }

    /// Waits for a permit. `None` if none came, and no request was answered, for all of the limit. As safe to drop as
    /// `permit` is.
    pub async fn wait<T>(&self, permit: impl Future<Output = T>) -> Option<T> {
        let mut permit = pin!(permit);
        loop {
            let answers = self.answers.load(Ordering::Relaxed);
            match timeout(self.limit, permit.as_mut()).await {
                Ok(permit) => return Some(permit),
                Err(_) if self.answers.load(Ordering::Relaxed) != answers => {}
                Err(_) => return None,
            }
        }
    }

    /// Makes an attempt once there is a permit, and counts its answer. [`Unavailable`](ErrorKind::Unavailable) if none came, as of
    /// [`wait`](Self::wait).
    pub async fn limited<T>(
        &self,
        permits: &Semaphore,
        attempt: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(Ok(_permit)) = self.wait(permits.acquire()).await else {
            let limit = self.limit;
            let message = format!("the other attempts of this process have had no answer for {limit:?}");
            let help = "look at how slow the store is, or wait longer: timeout";
            return Err(Error::new(ErrorKind::Unavailable, message).with_help(help));
        };
        let answer = attempt.await;
        if !answer.as_ref().is_err_and(Error::is_outage) {
            self.answered();
        }
        answer
    }

    /// The store has answered a request, with success or failure.
    pub fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::time::{Instant, sleep};

    const LIMIT: Duration = Duration::from_secs(2);

    /// Sends ten requests at once, each of which takes nearly the limit. Returns the number of permits, and the time taken.
    async fn send_ten(are_answered: bool) -> (usize, Duration) {
        let start = Instant::now();
        let shared = Arc::new((Semaphore::new(1), StallTimeout::new(LIMIT)));
        let request = |shared: Arc<(Semaphore, StallTimeout)>| async move {
            let mut is_sent = false;
            let attempt = async {
                is_sent = true;
                sleep(LIMIT.mul_f64(0.9)).await;
                if are_answered { Ok(()) } else { Err(Error::new(ErrorKind::Unavailable, "it is away")) }
            };
            let answer = shared.1.limited(&shared.0, attempt).await;
            assert_eq!(answer.is_ok(), are_answered);
            is_sent
        };
        let sent = futures_util::future::join_all((0..10).map(|_| request(Arc::clone(&shared)))).await;
        (sent.into_iter().filter(|got_permit| *got_permit).count(), start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn long_queue_does_not_time_out_while_requests_are_answered() {
        let (sent, took) = send_ten(true).await;
        assert_eq!(sent, 10);
        assert!(took > LIMIT * 8);
    }

    #[tokio::test(start_paused = true)]
    async fn queue_times_out_if_no_request_is_answered() {
        let (sent, took) = send_ten(false).await;
        assert_eq!(sent, 2, "the requests whose permit came within the limit");
        assert!(took < LIMIT * 4);
    }
}
