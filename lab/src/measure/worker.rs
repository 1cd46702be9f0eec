//! A process that takes locks, as an application would: what is measured runs here, on one thread, so that its time on a
//! processor and its memory are those of the locks alone.

use super::protocol::{Job, JobResult, encode};
use super::row_result::HeldFigures;
use crate::load::{AT_ONCE, Load, Turn, acquire_all, cpu_seconds, options, resident_bytes, run};
use leasehold::{
    DistributedLock, DistributedLockExt, Error, ErrorKind, Health, LockGuard, LockName, Result, Wait,
};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, in_one_line};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Timeout for a name that no other client wants: where each hold has a connection of its own, there may be none left.
const FREE_NAME_TIMEOUT: Wait = Wait::UpTo(Duration::from_secs(5));
/// How often a worker that ends looks whether its tasks have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

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
    let locks: Arc<dyn DistributedLock> = Arc::new(store.locks.clone());
    let runner = JobRunner { locks: Arc::clone(&locks) };
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        let next = lines.next_line().await;
        let Some(line) = next.map_err(|error| Failure::internal("cannot read", error))? else { break };
        let job: Job =
            serde_json::from_str(&line).map_err(|error| Failure::internal("cannot read", error))?;
        let of_row = job.is_of_row();
        let mut input_ends = std::pin::pin!(lines.next_line());
        let done = tokio::select! {
            done = runner.execute(job) => done,
            _ = &mut input_ends => break,
        };
        let (done, turns) = match done {
            // A store that is there, and has no room for so many: another row may want less of it.
            Err(error) if is_lack_of_room(&error) && of_row => {
                (JobResult::Failed { why: in_one_line(&error) }, Vec::new())
            }
            done => done?,
        };
        let bytes = encode(&done, &turns)?;
        let written = async {
            let mut out = stdout();
            out.write_all(&bytes).await?;
            out.flush().await
        };
        if written.await.is_err() {
            break;
        }
    }
    // A task that was aborted drops its guard when it is next looked at, and only then is there something to wait for.
    drop(runner);
    while Arc::strong_count(&locks) > 1 {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    // Waits until what was dropped is released.
    let _ = locks.close().await;
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
    /// Every task has it, too: when it is the last, all are gone.
    locks: Arc<dyn DistributedLock>,
}

impl JobRunner {
    async fn execute(&self, job: Job) -> Result<(JobResult, Vec<Turn>)> {
        let done = match job {
            Job::Open { name, .. } => {
                let options = options().with_wait(FREE_NAME_TIMEOUT);
                self.locks.acquire_with(&LockName::new(name)?, &options).await?.release().await?;
                JobResult::Opened
            }
            Job::Load(load) => return self.load(load).await,
            Job::Hold { names, count, ttl_ms, time_ms } => {
                JobResult::Held(self.hold(&names, count, ttl_ms, time_ms).await?)
            }
        };
        Ok((done, Vec::new()))
    }

    async fn load(&self, load: Load) -> Result<(JobResult, Vec<Turn>)> {
        let seen = run(load, &self.locks).await?;
        let failed = match seen.first_error {
            Some(error) if !is_lack_of_room(&error) => return Err(error),
            error => error.as_ref().map(in_one_line),
        };
        Ok((JobResult::Loaded { turns: seen.turns.len(), cpu: seen.cpu, failed }, seen.turns))
    }

    async fn hold(&self, names: &str, count: usize, ttl_ms: u64, time_ms: u64) -> Result<HeldFigures> {
        let before = resident_bytes();
        let options = options().with_ttl(Duration::from_millis(ttl_ms)).with_wait(FREE_NAME_TIMEOUT);
        let names = (0..count).map(|number| LockName::new(format!("{names}/{number}")));
        let guards = acquire_all(&self.locks, names, &options).await?;
        let (after, cpu) = (resident_bytes(), cpu_seconds());
        tokio::time::sleep(Duration::from_millis(time_ms)).await;
        let client_cpu = (cpu_seconds() - cpu) * 1e3 / time_ms as f64;
        let lost = guards.iter().filter(|guard| guard.health() != Health::Held).count();
        let mut guards = guards.into_iter().peekable();
        while guards.peek().is_some() {
            let some: JoinSet<_> = guards.by_ref().take(AT_ONCE).map(LockGuard::release).collect();
            some.join_all().await;
        }
        let grown = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok(HeldFigures {
            lost,
            bytes_each: grown.map(|grown| grown / count.max(1) as u64),
            // Where renewals are so much rarer.
            client_cpu_at_30s: client_cpu * ttl_ms as f64 / 30_000.0,
        })
    }
}

fn is_lack_of_room(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate | ErrorKind::TimedOut)
}
