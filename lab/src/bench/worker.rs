//! A process that takes locks, as an application would: what is measured runs here, on one thread, so that its time on a
//! processor and its memory are those of the locks alone.

use super::job::{
    HistogramCounts, HoldResult, Job, JobResult, LockMethod, MonotonicTime, Turn, Window, histogram, nanos,
};
use super::pairs::{self, PairSchedule, PairTask, Shared, options, unmeasured};
use super::usage::{cpu_seconds, resident_bytes};
use crate::yardstick::Yardstick;
use crate::yardstick::yardstick;
use leasehold::client::LockClient;
use leasehold::{
    DistributedLock, DistributedLockExt, Error, ErrorKind, Health, LockGuard, LockName, Result, Wait,
};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, in_one_line};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Timeout of a notice: a lost one never comes.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a name that no other client wants: where each hold has a connection of its own, there may be none left.
const FREE_NAME_TIMEOUT: Duration = Duration::from_secs(5);
/// One contender in `WARM_UP_HOLD_ONE_IN` holds the lock for this long in the warm-up of a hand-over.
const WARM_UP_HOLD: Duration = Duration::from_millis(1);
const WARM_UP_HOLD_ONE_IN: usize = 8;
/// How many names are acquired and released at a time.
const AT_ONCE: usize = 64;

/// Does what it is told, until there is nobody to tell it.
pub(crate) async fn work(invocation: &Invocation) -> std::result::Result<Code, Failure> {
    end_by_any_panic();
    let heard = |error| Failure::internal("cannot listen to signals", error);
    // Ctrl-C reaches the whole group. It is for the bench to say when this process ends: by closing its input.
    let _ignored = (
        signal(SignalKind::interrupt()).map_err(heard)?,
        signal(SignalKind::quit()).map_err(heard)?,
        signal(SignalKind::hangup()).map_err(heard)?,
    );
    let store = invocation.open().await?;
    let (alive, mut all_gone) = mpsc::channel(1);
    let subject = JobRunner { locks: store.locks.clone(), raw: yardstick(&store.config)?, alive };
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        let next = lines.next_line().await;
        let Some(line) = next.map_err(|error| Failure::internal("cannot read", error))? else { break };
        let job: Job =
            serde_json::from_str(&line).map_err(|error| Failure::internal("cannot read", error))?;
        let of_row = job.is_of_row();
        let mut input_ends = std::pin::pin!(lines.next_line());
        let done = tokio::select! {
            done = subject.execute(job) => done,
            _ = &mut input_ends => break,
        };
        let done = match done {
            // A store that is there, and has no room for so many: another row may want less of it.
            Err(error) if is_lack_of_room(&error) && of_row => JobResult::Failed { why: in_one_line(&error) },
            done => done?,
        };
        let mut line = serde_json::to_vec(&done).map_err(|error| Failure::internal("cannot write", error))?;
        line.push(b'\n');
        let written = async {
            let mut out = stdout();
            out.write_all(&line).await?;
            out.flush().await
        };
        if written.await.is_err() {
            break;
        }
    }
    // A task that was aborted drops its guard when it is next looked at, and only then is there something to wait for.
    drop(subject);
    let _ = all_gone.recv().await;
    // Waits until what was dropped is released.
    let _ = store.locks.close().await;
    Ok(Code::SUCCESS)
}

/// Else the end of the runtime would wait for the thread that reads the input, and the bench for this process.
fn end_by_any_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(Code::INTERNAL.number().into());
    }));
}

struct JobRunner {
    locks: LockClient,
    raw: Option<Arc<dyn Yardstick>>,
    /// Every task has one: the other end learns when all are gone.
    alive: mpsc::Sender<()>,
}

impl JobRunner {
    async fn execute(&self, job: Job) -> Result<JobResult> {
        match job {
            Job::Open { name, .. } => {
                let options = options().with_wait(FREE_NAME_TIMEOUT);
                self.locks.acquire_with(&LockName::new(name)?, &options).await?.release().await?;
                Ok(JobResult::Opened)
            }
            Job::Pairs { way, tasks, names, pairs_a_second, window } => {
                self.pairs(way, tasks, &names, pairs_a_second, window).await
            }
            Job::HandOver { name, contenders, first, window } => {
                self.hand_over(&LockName::new(name)?, contenders, first, window).await
            }
            Job::Notices { name, window } => self.notices(&LockName::new(name)?, window).await,
            Job::Hold { names, count, ttl_millis, millis } => {
                self.hold(&names, count, Duration::from_millis(ttl_millis), Duration::from_millis(millis))
                    .await
            }
        }
    }

