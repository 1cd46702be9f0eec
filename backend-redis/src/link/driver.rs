//! When a connection is written to.
//!
//! The client library has a future for each connection that writes requests and reads replies: the driver. In a task of its
//! own it would run after each request, and write it by itself, a system call each, which is most of what a request costs;
//! or after all tasks that are ready, and then all their requests would be written together and answered together, and from
//! then on the server would wait for this process, and this process for the server. So here it is driven:
//!
//! * by whoever has made a request, at once, if with it there is a part of all that are under way to be written. A lone
//!   request waits for nobody. Of sixty-four, the server has sixteen to work at while the others are made;
//! * by its task, when the tasks that were ready have had their turn, for the rest. And when there is something to read.

use futures_util::task::noop_waker;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// A part is one of so many: while the server works at one and this process makes up another, two are on their way.
const PARTS: usize = 4;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The driver of a connection, and what there is for it to do.
pub(super) struct Driver {
    turn: Mutex<Turn>,
    /// Requests that wait for their answers.
    under_way: AtomicUsize,
    /// Those of them that were made since it was driven.
    unwritten: AtomicUsize,
    /// True while its task lets others make their requests, and nobody has driven it since.
    lets_others: AtomicBool,
    /// Who waits for this is woken when it is no more: it has ended, its task was aborted, or its runtime was.
    gone: Arc<Notify>,
}

struct Turn {
    /// Until it ends.
    running: Option<Running>,
    /// Wakes its task. Whoever drives it does so in the name of the task, which hears of what comes later.
    task: Waker,
}

/// The task of a driver. The driver ends with it.
pub(super) struct DriverTask(Arc<Driver>);

/// One request; no longer under way when it is dropped.
pub(super) struct UnderWay<'a>(&'a Driver);

impl Driver {
    pub(super) fn new(running: impl Future<Output = ()> + Send + 'static, gone: Arc<Notify>) -> Arc<Self> {
        // Until the task has run, somebody else can only do what it does again.
        let turn = Turn { running: Some(Box::pin(running)), task: noop_waker() };
        Arc::new(Self {
            turn: Mutex::new(turn),
            under_way: AtomicUsize::new(0),
            unwritten: AtomicUsize::new(0),
            lets_others: AtomicBool::new(false),
            gone,
        })
    }

    /// To be run for as long as there is a connection.
    pub(super) fn task(self: &Arc<Self>) -> DriverTask {
        DriverTask(Arc::clone(self))
    }

    /// Counts a request that is made next.
    pub(super) fn enter(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.unwritten.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    fn is_little_to_write(&self) -> bool {
        let unwritten = self.unwritten.load(Ordering::Relaxed);
        unwritten > 0 && unwritten.saturating_mul(PARTS) < self.under_way.load(Ordering::Relaxed)
    }

    /// Drives it, unless somebody else does: then its task was woken for whatever the caller has done.
    fn drive(&self) {
        match self.turn.try_lock() {
            Ok(turn) => drop(self.drive_in(turn)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Poisoned(panicked)) => panicked.into_inner().end_after_panic(),
        }
    }

    /// The same, in the name of this task. Ready when it has ended.
    fn drive_as(&self, task: &Waker) -> Poll<()> {
        match self.turn.lock() {
            Ok(mut turn) => {
                turn.task.clone_from(task);
                self.drive_in(turn)
            }
            Err(panicked) => {
                panicked.into_inner().end_after_panic();
                Poll::Ready(())
            }
        }
    }

    fn drive_in(&self, mut turn: MutexGuard<'_, Turn>) -> Poll<()> {
        self.unwritten.store(0, Ordering::Relaxed);
        self.lets_others.store(false, Ordering::Relaxed);
        let Turn { running, task } = &mut *turn;
        let ended = WakeUnlessForgotten(task);
        let polled = running
            .as_mut()
            .map_or(Poll::Ready(()), |it| it.as_mut().poll(&mut Context::from_waker(ended.0)));
        match polled {
            Poll::Ready(()) => drop(ended),
            Poll::Pending => mem::forget(ended),
        }
        if polled.is_ready() {
            turn.running = None;
        }
        polled
    }

    fn end(&self) {
        let ended = self.turn.lock().unwrap_or_else(PoisonError::into_inner).running.take();
        drop(ended);
        self.gone.notify_waiters();
    }
}

/// Wakes the task of a driver that has ended by somebody else's hand, or panicked in it.
struct WakeUnlessForgotten<'a>(&'a Waker);

impl Drop for WakeUnlessForgotten<'_> {
    fn drop(&mut self) {
        self.0.wake_by_ref();
    }
}

impl Turn {
    /// Nobody drives it after that; its task ends, and the connection with it.
    fn end_after_panic(&mut self) {
        self.running = None;
        self.task.wake_by_ref();
    }
}

