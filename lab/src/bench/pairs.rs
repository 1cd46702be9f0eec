//! Acquire and release, each task on a name of its own.

use super::job::{HistogramCounts, LockMethod, MonotonicTime, PairsResult, Window, histogram};
use crate::yardstick::Yardstick;
use hdrhistogram::Histogram;
use leasehold::client::LockClient;
use leasehold::{AcquireOptions, DistributedLockExt, Error, ErrorKind, LockName, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const WITHOUT_RAW: &str = "leave --raw out";

/// A task's way to a name of its own.
pub(super) struct PairTask {
    pub(super) locks: LockClient,
    pub(super) raw: Option<Arc<dyn Yardstick>>,
    pub(super) way: LockMethod,
    pub(super) name: LockName,
}

impl PairTask {
    /// Answers when it was acquired: between acquisition and release nothing is done.
    async fn pair(&self) -> Result<MonotonicTime> {
        self.timed().await.map_err(|error| match error.kind() {
            ErrorKind::Unsupported => error.with_help(WITHOUT_RAW),
            _ => error,
        })
    }

    async fn timed(&self) -> Result<MonotonicTime> {
        match (self.way, &self.raw) {
            (LockMethod::Raw, Some(raw)) => raw.raw_pair(&self.name).await.map(|()| MonotonicTime::now()),
            (LockMethod::Tokenless, Some(raw)) => {
                raw.tokenless_pair(&self.name).await.map(|()| MonotonicTime::now())
            }
            (LockMethod::Raw | LockMethod::Tokenless, None) => Err(unmeasured()),
            (LockMethod::Leasehold, _) => {
                let guard = self.locks.acquire_with(&self.name, &options()).await?;
                let acquired = MonotonicTime::now();
                guard.release().await.map(|()| acquired)
            }
        }
    }
}

/// Longer than any window: nothing is renewed that is not held on purpose.
pub(super) fn options() -> AcquireOptions {
    AcquireOptions::new().with_ttl(Duration::from_secs(30))
}

/// The error for a raw measure that the store does not have.
pub(super) fn unmeasured() -> Error {
    Error::new(ErrorKind::Unsupported, "this store has no raw measure").with_help(WITHOUT_RAW)
}

/// When a task is to begin its next pair: at once, or at fixed times whatever the store does.
pub(super) struct PairSchedule {
    next: MonotonicTime,
    interval: Option<Duration>,
}

impl PairSchedule {
    /// The schedule of one of several tasks that together begin `pairs_a_second`; their starts are spread evenly.
    pub(super) fn of(pairs_a_second: Option<f64>, task: usize, tasks: usize) -> Self {
        let interval = pairs_a_second.map(|rate| Duration::from_secs_f64(tasks as f64 / rate));
        let next =
            MonotonicTime::now().plus(interval.unwrap_or_default().mul_f64(task as f64 / tasks as f64));
        Self { next, interval }
    }

    /// What would begin later is not waited for: at a slow pace that may be minutes.
    fn is_due_before(&self, end: MonotonicTime) -> bool {
        MonotonicTime::now() < end && (self.interval.is_none() || self.next < end)
    }

    /// When those were to begin that the task has not come to.
    fn missed(&self, end: MonotonicTime) -> impl Iterator<Item = MonotonicTime> {
        let (mut next, interval) = (self.next, self.interval);
        std::iter::from_fn(move || {
            let due = next;
            next = due.plus(interval?);
            (due < end).then_some(due)
        })
    }

    /// Waits until it is time, and says since when the pair's time runs. If the task was still busy when it was time,
    /// since then: a store that stands still is charged with all that had to wait meanwhile, and not with one pair
    /// (coordinated omission). If it was idle, since now: that a timer is late is no fault of the store.
    async fn begin(&mut self) -> MonotonicTime {
        let Some(interval) = self.interval else { return MonotonicTime::now() };
        let due = self.next;
        self.next = due.plus(interval);
        if MonotonicTime::now() >= due {
            return due;
        }
        due.wait().await;
        MonotonicTime::now()
    }
}

/// How long pairs have taken, and their halves.
#[derive(Debug)]
pub(super) struct Timings {
    ended: u64,
    pairs: Histogram<u64>,
    acquires: Histogram<u64>,
    releases: Histogram<u64>,
}

impl Default for Timings {
    fn default() -> Self {
        Self { ended: 0, pairs: histogram(), acquires: histogram(), releases: histogram() }
    }
}

impl Timings {
    pub(super) fn to_pairs(&self, cpu: f64) -> PairsResult {
        PairsResult {
            ended: self.ended,
            latencies: HistogramCounts::of(&self.pairs),
            acquires: HistogramCounts::of(&self.acquires),
            releases: HistogramCounts::of(&self.releases),
            cpu,
        }
    }

    fn record(&mut self, began: MonotonicTime, acquired: MonotonicTime, ended: MonotonicTime) {
        // They grow with what they are given: `saturating_record` would cut off instead.
        let _ = self.pairs.record(ended.nanos_since(began));
        let _ = self.acquires.record(acquired.nanos_since(began));
        let _ = self.releases.record(ended.nanos_since(acquired));
    }
}

/// One for all tasks: a histogram each would be half a gigabyte for a thousand of them, and the worker has one thread.
pub(super) type Shared = Arc<Mutex<Timings>>;

pub(super) async fn run(
    task: PairTask,
    mut schedule: PairSchedule,
    window: Window,
    all: Shared,
) -> Result<()> {
    while schedule.is_due_before(window.until) {
        let began = schedule.begin().await;
        let acquired = task.pair().await?;
        let ended = MonotonicTime::now();
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.ended += u64::from(window.covers(ended));
        // By its beginning: a pair that outlasts its window is one that a user would have waited for.
        if window.covers(began) {
            all.record(began, acquired, ended);
        }
    }
    let (now, mut all) = (MonotonicTime::now(), all.lock().unwrap_or_else(PoisonError::into_inner));
    for due in schedule.missed(window.until).filter(|due| window.covers(*due)) {
        let _ = all.pairs.record(now.nanos_since(due));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::stats::Latency;
    use super::*;
    use leasehold::DistributedLockExt;
    use leasehold::backend::MemoryBackend;
    use tokio::time::timeout;

    /// The store lets nobody in until the window is long over.
    #[tokio::test]
    async fn stall_beyond_the_window_is_among_the_latencies() {
        let locks = LockClient::new(Arc::new(MemoryBackend::new()));
        let stall = Duration::from_millis(60);
        for (pairs_a_second, at_least) in [(None, 1), (Some(200.0), 4)] {
            let (held, all) = (locks.acquire("x").await.unwrap(), Shared::default());
            let name = LockName::new("x").unwrap();
            let pair_task = PairTask { locks: locks.clone(), raw: None, way: LockMethod::Leasehold, name };
            let from = MonotonicTime::now();
            let window = Window { from, until: from.plus(Duration::from_millis(30)) };
            let schedule = PairSchedule::of(pairs_a_second, 0, 1);
            let turns = tokio::spawn(run(pair_task, schedule, window, Arc::clone(&all)));
            tokio::time::sleep(stall).await;
            held.release().await.unwrap();
            turns.await.unwrap().unwrap();
            let all = all.lock().unwrap();
            let told = Latency::of(&all.pairs).unwrap();
            assert_eq!(all.ended, 0, "none has ended within it");
            assert!(told.max >= 30e3 && told.count >= at_least, "{told:?}");
        }
    }

    /// As after a window at full speed in which not one pair has ended: the pace is then that of minutes.
    #[tokio::test]
    async fn pair_due_after_the_window_is_not_awaited() {
        let pair_task = PairTask {
            locks: LockClient::new(Arc::new(MemoryBackend::new())),
            raw: None,
            way: LockMethod::Leasehold,
            name: LockName::new("x").unwrap(),
        };
        let from = MonotonicTime::now();
        let window = Window { from, until: from.plus(Duration::from_millis(10)) };
        let turns = run(pair_task, PairSchedule::of(Some(1.0), 63, 64), window, Shared::default());
        timeout(Duration::from_secs(5), turns).await.expect("it ends with the window").unwrap();
    }
}