    async fn pairs(
        &self,
        way: LockMethod,
        tasks: usize,
        names: &str,
        pairs_a_second: Option<f64>,
        window: Window,
    ) -> Result<JobResult> {
        let (mut running, all) = (JoinSet::new(), Shared::default());
        for task in 0..tasks {
            let name = LockName::new(format!("{names}/{task}"))?;
            let pair_task = PairTask { locks: self.locks.clone(), raw: self.raw.clone(), way, name };
            let schedule = PairSchedule::of(pairs_a_second, task, tasks);
            self.spawn(&mut running, pairs::run(pair_task, schedule, window, Arc::clone(&all)));
        }
        let cpu = cpu_within(window).await?;
        while let Some(task) = running.join_next().await {
            task.unwrap_or_else(|error| Err(ended_early(error)))?;
        }
        let all = all.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(JobResult::Pairs(all.to_pairs(cpu)))
    }

    /// Each contender queues for the lock again right after its release.
    async fn hand_over(
        &self,
        name: &LockName,
        contenders: usize,
        first: usize,
        window: Window,
    ) -> Result<JobResult> {
        let mut running = JoinSet::new();
        for who in first..first + contenders {
            let (locks, name) = (self.locks.clone(), name.clone());
            self.spawn(&mut running, contend(locks, name, who, window));
        }
        let cpu = cpu_within(window).await?;
        let mut turns = Vec::new();
        while let Some(task) = running.join_next().await {
            turns.extend(task.unwrap_or_else(|error| Err(ended_early(error)))?);
        }
        Ok(JobResult::HandOver { turns, cpu })
    }

    async fn notices(&self, name: &LockName, window: Window) -> Result<JobResult> {
        let raw = self.raw.as_ref().ok_or_else(unmeasured)?;
        let mut seen = histogram();
        while MonotonicTime::now() < window.until {
            let began = MonotonicTime::now();
            let heard = tokio::time::timeout(NOTICE_TIMEOUT, raw.raw_notice(name)).await;
            let heard = heard.map_err(|_| Error::new(ErrorKind::Unavailable, "a notice was lost"))??;
            if window.covers(began) {
                // It grows with what it is given: `saturating_record` would cut off instead.
                let _ = seen.record(nanos(heard));
            }
        }
        Ok(JobResult::Notices { times: HistogramCounts::of(&seen) })
    }

    async fn hold(&self, names: &str, count: usize, ttl: Duration, time: Duration) -> Result<JobResult> {
        let before = resident_bytes();
        let begin = MonotonicTime::now();
        let guards = self.acquire_all(names, count, ttl).await?;
        let acquiring = seconds_since(begin);
        let after = resident_bytes();
        let cpu = cpu_seconds();
        tokio::time::sleep(time).await;
        let cpu = cpu_seconds() - cpu;
        let lost = guards.iter().filter(|guard| guard.health() != Health::Held).count();
        let begin = MonotonicTime::now();
        let late = release_all(guards).await;
        let each =
            before.zip(after).map(|(before, after)| after.saturating_sub(before) / count.max(1) as u64);
        Ok(JobResult::Held(HoldResult {
            acquiring,
            releasing: seconds_since(begin),
            lost: lost.max(late),
            cpu,
            bytes_each: each,
        }))
    }

    fn spawn<T: Send + 'static>(
        &self,
        running: &mut JoinSet<T>,
        task: impl Future<Output = T> + Send + 'static,
    ) {
        let alive = self.alive.clone();
        running.spawn(async move {
            let outcome = task.await;
            drop(alive);
            outcome
        });
    }

    async fn acquire_all(&self, names: &str, count: usize, ttl: Duration) -> Result<Vec<LockGuard>> {
        let mut running = JoinSet::new();
        for part in 0..AT_ONCE.min(count) {
            let (locks, names) = (self.locks.clone(), names.to_owned());
            self.spawn(&mut running, async move {
                let mut guards = Vec::with_capacity(count / AT_ONCE + 1);
                for number in (part..count).step_by(AT_ONCE) {
                    let name = LockName::new(format!("{names}/{number}"))?;
                    guards.push(
                        locks
                            .acquire_with(&name, &options().with_ttl(ttl).with_wait(FREE_NAME_TIMEOUT))
                            .await?,
                    );
                }
                Ok(guards)
            });
        }
        let mut guards = Vec::with_capacity(count);
        while let Some(task) = running.join_next().await {
            guards.extend(task.unwrap_or_else(|error| Err(ended_early(error)))?);
        }
        Ok(guards)
    }
}

