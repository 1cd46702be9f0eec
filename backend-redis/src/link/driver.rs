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
mod tests;
