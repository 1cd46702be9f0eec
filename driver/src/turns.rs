//! Closed loops of acquire, hold, release.

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
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(2);
/// What tells the tasks of one process from those of another.
const TASKS_A_PROCESS: u64 = 100_000;

/// The number of the task; then when it asked, acquired, began its release, and had released.
type Row = [u64; 5];

#[derive(Clone, Copy, Debug)]
struct Window {
    from: u64,
    until: u64,
}

/// What the tasks have seen. They are all on one thread: nobody ever waits for it.
#[derive(Debug, Default)]
struct Seen {
    rows: Vec<Row>,
    errors: u64,
    first_error: Option<String>,
}

/// What all tasks share. A task is to be small: what a waiter needs is measured with it.
struct Crew {
    locks: Arc<dyn DistributedLock>,
    options: AcquireOptions,
    window: Window,
    hold: Duration,
    drops: bool,
    seen: Mutex<Seen>,
}

struct Turns {
    crew: Arc<Crew>,
    name: LockName,
    who: u64,
}

pub(crate) async fn take_turns(arguments: &Arguments) -> Outcome<()> {
    let locks = leasehold::connect(&arguments.url).await?;
    // The first pair connects, and makes what the store needs.
    locks
        .acquire_with(&LockName::new(format!("ready-{}", arguments.process))?, &options())
        .await?
        .release()
        .await?;
    let before = resident_kib();
    let window = ready().await?;
    let crew = Arc::new(Crew {
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
        let who = arguments.process * TASKS_A_PROCESS + task as u64;
        let name = match arguments.work {
            Work::Contended => shared.clone(),
            _ => arguments.name(task)?,
        };
        let turns = Turns { crew: Arc::clone(&crew), name, who };
        // A task begins and ends at a multiple of 128 bytes: boxed, it is one of them, else two.
        tasks.push(tokio::spawn(Box::pin(turns.work())));
        if !arguments.ramp.is_zero() {
            let share = arguments.ramp.mul_f64((task + 1) as f64 / arguments.tasks as f64);
            sleep_until(began + u64::try_from(share.as_nanos())?).await;
        }
    }
    sleep_until(window.from).await;
    let cpu = cpu_seconds();
    sleep_until(window.until).await;
    let (cpu, after) = (cpu_seconds() - cpu, resident_kib());
    let _ = tokio::time::timeout(arguments.grace, ends_of(&mut tasks)).await;
    let Seen { rows, errors, first_error } = std::mem::take(&mut *lock(&crew.seen));
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
    ends_of(&mut tasks).await;
    let _ = locks.close().await;
    Ok(())
}

/// No set of tasks, which would keep something for each: what a waiter needs is measured.
async fn ends_of(tasks: &mut [JoinHandle<()>]) {
    for task in tasks.iter_mut().filter(|task| !task.is_finished()) {
        let _ = task.await;
    }
}

impl Turns {
    #[expect(
        clippy::manual_async_fn,
        reason = "an async method keeps two of everything that it is called with"
    )]
    fn work(self) -> impl Future<Output = ()> + Send {
        async move {
            loop {
                let asked = now();
                if asked >= self.crew.window.until {
                    return;
                }
                let came = self.turn(asked).await;
                if self.note(came).is_err() {
                    Box::pin(sleep(PAUSE)).await;
                }
            }
        }
    }

    /// Not in the loop, which would have room for it as long as a turn lasts.
    fn note(&self, came: Result<Row>) -> Result<(), ()> {
        let Window { from, until } = self.crew.window;
        let mut seen = lock(&self.crew.seen);
        let row = came.map_err(|error| {
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
            let guard = self.crew.locks.acquire_with(&self.name, &self.crew.options).await?;
            let [acquired, ends, released] = Box::pin(self.held(guard)).await?;
            Ok([self.who, asked, acquired, ends, released])
        }
    }

    /// When it was acquired, when its release began, and when that was done. Boxed: who waits has no room for it.
    async fn held(&self, guard: LockGuard) -> Result<[u64; 3]> {
        let acquired = now();
        if !self.crew.hold.is_zero() {
            sleep(self.crew.hold).await;
        }
        let ends = now();
        if self.crew.drops {
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
