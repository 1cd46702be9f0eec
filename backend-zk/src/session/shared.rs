//! A question that many ask at the same time, asked once for all of them.
//!
//! An answer counts for those who had come before it was asked for, and for nobody else: whoever is answered believes that
//! something was true after it had come.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// One question.
#[derive(Debug)]
pub(super) struct Shared<T> {
    /// How often it has been asked.
    asked: AtomicU64,
    /// Held while it is being asked. What came of it last, and the how manieth time that was.
    last: Mutex<Option<(u64, T)>>,
}

impl<T: Clone> Shared<T> {
    pub(super) fn new() -> Self {
        Self { asked: AtomicU64::new(0), last: Mutex::new(None) }
    }

    /// An answer to the question, which is polled first after this call. Who comes while it is under way waits for the next
    /// one, and after so long asks for itself: a slow answer to others is not to use up its deadline.
    ///
    /// Safe to drop: then the next one in line asks.
    pub(super) async fn ask(&self, patience: Duration, question: impl Future<Output = T>) -> T {
        // A write, so that it is not older than what another thread has asked.
        let before = self.asked.fetch_add(0, Ordering::AcqRel);
        let Ok(mut last) = timeout(patience, self.last.lock()).await else {
            return question.await;
        };
        if let Some((number, answer)) = &*last
            && *number > before
        {
            return answer.clone();
        }
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let answer = question.await;
        *last = Some((number, answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;
    use std::sync::atomic::AtomicU32;
    use tokio::sync::Notify;
    use tokio::time::Instant;

    const PATIENCE: Duration = Duration::from_millis(500);

    /// Answers how often it has been asked, when it is told to.
    #[derive(Default)]
    struct Store {
        asked: AtomicU32,
        answers: Notify,
    }

    impl Store {
        async fn asked(&self) -> u32 {
            let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            self.answers.notified().await;
            number
        }
    }

    /// A session may have ended between the two.
    #[tokio::test(start_paused = true)]
    async fn what_was_asked_before_somebody_came_is_no_answer_to_it() {
        let (shared, store) = (Shared::new(), Store::default());
        let (mut first, mut second, mut third) = (
            pin!(shared.ask(PATIENCE, store.asked())),
            pin!(shared.ask(PATIENCE, store.asked())),
            pin!(shared.ask(PATIENCE, store.asked())),
        );
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        store.answers.notify_one();
        assert_eq!(first.await, 1);
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        store.answers.notify_one();
        assert_eq!((second.await, third.await), (2, 2), "both had come before it was asked");
        store.answers.notify_one();
        assert_eq!(shared.ask(PATIENCE, store.asked()).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_and_is_dropped_leaves_the_question_to_the_next() {
        let (shared, store) = (Shared::new(), Store::default());
        let mut next = pin!(shared.ask(PATIENCE, store.asked()));
        {
            let mut dropped = pin!(shared.ask(PATIENCE, store.asked()));
            assert!(dropped.as_mut().now_or_never().is_none());
            assert!(next.as_mut().now_or_never().is_none());
        }
        store.answers.notify_one();
        assert_eq!(next.await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_kept_waiting_by_a_slow_answer_asks_for_itself() {
        let (shared, store) = (Shared::new(), Store::default());
        let mut slow = pin!(shared.ask(PATIENCE, store.asked()));
        assert!(slow.as_mut().now_or_never().is_none());
        let start = Instant::now();
        let mut other = pin!(shared.ask(PATIENCE, async { 7 }));
        assert_eq!(other.as_mut().await, 7);
        assert!((PATIENCE..PATIENCE * 2).contains(&start.elapsed()));
    }
}
