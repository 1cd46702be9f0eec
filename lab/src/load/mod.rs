//! The load of every measurement: tasks that take a lock, hold it and give it back, over and over.
//!
//! The workers of `bench` run it, and so does the driver that is measured beside other libraries. A task is kept small, because
//! the memory of a waiter is measured with it.

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "the driver makes these values, and is built together with this crate"
)]

pub(crate) mod usage;

pub use usage::{Window, cpu_seconds, now, resident_bytes, seconds, sleep_until};

use crate::yardstick::Yardstick;
use leasehold::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, LockGuard, LockMode, LockName,
    Result, Semaphore, Wait,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// A third of it is longer than any window: no hold is renewed.
const TTL: Duration = Duration::from_secs(300);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(2);
/// One task in `WARM_UP_HOLD_ONE_IN` holds for `WARM_UP_HOLD` in the warm-up, where that is asked for.
const WARM_UP_HOLD: Duration = Duration::from_millis(1);
const WARM_UP_HOLD_ONE_IN: u64 = 8;
/// How many names [`acquire_all`] acquires at a time.
const AT_ONCE: usize = 64;

/// What a task takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadKind {
    /// A lock of one owner.
    Exclusive,
    /// A shared lock.
    Read,
    /// The first task of a process writes, the others read.
    Mixed,
    /// A permit of a semaphore that has so many.
    Permits(u32),
    /// Two requests by hand, without a lock library.
    ByHand,
}

/// As it is given to the driver: `permits:4`.
impl fmt::Display for LoadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Read => f.write_str("read"),
            Self::Mixed => f.write_str("mixed"),
            Self::Permits(permits) => write!(f, "permits:{permits}"),
            Self::ByHand => f.write_str("by-hand"),
        }
    }
}

/// What the tasks of one process do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// What they take.
    pub kind: LoadKind,
    /// The names of the tasks: each has one of its own, or all want the only one.
    pub names: Vec<String>,
    /// How many tasks there are.
    pub tasks: usize,
    /// The number of the first task.
    pub first: u64,
    /// How long a hold lasts.
    pub hold: Duration,
    /// True if some tasks hold for a millisecond in the warm-up: two holders at once that have nothing to do would hardly be seen.
    pub holds_in_warm_up: bool,
    /// True if a lock is given back by dropping its guard, and no answer is waited for.
    pub drops: bool,
    /// The time within which all tasks are started.
    pub ramp: Duration,
    /// How long tasks have to end after the window; `None` if they end by themselves.
    pub grace: Option<Duration>,
    /// When it is measured.
    pub window: Window,
}

/// One hold. Moments are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The number of its task.
    pub task: u64,
    /// The acquisition begins.
    pub asked: u64,
    /// It has returned.
    pub acquired: u64,
    /// The release begins.
    pub ends: u64,
    /// It has returned.
    pub released: u64,
    /// The fencing token; 0 without a lock library.
    pub token: u64,
    /// The slot of a permit.
    pub slot: u64,
}

/// What a load has shown.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Every hold that has ended, those of the warm-up too.
    pub turns: Vec<Turn>,
    /// Acquisitions and releases that have failed.
    pub errors: u64,
    /// The first failure.
    pub first_error: Option<Error>,
    /// Seconds on a processor within the window.
    pub cpu: f64,
    /// Memory of this process at the end of the window.
    pub resident_bytes: Option<u64>,
}

/// Shared by all tasks. They are all on one thread, so its mutex is always free.
struct Shared {
    load: Load,
    locks: Arc<dyn DistributedLock>,
    by_hand: Option<Arc<dyn Yardstick>>,
    semaphore: Option<Semaphore>,
    options: AcquireOptions,
    /// The options of a task that writes beside readers.
    write_options: AcquireOptions,
    seen: Mutex<Outcome>,
}

struct Task {
    shared: Arc<Shared>,
    name: LockName,
    number: u64,
}

/// Dropped, it ends the tasks. A `JoinSet` would keep something for each task, and the memory of a waiter is measured.
struct Running(Vec<JoinHandle<()>>);

/// Runs a load until its window is over.
///
/// # Errors
///
/// A name or a number of permits that is none. What fails within the load is in the outcome.
pub async fn run(load: Load, locks: &Arc<dyn DistributedLock>) -> Result<Outcome> {
    run_beside(load, locks, None).await
}

/// The same, also by hand.
pub(crate) async fn run_beside(
    load: Load,
    locks: &Arc<dyn DistributedLock>,
    by_hand: Option<Arc<dyn Yardstick>>,
) -> Result<Outcome> {
    let (mode, beside) = match load.kind {
        LoadKind::Read => (LockMode::Shared, LockMode::Shared),
        LoadKind::Mixed => (LockMode::Shared, LockMode::Write),
        _ => (LockMode::Exclusive, LockMode::Exclusive),
    };
    let names: Vec<LockName> = load.names.iter().map(LockName::new).collect::<Result<_>>()?;
    let semaphore = match (load.kind, names.first()) {
        (LoadKind::Permits(permits), Some(name)) => Some(locks.semaphore(name, permits)?),
        _ => None,
    };
    let (options, seen) = (options(), Mutex::default());
    let write_options = options.clone().with_mode(beside);
    let (locks, options) = (Arc::clone(locks), options.with_mode(mode));
    let shared = Arc::new(Shared { load, locks, by_hand, semaphore, options, write_options, seen });
    let Load { window, tasks, first, ramp, grace, .. } = shared.load;
    let used = tokio::task::spawn_blocking(move || used_within(window));
    let (mut running, began) = (Running(Vec::with_capacity(tasks)), now());
    for (task, name) in (0..tasks).zip(names.iter().cycle()) {
        let task_loop = Task { shared: Arc::clone(&shared), name: name.clone(), number: first + task as u64 };
        // A task begins and ends at a multiple of 128 bytes: boxed, it is one of them, else two.
        running.0.push(tokio::spawn(Box::pin(task_loop.run())));
        if !ramp.is_zero() {
            let share = ramp.mul_f64((task + 1) as f64 / tasks as f64);
            sleep_until(began + nanos(share)).await;
        }
    }
    let (cpu, resident_bytes) = used.await.map_err(ended_early)?;
    match grace {
        Some(grace) => _ = timeout(grace, running.wait()).await,
        None => running.wait().await,
    }
    // All at once: a task that still waits would get the lock with the next release.
    running.0.iter().for_each(JoinHandle::abort);
    running.wait().await;
    let seen = std::mem::take(&mut *lock(&shared.seen));
    Ok(Outcome { cpu, resident_bytes, ..seen })
}

