use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// How long those wait who want more at once than a store is asked at once.
///
/// Who stands in such a line is turned away only if for some time nobody was served: a crowd of one's own before a healthy
/// store is no outage, and who would wait for a lock for ever need not hear that there is one.
///
/// For backends, which keep the line, and say when the store has answered.
///
/// ```
/// # use leasehold_core::Patience;
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (line, patience) = (tokio::sync::Semaphore::new(1), Patience::new(Duration::from_millis(20)));
/// let turn = patience.wait(line.acquire()).await.expect("nobody was in front");
/// assert!(patience.wait(line.acquire()).await.is_none(), "the one in front had no answer");
/// patience.was_served();
/// drop(turn);
/// # }
/// ```
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    served: AtomicU64,
}

impl Patience {
    /// For as long as this after the last who was served.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self { limit, served: AtomicU64::new(0) }
    }

    /// Waits for its turn. `None` if for as long as the limit it did not come, and nobody was served.
    ///
    /// # Cancel safety
    ///
    /// As safe to drop as `turn` is.
    pub async fn wait<T>(&self, turn: impl Future<Output = T>) -> Option<T> {
        let mut turn = pin!(turn);
        loop {
            let served = self.served.load(Ordering::Relaxed);
            match timeout(self.limit, turn.as_mut()).await {
                Ok(turn) => return Some(turn),
                Err(_) if self.served.load(Ordering::Relaxed) != served => {}
                Err(_) => return None,
            }
        }
    }

    /// The store has answered somebody, whatever it said.
    pub fn was_served(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::Semaphore;
    use tokio::time::{Instant, sleep};

    const LIMIT: Duration = Duration::from_secs(2);

    /// So many ask at once, each for nearly as long as others have patience for. How many came to it, and how long it took.
    async fn ask(crowd: usize, are_answered: bool) -> (usize, Duration) {
        let (line, patience, start) = (Semaphore::new(1), Patience::new(LIMIT), Instant::now());
        let shared = Arc::new((line, patience));
        let one = |shared: Arc<(Semaphore, Patience)>| async move {
            let Some(_turn) = shared.1.wait(shared.0.acquire()).await else { return false };
            sleep(LIMIT.mul_f64(0.9)).await;
            if are_answered {
                shared.1.was_served();
            }
            true
        };
        let asked = futures_util::future::join_all((0..crowd).map(|_| one(Arc::clone(&shared)))).await;
        (asked.into_iter().filter(|was_asked| *was_asked).count(), start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_that_is_served_is_waited_for_however_long_it_takes() {
        let (were_asked, took) = ask(10, true).await;
        assert_eq!(were_asked, 10);
        assert!(took > LIMIT * 8);
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_is_answered_the_crowd_gives_up() {
        let (were_asked, took) = ask(10, false).await;
        assert_eq!(were_asked, 2, "those whose turn came within their patience");
        assert!(took < LIMIT * 4);
    }
}