async fn contend(locks: LockClient, name: LockName, who: usize, window: Window) -> Result<Vec<Turn>> {
    let mut turns = Vec::new();
    loop {
        let left = window.until.nanos_since(MonotonicTime::now());
        if left == 0 {
            return Ok(turns);
        }
        // A deadline and not a signal: who waits at the end gives up by itself, and leaves no place in a queue.
        let options =
            options().with_wait(Wait::UpTo(Duration::from_nanos(left).max(Duration::from_millis(1))));
        let guard = match locks.acquire_with(&name, &options).await {
            Ok(guard) => guard,
            Err(error) if error.is_contended() => return Ok(turns),
            // The time was over while the store was being asked; what it may have granted is taken back.
            Err(_) if MonotonicTime::now() >= window.until => return Ok(turns),
            Err(error) => return Err(error),
        };
        let (acquired, token) = (MonotonicTime::now(), guard.token()?.get());
        // What is measured is the way from hand to hand, so a hold takes no time, and two at once would hardly be seen. In
        // the warm-up some of them do: whoever else the store grants the lock to has it meanwhile.
        if acquired < window.from && who.is_multiple_of(WARM_UP_HOLD_ONE_IN) {
            tokio::time::sleep(WARM_UP_HOLD).await;
        }
        let ends = MonotonicTime::now();
        guard.release().await?;
        turns.push(Turn { who, acquired, ends, token });
    }
}

/// How many of them were lost already.
async fn release_all(guards: Vec<LockGuard>) -> usize {
    let mut guards = guards.into_iter();
    let mut lost = 0;
    loop {
        let some: JoinSet<_> = guards.by_ref().take(AT_ONCE).map(LockGuard::release).collect();
        if some.is_empty() {
            return lost;
        }
        lost += some.join_all().await.iter().filter(|released| released.is_err()).count();
    }
}

/// Seconds on a processor within the window. Read by a thread of its own: tasks that never wait, as those on a store in
/// memory, would let no timer of theirs end before they do.
async fn cpu_within(window: Window) -> Result<f64> {
    let read = tokio::task::spawn_blocking(move || {
        window.from.sleep();
        let before = cpu_seconds();
        window.until.sleep();
        cpu_seconds() - before
    });
    read.await.map_err(ended_early)
}

fn is_lack_of_room(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate | ErrorKind::TimedOut)
}

fn seconds_since(begin: MonotonicTime) -> f64 {
    Duration::from_nanos(MonotonicTime::now().nanos_since(begin)).as_secs_f64()
}

fn ended_early(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Closed, "a task of the bench ended early").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::super::stats::Rotation;
    use super::*;
    use leasehold::backend::MemoryBackend;

    /// Two tasks that want one name, each by a client of its own.
    async fn round(clients: [LockClient; 2]) -> Rotation {
        let from = MonotonicTime::now().plus(Duration::from_millis(50));
        let window = Window { from, until: from.plus(Duration::from_millis(50)) };
        let name = LockName::new("x").unwrap();
        let tasks = clients.into_iter().enumerate();
        let tasks: JoinSet<_> = tasks.map(|(who, locks)| contend(locks, name.clone(), who, window)).collect();
        let turns = tasks.join_all().await.into_iter().flat_map(Result::unwrap).collect();
        Rotation::of(turns, 2, window)
    }

    #[tokio::test]
    async fn overlapping_holders_in_one_process_are_counted() {
        let client = || LockClient::new(Arc::new(MemoryBackend::new()));
        assert!(round([client(), client()]).await.overlaps > 0, "two stores exclude nobody from each other");
        let one = client();
        let round = round([one.clone(), one]).await;
        assert_eq!((round.overlaps, round.stale_tokens), (0, 0));
        assert!(round.turns > 0);
    }
}
