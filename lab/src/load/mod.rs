//! The load of all measurements except that of held names: tasks that take a lock, hold it and give it back, over and over.
//!
//! The workers of `bench` run it, and so does the driver that is measured beside other libraries.

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "the driver makes these values, and is built together with this crate"
)]

pub(crate) mod usage;

pub use usage::{Window, cpu_seconds, now, resident_bytes, seconds, sleep_until};

use leasehold::semantics::{Semantics, Sharing};
use leasehold::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, LockGuard, LockMode, LockName,
    Result, Semaphore, Wait,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// A third of it is longer than any window: no hold is renewed, unless its grant wants that soon (ZooKeeper).
const TTL: Duration = Duration::from_secs(300);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(2);
/// One task in `WARM_UP_HOLD_ONE_IN` holds for `WARM_UP_HOLD` in the warm-up, where that is asked for.
const WARM_UP_HOLD: Duration = Duration::from_millis(1);
const WARM_UP_HOLD_ONE_IN: u64 = 8;
/// How many names are acquired, or released, at a time.
pub(crate) const AT_ONCE: usize = 64;

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
}

impl LoadKind {
    /// Why a store with these semantics serves no such load.
    pub fn refusal(self, semantics: &Semantics) -> Option<String> {
        let shares = matches!(self, Self::Read | Self::Mixed);
        let (backend, mode) = (semantics.backend, semantics.mode);
        (shares && semantics.sharing == Sharing::Unsupported)
            .then(|| format!("{backend} ({mode}) refuses shared locks"))
    }
}

/// As it is given to the driver: `permits:4`.
impl fmt::Display for LoadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Read => f.write_str("read"),
            Self::Mixed => f.write_str("mixed"),
            Self::Permits(permits) => write!(f, "permits:{permits}"),
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
    /// True if some tasks hold for a millisecond in the warm-up, so that two holders at once would be seen: empty holds hardly overlap.
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
    /// The acquisition has returned.
    pub acquired: u64,
    /// The release begins.
    pub ends: u64,
    /// The release has returned; if the guard was dropped, it has begun.
    pub released: u64,
    /// The fencing token.
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
    semaphore: Option<Semaphore>,
    options: AcquireOptions,
    /// The options of the first task, which writes if the others read.
    first_options: AcquireOptions,
    seen: Mutex<Outcome>,
}

struct Task {
    shared: Arc<Shared>,
    name: LockName,
    number: u64,
}

/// Runs a load until its window is over.
///
/// # Errors
///
/// If a name, or the number of permits, is invalid. What fails within the load is in the outcome.
pub async fn run(load: Load, locks: &Arc<dyn DistributedLock>) -> Result<Outcome> {
    let (mode, of_first) = match load.kind {
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
    let first_options = options.clone().with_mode(of_first);
    let (locks, options) = (Arc::clone(locks), options.with_mode(mode));
    let shared = Arc::new(Shared { load, locks, semaphore, options, first_options, seen });
    let Load { window, tasks, first, ramp, grace, .. } = shared.load;
    let used = tokio::task::spawn_blocking(move || used_within(window));
    let (mut running, began) = (JoinSet::new(), now());
    for (task, name) in (0..tasks).zip(names.iter().cycle()) {
        let task_loop = Task { shared: Arc::clone(&shared), name: name.clone(), number: first + task as u64 };
        running.spawn(task_loop.run());
        if !ramp.is_zero() {
            let share = ramp.mul_f64((task + 1) as f64 / tasks as f64);
            sleep_until(began + nanos(share)).await;
        }
    }
    let (cpu, resident_bytes) = used.await.map_err(ended_early)?;
    let all_end = async { while running.join_next().await.is_some() {} };
    match grace {
        Some(grace) => _ = timeout(grace, all_end).await,
        None => all_end.await,
    }
    // All at once: a task that still waits would get the lock with the next release.
    running.shutdown().await;
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

/// The options of a load: a lease that outlasts it, and an endless wait.
pub fn options() -> AcquireOptions {
    AcquireOptions::new().with_ttl(TTL).with_wait(Wait::Forever)
}

impl Task {
    async fn run(self) {
        loop {
            let asked = now();
            if asked >= self.shared.load.window.until {
                return;
            }
            let turn = self.turn(asked).await;
            let has_failed = turn.is_err();
            lock(&self.shared.seen).record(turn);
            if has_failed {
                sleep(PAUSE_AFTER_FAILURE).await;
            }
        }
    }

    async fn turn(&self, asked: u64) -> Result<Turn> {
        let shared = &*self.shared;
        let guard = match &shared.semaphore {
            Some(semaphore) => Box::pin(semaphore.acquire_with(&shared.options)).await?,
            None => shared.locks.acquire_with(&self.name, self.options()).await?,
        };
        // Boxed: a waiting task has no room for it, and its memory is measured.
        Box::pin(self.held(asked, guard)).await
    }

    fn options(&self) -> &AcquireOptions {
        let is_first = self.number == self.shared.load.first;
        if is_first { &self.shared.first_options } else { &self.shared.options }
    }

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
}

impl Outcome {
    fn record(&mut self, turn: Result<Turn>) {
        match turn {
            Ok(turn) => self.turns.push(turn),
            Err(error) => {
                self.errors += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }
}

fn ended_early(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Closed, "a task of the load ended early").with_source(error)
}

/// Time on a processor within the window, and memory at its end. On a thread of its own: tasks that never wait, as those on a
/// store in memory, would delay a timer of the runtime until they end.
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
