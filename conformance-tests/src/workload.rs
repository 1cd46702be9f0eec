//! What clients do at random for a history: take a lock in every way there is, hold it for a moment or for too long, count
//! under it, release it or forget to.

use crate::history::{FencedCounter, NO_TOKEN, RecordedGuard, RecordedLock, Recorder};
use crate::stop::{Stop, Verdict};
use fastrand::Rng;
use leasehold_core::{AcquireOptions, DistributedLock, Error, ErrorKind, LockMode, LockName, Wait};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The order for one client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Workload {
    /// Where the history is, and what the lock protects.
    pub(crate) directory: PathBuf,
    pub(crate) name: LockName,
    pub(crate) seed: u64,
    pub(crate) ttl: Duration,
    /// How long it goes on, at least.
    pub(crate) lasts: Duration,
    /// Percentage of holds that are shared. Zero on a store that does not serve shared holds.
    pub(crate) readers: u32,
}

/// Whether a client goes on after an error: it does not after what nobody can explain.
pub(crate) type Survived = fn(Error) -> Verdict;

/// The two counters that the lock protects, as one client sees them.
pub(crate) struct ProtectedCounters {
    fenced: FencedCounter,
    plain: FencedCounter,
}

/// What a client has read, and works on.
pub(crate) struct CounterValues {
    fenced: Option<u64>,
    plain: u64,
}

impl Workload {
    /// How often it is granted the lock at least, whatever the time.
    const GRANTS: u32 = 5;
    /// After which it ends all the same.
    const AT_MOST: Duration = Duration::from_secs(30);

    /// Does it. An error of the lock is no end: it stands in the history.
    pub(crate) async fn run(&self, lock: Arc<dyn DistributedLock>) -> Verdict {
        let lock = RecordedLock::new(lock, Recorder::create(&self.directory)?);
        let start = Instant::now();
        // A machine that is busy gets less done in a time; what shows nothing would be void.
        let goes_on = |grants| {
            start.elapsed() < self.lasts || (grants < Self::GRANTS && start.elapsed() < Self::AT_MOST)
        };
        self.run_while(&lock, goes_on, expected).await
    }

    /// Does it for as long as `goes_on` says, by the number of grants. `survived` judges every error.
    pub(crate) async fn run_while(
        &self,
        lock: &RecordedLock,
        goes_on: impl Fn(u32) -> bool,
        survived: Survived,
    ) -> Verdict {
        let (counters, rng) = (ProtectedCounters::open(&self.directory)?, Rng::with_seed(self.seed));
        let (mut client, mut grants) = (RandomClient { workload: self, lock, survived, counters, rng }, 0);
        while goes_on(grants) {
            let fixed = client.rng.u32(0..4) == 0;
            if let Some(guard) = client.acquire(fixed).await? {
                grants += 1;
                let too_long = fixed && client.rng.u32(0..3) == 0;
                client.hold(guard, too_long).await?;
            }
            client.pause(8).await;
        }
        Ok(())
    }

    pub(crate) fn mode(&self, rng: &mut Rng) -> LockMode {
        match rng.u32(0..100) {
            _ if self.readers == 0 => LockMode::Exclusive,
            chance if chance < self.readers => LockMode::Shared,
            _ => LockMode::Write,
        }
    }
}

/// A client that does a workload.
struct RandomClient<'a> {
    workload: &'a Workload,
    lock: &'a RecordedLock,
    survived: Survived,
    counters: ProtectedCounters,
    rng: Rng,
}

impl RandomClient<'_> {
    async fn acquire(&mut self, fixed: bool) -> Result<Option<RecordedGuard>, Stop> {
        let (workload, rng) = (self.workload, &mut self.rng);
        let wait = match rng.u32(0..10) {
            0..3 => Wait::No,
            3..6 => Wait::UpTo(Duration::from_millis(rng.u64(5..100))),
            _ => Wait::UpTo(Workload::AT_MOST),
        };
        let options =
            AcquireOptions::new().with_ttl(workload.ttl).with_wait(wait).with_mode(workload.mode(rng));
        let options = if fixed { options.with_fixed_lease() } else { options };
        let patience =
            if rng.u32(0..12) == 0 { Duration::from_millis(rng.u64(0..20)) } else { Duration::MAX };
        match tokio::time::timeout(patience, self.lock.acquire(&self.workload.name, &options)).await {
            Ok(Ok(guard)) => Ok(Some(guard)),
            Ok(Err(error)) => (self.survived)(error).map(|()| None),
            // It has left, and the attempt is withdrawn behind it.
            Err(_) => Ok(None),
        }
    }

    async fn hold(&mut self, guard: RecordedGuard, too_long: bool) -> Verdict {
        let read = self.counters.read(&guard)?;
        self.pause(12).await;
        if self.rng.u32(0..8) == 0 {
            guard.extend(self.workload.ttl).await.or_else(self.survived)?;
        }
        if too_long {
            guard.lost().await?;
            self.pause(30).await;
        }
        // Whether or not it still holds: what looks after that is the counter.
        self.counters.write(&guard, &read)?;
        guard.observe().map(drop).or_else(self.survived)?;
        if self.rng.u32(0..8) == 0 {
            drop(guard);
            return Ok(());
        }
        guard.release().await.or_else(self.survived)
    }

    async fn pause(&mut self, at_most_millis: u64) {
        tokio::time::sleep(Duration::from_micros(self.rng.u64(0..at_most_millis * 1000))).await;
    }
}

/// The files of the counters in the directory of a history.
pub(crate) const FENCED: &str = "fenced";
pub(crate) const PLAIN: &str = "plain";

impl ProtectedCounters {
    pub(crate) fn open(directory: &Path) -> Result<Self, Stop> {
        let open = |name| FencedCounter::open(&directory.join(name));
        Ok(Self { fenced: open(FENCED)?, plain: open(PLAIN)? })
    }

    /// A reader shows its token, so that earlier writers are refused.
    pub(crate) fn read(&mut self, guard: &RecordedGuard) -> Result<CounterValues, Stop> {
        let fenced = self.fenced.read(guard.token(), guard.mode())?;
        if guard.mode().is_shared() {
            guard.wrote(FENCED, true, fenced)?;
            return Ok(CounterValues { fenced, plain: 0 });
        }
        Ok(CounterValues { fenced, plain: self.plain.number()? })
    }

    /// A reader reads again instead.
    pub(crate) fn write(&mut self, guard: &RecordedGuard, read: &CounterValues) -> Verdict {
        if guard.mode().is_shared() {
            return self.read(guard).map(drop);
        }
        let wrote = match read.fenced {
            Some(before) if self.fenced.write(guard.token(), before + 1)? => Some(before + 1),
            _ => None,
        };
        guard.wrote(FENCED, true, wrote)?;
        self.plain.write(NO_TOKEN, read.plain + 1)?;
        Ok(guard.wrote(PLAIN, false, Some(read.plain + 1))?)
    }
}

/// What may become of any request. Everything else is the case's failure.
fn expected(error: Error) -> Verdict {
    let is_expected =
        error.is_retryable() || matches!(error.kind(), ErrorKind::Lost | ErrorKind::Unsupported);
    if is_expected { Ok(()) } else { Err(error.into()) }
}
