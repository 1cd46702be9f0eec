//! Closed loops of acquire, hold, release.

use crate::arguments::Arguments;
use crate::usage::{cpu_seconds, now, resident_kib, sleep_until};
use crate::{Outcome, usage};
use leasehold::{AcquireOptions, DistributedLock, Error, LockName, Result, Wait};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Longer than any window: nothing is renewed that is not held on purpose.
const TTL: Duration = Duration::from_secs(30);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(2);
/// What tells the tasks of one process from those of another.
const TASKS_A_PROCESS: u64 = 100_000;

/// Who, asked, acquired, release begun, released.
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

#[derive(Clone)]
struct Taker {
    locks: Arc<dyn DistributedLock>,
    name: LockName,
    who: u64,
    hold: Duration,
    seen: Arc<Mutex<Seen>>,
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
    let (seen, mut tasks) = (Arc::<Mutex<Seen>>::default(), JoinSet::new());
    let began = now();
    for task in 0..arguments.tasks {
        let taker = Taker {
            locks: Arc::clone(&locks),
            name: arguments.name(task)?,
            who: arguments.process * TASKS_A_PROCESS + task as u64,
            hold: arguments.hold,
            seen: Arc::clone(&seen),
        };
        tasks.spawn(taker.work(window));
        if !arguments.ramp.is_zero() {
            let share = arguments.ramp.mul_f64((task + 1) as f64 / arguments.tasks as f64);
            sleep_until(began + u64::try_from(share.as_nanos())?).await;
        }
    }
    sleep_until(window.from).await;
    let cpu = cpu_seconds();
    sleep_until(window.until).await;
    let (cpu, after) = (cpu_seconds() - cpu, resident_kib());
    let all_end = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(arguments.grace, all_end).await;
    let Seen { rows, errors, first_error } = std::mem::take(&mut *lock(&seen));
    if let Some(file) = &arguments.rows {
        let bytes: Vec<u8> = rows.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
        std::fs::write(file, bytes)?;
    }
    let done = serde_json::json!({
        "n": rows.len(), "cpu_s": cpu, "rss0_kb": before, "rss1_kb": after,
        "errors": errors, "first_error": first_error.unwrap_or_default(),
    });
    println!("DONE {done}");
    // Who still waits has the lock with the next release, if it is not told that nobody waits any more.
    tasks.shutdown().await;
    let _ = locks.close().await;
    Ok(())
}

impl Taker {
    async fn work(self, window: Window) {
        let mut asked = now();
        while now() < window.until {
            match self.turn(asked).await {
                Ok(row) if (window.from..=window.until).contains(&row[2]) => lock(&self.seen).rows.push(row),
                Ok(_) => {}
                Err(error) => {
                    self.note(&error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
            asked = now();
        }
    }

    fn note(&self, error: &Error) {
        let mut seen = lock(&self.seen);
        seen.errors += 1;
        seen.first_error.get_or_insert_with(|| error.to_string());
    }

    async fn turn(&self, asked: u64) -> Result<Row> {
        let guard = self.locks.acquire_with(&self.name, &options()).await?;
        let acquired = now();
        if !self.hold.is_zero() {
            tokio::time::sleep(self.hold).await;
        }
        let ends = now();
        guard.release().await?;
        Ok([self.who, asked, acquired, ends, now()])
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
