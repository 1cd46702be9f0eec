//! How many attempts of this process are under way at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// A line before the ensemble, first come, first served.
///
/// Who stands in it is turned away only if for some time nobody was answered: a crowd of one's own on a healthy ensemble is
/// no outage, and who would wait for a lock for ever need not hear that there is one.
#[derive(Debug)]
pub(crate) struct Crowd {
    places: Semaphore,
    answered: AtomicU64,
}

/// The right to ask.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    crowd: &'a Crowd,
    _place: SemaphorePermit<'a>,
}

impl Crowd {
    pub(crate) fn new(at_once: usize) -> Self {
        Self { places: Semaphore::new(at_once), answered: AtomicU64::new(0) }
    }

    /// `None` if for so long it was nobody's turn who was then answered.
    pub(crate) async fn enter(&self, patience: Duration) -> Option<Asking<'_>> {
        let mut place = std::pin::pin!(self.places.acquire());
        loop {
            let answered = self.answered.load(Ordering::Relaxed);
            match timeout(patience, place.as_mut()).await {
                Ok(place) => return place.ok().map(|place| Asking { crowd: self, _place: place }),
                Err(_) if self.answered.load(Ordering::Relaxed) != answered => {}
                Err(_) => return None,
            }
        }
    }
}

impl Asking<'_> {
    /// The ensemble has answered, whatever it said.
    pub(crate) fn was_answered(&self) {
        self.crowd.answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::time::{Instant, sleep};

    const PATIENCE: Duration = Duration::from_secs(2);

    /// Asks, for nearly as long as others have patience for.
    async fn ask(crowd: Arc<Crowd>, is_answered: bool) -> bool {
        let Some(asking) = crowd.enter(PATIENCE).await else { return false };
        sleep(PATIENCE.mul_f64(0.9)).await;
        if is_answered {
            asking.was_answered();
        }
        true
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_that_is_served_is_waited_for_however_long_it_takes() {
        let (crowd, start) = (Arc::new(Crowd::new(1)), Instant::now());
        let asked: Vec<_> = (0..10).map(|_| tokio::spawn(ask(Arc::clone(&crowd), true))).collect();
        for asked in asked {
            assert!(asked.await.unwrap());
        }
        assert!(start.elapsed() > PATIENCE * 8);
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_is_answered_the_crowd_gives_up() {
        let (crowd, start) = (Arc::new(Crowd::new(1)), Instant::now());
        let asked: Vec<_> = (0..10).map(|_| tokio::spawn(ask(Arc::clone(&crowd), false))).collect();
        let mut were_asked = 0;
        for asked in asked {
            were_asked += usize::from(asked.await.unwrap());
        }
        assert_eq!(were_asked, 2, "those who came to it within their patience");
        assert!(start.elapsed() < PATIENCE * 4);
    }
}
