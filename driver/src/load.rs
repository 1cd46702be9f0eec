//! Closed loops of acquire, hold, release: the load of a measurement.

use crate::arguments::{Arguments, Work};
use crate::usage::{cpu_seconds, now, resident_kib, sleep_until};
use crate::{Outcome, usage};
use leasehold::{AcquireOptions, DistributedLock, DistributedLockExt, LockGuard, LockName, Result, Wait};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Longer than any window: nothing is renewed that is not held on purpose.
const TTL: Duration = Duration::from_secs(30);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(2);
/// What tells the tasks of one process from those of another.
const TASKS_A_PROCESS: u64 = 100_000;

/// The number of the task; then when it asked, acquired, began its release, and had released.
type Row = [u64; 5];

#[derive(Clone, Copy, Debug)]
struct Window {
    from: u64,
    until: u64,
}

/// Recorded by the tasks. They are all on one thread, so its mutex is always free.
#[derive(Debug, Default)]
struct Seen {
    rows: Vec<Row>,
    errors: u64,
    first_error: Option<String>,
}

/// Shared by all tasks. A task is small, because the memory of a waiter is measured with it.
struct Measurement {
    locks: Arc<dyn DistributedLock>,
    options: AcquireOptions,
    window: Window,
    hold: Duration,
    drops: bool,
    seen: Mutex<Seen>,
}

struct TaskLoop {
    measurement: Arc<Measurement>,
    name: LockName,
    /// The number of the task.
    task: u64,
}

pub(crate) async fn run_load(arguments: &Arguments) -> Outcome<()> {
    let locks = leasehold::connect(&arguments.url).await?;
    // The first pair connects, and makes what the store needs.
    locks
        .acquire_with(&LockName::new(format!("ready-{}", arguments.process))?, &options())
        .await?
        .release()
        .await?;
    let before = resident_kib();
    let window = ready().await?;
    let measurement = Arc::new(Measurement {
        locks: Arc::clone(&locks),
        options: options(),
        window,
        hold: arguments.hold,
        drops: arguments.drops,
        seen: Mutex::default(),
    });
    let (mut tasks, began) = (Vec::<JoinHandle<()>>::with_capacity(arguments.tasks), now());
    let shared = arguments.name(0)?;
    for task in 0..arguments.tasks {
        let number = arguments.process * TASKS_A_PROCESS + task as u64;
        let name = match arguments.work {
            Work::Contended => shared.clone(),
            _ => arguments.name(task)?,
        };
        let task_loop = TaskLoop { measurement: Arc::clone(&measurement), name, task: number };
        // A task begins and ends at a multiple of 128 bytes: boxed, it is one of them, else two.
        tasks.push(tokio::spawn(Box::pin(task_loop.run())));
        if !arguments.ramp.is_zero() {
            let share = arguments.ramp.mul_f64((task + 1) as f64 / arguments.tasks as f64);
            sleep_until(began + u64::try_from(share.as_nanos())?).await;
        }
    }
    sleep_until(window.from).await;
    let cpu = cpu_seconds();
    sleep_until(window.until).await;
    let (cpu, after) = (cpu_seconds() - cpu, resident_kib());
    let _ = tokio::time::timeout(arguments.grace, wait_for_ends(&mut tasks)).await;
    let Seen { rows, errors, first_error } = std::mem::take(&mut *lock(&measurement.seen));
    if let Some(file) = &arguments.rows {
        let bytes: Vec<u8> = rows.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
        std::fs::write(file, bytes)?;
    }
    let done = serde_json::json!({
        "n": rows.len(), "cpu_s": cpu, "rss0_kb": before, "rss1_kb": after,
        "errors": errors, "first_error": first_error.unwrap_or_default(),
    });
    println!("DONE {done}");
    // A task that still waits would get the lock with the next release.
    tasks.iter().for_each(JoinHandle::abort);
    wait_for_ends(&mut tasks).await;
    let _ = locks.close().await;
    Ok(())
}

/// A `JoinSet` would keep something for each task, and the memory of a waiter is measured.
async fn wait_for_ends(tasks: &mut [JoinHandle<()>]) {
    for task in tasks.iter_mut().filter(|task| !task.is_finished()) {
        let _ = task.await;
    }
}

impl TaskLoop {
    #[expect(
        clippy::manual_async_fn,
        reason = "an async method keeps two of everything that it is called with"
    )]
    fn run(self) -> impl Future<Output = ()> + Send {
        async move {
            loop {
                let asked = now();
                if asked >= self.measurement.window.until {
                    return;
                }
                let row = self.turn(asked).await;
                if self.record(row).is_err() {
                    Box::pin(sleep(PAUSE_AFTER_FAILURE)).await;
                }
            }
        }
    }

    /// A function of its own: in the loop its values would take room in the task as long as a turn lasts.
    fn record(&self, row: Result<Row>) -> Result<(), ()> {
        let Window { from, until } = self.measurement.window;
        let mut seen = lock(&self.measurement.seen);
        let row = row.map_err(|error| {
            seen.errors += 1;
            seen.first_error.get_or_insert_with(|| error.to_string());
        })?;
        if (from..=until).contains(&row[2]) {
            seen.rows.push(row);
        }
        Ok(())
    }

    #[expect(clippy::manual_async_fn, reason = "as above")]
    fn turn(&self, asked: u64) -> impl Future<Output = Result<Row>> + Send {
        async move {
            let guard = self.measurement.locks.acquire_with(&self.name, &self.measurement.options).await?;
            let [acquired, ends, released] = Box::pin(self.held(guard)).await?;
            Ok([self.task, asked, acquired, ends, released])
        }
    }

    /// When it was acquired, when its release began, and when that was done. Boxed: a waiting task has no room for it.
    async fn held(&self, guard: LockGuard) -> Result<[u64; 3]> {
        let acquired = now();
        if !self.measurement.hold.is_zero() {
            sleep(self.measurement.hold).await;
        }
        let ends = now();
        if self.measurement.drops {
            drop(guard);
            // The release has a task of its own: on this one thread, it is to begin before the next acquisition.
            tokio::task::yield_now().await;
        } else {
            guard.release().await?;
        }
        Ok([acquired, ends, now()])
    }
}

/// Says that it is ready, and hears when to begin.
async fn ready() -> Outcome<Window> {
    println!("READY");
    let line = usage::read_line().await?;
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("GO"), Some(from), Some(until)) => Ok(Window { from: from.parse()?, until: until.parse()? }),
        _ => Err("GO and two moments were expected".into()),
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options() -> AcquireOptions {
    AcquireOptions::new().with_ttl(TTL).with_wait(Wait::Forever)
}