/// Holds all these names.
///
/// # Errors
///
/// The first that was met. What was acquired is released then.
pub async fn acquire_all(
    locks: &Arc<dyn DistributedLock>,
    names: impl Iterator<Item = Result<LockName>>,
    options: &AcquireOptions,
) -> Result<Vec<LockGuard>> {
    let (mut guards, mut running) = (Vec::with_capacity(names.size_hint().0), JoinSet::new());
    for name in names {
        let (locks, name, options) = (Arc::clone(locks), name?, options.clone());
        running.spawn(async move { locks.acquire_with(&name, &options).await });
        if running.len() >= AT_ONCE
            && let Some(guard) = running.join_next().await
        {
            guards.push(guard.map_err(ended_early)??);
        }
    }
    while let Some(guard) = running.join_next().await {
        guards.push(guard.map_err(ended_early)??);
    }
    Ok(guards)
}

/// The options of every load: a lease that outlasts it, and an endless wait.
pub fn options() -> AcquireOptions {
    AcquireOptions::new().with_ttl(TTL).with_wait(Wait::Forever)
}

impl Running {
    async fn wait(&mut self) {
        for task in self.0.iter_mut().filter(|task| !task.is_finished()) {
            let _ = task.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Task {
    #[expect(
        clippy::manual_async_fn,
        reason = "an async method keeps two of everything that it is called with"
    )]
    fn run(self) -> impl Future<Output = ()> + Send {
        async move {
            loop {
                let asked = now();
                if asked >= self.shared.load.window.until {
                    return;
                }
                let turn = self.turn(asked).await;
                if self.record(turn).is_err() {
                    Box::pin(sleep(PAUSE_AFTER_FAILURE)).await;
                }
            }
        }
    }

    /// A function of its own: in the loop its values would take room in the task as long as a turn lasts.
    fn record(&self, turn: Result<Turn>) -> Result<(), ()> {
        let mut seen = lock(&self.shared.seen);
        let turn = turn.map_err(|error| {
            seen.errors += 1;
            seen.first_error.get_or_insert(error);
        })?;
        seen.turns.push(turn);
        Ok(())
    }

    #[expect(clippy::manual_async_fn, reason = "as above")]
    fn turn(&self, asked: u64) -> impl Future<Output = Result<Turn>> + Send {
        async move {
            let shared = &*self.shared;
            if shared.load.kind == LoadKind::ByHand {
                return Box::pin(self.by_hand(asked)).await;
            }
            let guard = match &shared.semaphore {
                Some(semaphore) => Box::pin(semaphore.acquire_with(&shared.options)).await?,
                None => shared.locks.acquire_with(&self.name, self.options()).await?,
            };
            Box::pin(self.held(asked, guard)).await
        }
    }

    fn options(&self) -> &AcquireOptions {
        let writes = self.number == self.shared.load.first;
        if writes { &self.shared.write_options } else { &self.shared.options }
    }

    /// Boxed: a waiting task has no room for it.
    async fn held(&self, asked: u64, guard: LockGuard) -> Result<Turn> {
        let (acquired, load) = (now(), &self.shared.load);
        let (token, slot) = (guard.token()?.get(), guard.slot().unwrap_or_default().into());
        if !load.hold.is_zero() {
            sleep(load.hold).await;
        } else if load.holds_in_warm_up
            && acquired < load.window.from
            && self.number.is_multiple_of(WARM_UP_HOLD_ONE_IN)
        {
            sleep(WARM_UP_HOLD).await;
        }
        let ends = now();
        if load.drops {
            drop(guard);
            // The release has a task of its own: on this one thread, it is to begin before the next acquisition.
            tokio::task::yield_now().await;
        } else {
            guard.release().await?;
        }
        Ok(Turn { task: self.number, asked, acquired, ends, released: now(), token, slot })
    }

    async fn by_hand(&self, asked: u64) -> Result<Turn> {
        let unmeasured = || Error::new(ErrorKind::Unsupported, "this store has no such measure");
        self.shared.by_hand.as_ref().ok_or_else(unmeasured)?.pair(&self.name).await?;
        let end = now();
        Ok(Turn { task: self.number, asked, acquired: end, ends: end, released: end, ..Turn::default() })
    }
}

fn ended_early(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Closed, "a task of the load ended early").with_source(error)
}

/// Time on a processor within the window, and memory at its end. On a thread of its own: tasks that never wait, as those on a
/// store in memory, would let no timer of theirs end before they do.
fn used_within(window: Window) -> (f64, Option<u64>) {
    let sleep = |until: u64| std::thread::sleep(Duration::from_nanos(until.saturating_sub(now())));
    sleep(window.from);
    let before = cpu_seconds();
    sleep(window.until);
    (cpu_seconds() - before, resident_bytes())
}

fn lock(seen: &Mutex<Outcome>) -> MutexGuard<'_, Outcome> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