impl UnderWay<'_> {
    /// The request is there for the driver to see.
    pub(super) fn is_made(&self) {
        if !self.0.is_little_to_write() {
            self.0.drive();
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Future for DriverTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &self.0;
        if driver.is_little_to_write() && !driver.lets_others.swap(true, Ordering::Relaxed) {
            // A task that wakes itself goes to the end of the queue.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        driver.drive_as(cx.waker())
    }
}

impl Drop for DriverTask {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::pending;
    use tokio::sync::{mpsc, watch};
    use tokio::task::yield_now;

    const SENDERS: usize = 20;
    const TURNS: usize = 100;

    /// A driver that takes what is sent, and tells how many at once.
    fn counting(sizes: mpsc::UnboundedSender<usize>) -> (Arc<Driver>, mpsc::UnboundedSender<()>) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let running = async move {
            let mut batch = Vec::new();
            while receiver.recv_many(&mut batch, SENDERS).await > 0 {
                sizes.send(batch.drain(..).count()).unwrap();
            }
        };
        (Driver::new(running, Arc::default()), sender)
    }

    /// What is sent at once, turn by turn. All senders wait for the turn to begin, send, and wait for the next, like tasks
    /// whose replies come together.
    async fn turns() -> Vec<usize> {
        let (told, mut sizes) = mpsc::unbounded_channel();
        let (driver, sender) = counting(told);
        tokio::spawn(driver.task());
        let turn = watch::Sender::new(0);
        for _ in 0..SENDERS {
            let (driver, sender, mut turn) = (Arc::clone(&driver), sender.clone(), turn.subscribe());
            tokio::spawn(async move {
                let mut under_way = None;
                while turn.changed().await.is_ok() {
                    // The one before was answered: for this there is a turn.
                    drop(under_way.take());
                    let request = under_way.insert(driver.enter());
                    sender.send(()).unwrap();
                    request.is_made();
                }
            });
        }
        yield_now().await;
        let mut seen = Vec::new();
        for number in 1..=TURNS {
            turn.send_replace(number);
            while seen.iter().sum::<usize>() < number * SENDERS {
                seen.push(sizes.recv().await.unwrap());
            }
        }
        seen
    }

    fn are_parts(seen: &[usize]) {
        assert!(
            seen.len() <= TURNS * (PARTS + 1),
            "{} runs for {TURNS} turns: {:?}",
            seen.len(),
            &seen[..20]
        );
        let first = seen.iter().filter(|size| **size == SENDERS).count();
        assert!(first <= TURNS / 10, "{first} turns of {TURNS} were written as one");
    }

    /// One worker: the scheduler that runs what was woken last next, and no other that takes work off it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_made_in_one_turn_is_written_in_parts() {
        are_parts(&tokio::spawn(turns()).await.unwrap());
    }

    /// The scheduler that runs what was woken first next.
    #[tokio::test]
    async fn what_is_made_in_one_turn_is_written_in_parts_by_one_thread_too() {
        are_parts(&turns().await);
    }

    #[tokio::test]
    async fn a_lone_request_is_written_by_who_made_it() {
        let (told, mut sizes) = mpsc::unbounded_channel();
        let (driver, sender) = counting(told);
        let _task = driver.task();
        for _ in 0..3 {
            let under_way = driver.enter();
            sender.send(()).unwrap();
            under_way.is_made();
            assert_eq!(sizes.try_recv(), Ok(1));
        }
    }

    #[tokio::test]
    async fn what_is_little_is_written_when_the_others_have_had_their_turn() {
        let (told, mut sizes) = mpsc::unbounded_channel();
        let (driver, sender) = counting(told);
        tokio::spawn(driver.task());
        let _others: Vec<_> = (0..9).map(|_| driver.enter()).collect();
        driver.unwritten.store(0, Ordering::Relaxed);
        let under_way = driver.enter();
        sender.send(()).unwrap();
        under_way.is_made();
        assert!(sizes.try_recv().is_err());
        assert_eq!(sizes.recv().await, Some(1));
    }

    #[tokio::test]
    async fn who_waits_for_the_end_is_told_whoever_was_driving() {
        let gone = Arc::<Notify>::default();
        let (end, ends) = tokio::sync::oneshot::channel::<()>();
        let driver = Driver::new(async move { drop(ends.await) }, Arc::clone(&gone));
        let task = tokio::spawn(driver.task());
        yield_now().await;
        let told = gone.notified();
        drop(end);
        let under_way = driver.enter();
        under_way.is_made();
        task.await.unwrap();
        told.now_or_never().unwrap();
        // An aborted one is dropped with its task, though others may still know of it.
        let kept = Arc::new(());
        let its = Arc::clone(&kept);
        let driver = Driver::new(async move { drop((pending::<()>().await, its)) }, Arc::clone(&gone));
        let (task, told) = (tokio::spawn(driver.task()), gone.notified());
        yield_now().await;
        task.abort();
        assert!(task.await.is_err());
        told.now_or_never().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
