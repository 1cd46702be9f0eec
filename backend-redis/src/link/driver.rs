use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// The driver of a connection, polled when the others have had their turn.
///
/// A task that sends a request wakes the driver, and the scheduler runs what was woken last next: so each request would
/// be written by itself, a system call each, which is most of what a request costs. Behind the tasks that are ready now,
/// the driver finds all their requests and writes them at once. A lone request waits for nobody.
pub(super) struct Last<F> {
    driver: Pin<Box<F>>,
    let_others: bool,
    /// Dropped after the driver, and never before it.
    _end: End,
}

/// Wakes those who wait, when it is dropped.
struct End(Arc<Notify>);

impl<F> Last<F> {
    /// Who waits for `gone` is woken when the driver is no more: it has ended, was aborted, or its runtime was.
    pub(super) fn new(driver: F, gone: Arc<Notify>) -> Self {
        Self { driver: Box::pin(driver), let_others: true, _end: End(gone) }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

impl<F: Future<Output = ()>> Future for Last<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.let_others, false) {
            // A task that wakes itself goes to the end of the queue.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.let_others = true;
        self.driver.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::{mpsc, watch};
    use tokio::task::yield_now;

    const SENDERS: usize = 20;
    const TURNS: usize = 100;

    /// How often a driver runs, a turn, until it has what all senders have sent in that turn. They all wait for the
    /// turn to begin, send, and wait for the next, like tasks whose replies come together.
    async fn runs_a_turn() -> usize {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let (runs, received) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (run, count) = (Arc::clone(&runs), Arc::clone(&received));
        let driver = async move {
            let mut batch = Vec::new();
            while receiver.recv_many(&mut batch, SENDERS).await > 0 {
                run.fetch_add(1, Ordering::SeqCst);
                count.fetch_add(batch.drain(..).count(), Ordering::SeqCst);
            }
        };
        tokio::spawn(Last::new(driver, Arc::default()));
        let turn = watch::Sender::new(0);
        for _ in 0..SENDERS {
            let (sender, mut turn) = (sender.clone(), turn.subscribe());
            tokio::spawn(async move {
                while turn.changed().await.is_ok() {
                    sender.send(()).unwrap();
                }
            });
        }
        yield_now().await;
        for number in 1..=TURNS {
            turn.send_replace(number);
            while received.load(Ordering::SeqCst) < number * SENDERS {
                yield_now().await;
            }
        }
        runs.load(Ordering::SeqCst).div_ceil(TURNS)
    }

    /// One worker: the scheduler that runs what was woken last next, and no other that takes work off it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_sent_in_one_turn_is_there_when_the_driver_runs() {
        let runs = tokio::spawn(runs_a_turn()).await.unwrap();
        assert!(runs <= 2, "{runs} runs for {SENDERS} messages");
    }
}
