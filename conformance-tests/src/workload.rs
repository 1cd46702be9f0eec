//! What clients do at random for a history: take a lock in every way there is, hold it for a moment or for too long, count
//! under it, release it or forget to.

use crate::case::Stop;
use crate::history::{FencedCounter, PlainCounter, RecordedGuard, RecordedLock, Recorder};
use fastrand::Rng;
use leasehold_core::{AcquireOptions, DistributedLock, Error, ErrorKind, LockMode, LockName, Wait};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The order for one client. Written in one line for worker processes.
#[derive(Clone, Debug)]
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
pub(crate) type Survived = fn(Error) -> Result<(), Stop>;

/// The two counters that the lock protects, as one client sees them.
pub(crate) struct Counters {
    fenced: FencedCounter,
    plain: PlainCounter,
}

/// What a client has read, and works on.
pub(crate) struct Read {
    fenced: Option<u64>,
    plain: u64,
}

impl Workload {
    /// How often it is granted the lock at least, whatever the time.
    const GRANTS: u32 = 5;
    /// After which it ends all the same.
    const AT_MOST: Duration = Duration::from_secs(30);

    /// Does it. An error of the lock is no end: it stands in the history.
    pub(crate) async fn run(&self, lock: Arc<dyn DistributedLock>) -> Result<(), Stop> {
        let lock = RecordedLock::new(lock, Recorder::create(&self.directory)?);
        let start = Instant::now();
        // A machine that is busy gets less done in a time; what shows nothing would be void.
        let goes_on = |grants| {
            start.elapsed() < self.lasts || (grants < Self::GRANTS && start.elapsed() < Self::AT_MOST)
        };
        self.run_while(&lock, goes_on, expected).await
    }

    /// Does it for as long as somebody says, who is told how many grants there were, and of every error.
    pub(crate) async fn run_while(
        &self,
        lock: &RecordedLock,
        goes_on: impl Fn(u32) -> bool,
        survived: Survived,
    ) -> Result<(), Stop> {
        let mut counters = Counters::open(&self.directory)?;
        let (mut rng, mut grants) = (Rng::with_seed(self.seed), 0);
        while goes_on(grants) {
            let fixed = rng.u32(0..4) == 0;
            if let Some(guard) = self.acquire(lock, fixed, &mut rng, survived).await? {
                grants += 1;
                let too_long = fixed && rng.u32(0..3) == 0;
                self.hold(guard, too_long, &mut counters, &mut rng, survived).await?;
            }
            pause(&mut rng, 8).await;
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

    async fn acquire(
        &self,
        lock: &RecordedLock,
        fixed: bool,
        rng: &mut Rng,
        survived: Survived,
    ) -> Result<Option<RecordedGuard>, Stop> {
        let wait = match rng.u32(0..10) {
            0..3 => Wait::No,
            3..6 => Wait::UpTo(Duration::from_millis(rng.u64(5..100))),
            _ => Wait::UpTo(Self::AT_MOST),
        };
        let options = AcquireOptions::new().with_ttl(self.ttl).with_wait(wait).with_mode(self.mode(rng));
        let options = if fixed { options.with_fixed_lease() } else { options };
        let acquiring = lock.acquire(&self.name, &options);
        let patience =
            if rng.u32(0..12) == 0 { Duration::from_millis(rng.u64(0..20)) } else { Duration::MAX };
        match tokio::time::timeout(patience, acquiring).await {
            Ok(Ok(guard)) => Ok(Some(guard)),
            Ok(Err(error)) => survived(error).map(|()| None),
            // It has left, and the attempt is withdrawn behind it.
            Err(_) => Ok(None),
        }
    }

    async fn hold(
        &self,
        guard: RecordedGuard,
        too_long: bool,
        counters: &mut Counters,
        rng: &mut Rng,
        survived: Survived,
    ) -> Result<(), Stop> {
        let read = counters.read(&guard)?;
        pause(rng, 12).await;
        if rng.u32(0..8) == 0 {
            guard.extend(self.ttl).await.or_else(survived)?;
        }
        if too_long {
            guard.lost().await?;
            pause(rng, 30).await;
        }
        // Whether or not it still holds: what looks after that is the counter.
        counters.write(&guard, &read)?;
        guard.observe().map(drop).or_else(survived)?;
        if rng.u32(0..8) == 0 {
            drop(guard);
            return Ok(());
        }
        guard.release().await.or_else(survived)
    }
}

/// Takes the lock, reads what it protects, waits for the word to go on, and writes without another look at its guard.
pub(crate) struct Interrupted {
    guard: RecordedGuard,
    counters: Counters,
    read: Read,
}

impl Interrupted {
    pub(crate) async fn begin(workload: &Workload, lock: Arc<dyn DistributedLock>) -> Result<Self, Stop> {
        let lock = RecordedLock::new(lock, Recorder::create(&workload.directory)?);
        let options = AcquireOptions::new().with_ttl(workload.ttl).with_wait(Wait::Forever);
        let guard = lock.acquire(&workload.name, &options).await?;
        let mut counters = Counters::open(&workload.directory)?;
        let read = counters.read(&guard)?;
        guard.observe()?;
        Ok(Self { guard, counters, read })
    }

    pub(crate) async fn end(mut self) -> Result<(), Stop> {
        self.counters.write(&self.guard, &self.read)?;
        self.guard.observe()?;
        self.guard.release().await.or_else(expected)
    }
}

impl Counters {
    const FENCED: &str = "fenced";
    const PLAIN: &str = "plain";

    pub(crate) fn open(directory: &Path) -> Result<Self, Stop> {
        let fenced = FencedCounter::open(&directory.join(Self::FENCED))?;
        Ok(Self { fenced, plain: PlainCounter::open(&directory.join(Self::PLAIN))? })
    }

    /// A reader shows its token, so that earlier writers are refused.
    pub(crate) fn read(&mut self, guard: &RecordedGuard) -> Result<Read, Stop> {
        if guard.mode().is_shared() {
            let fenced = self.fenced.read_shared(guard.token())?;
            guard.wrote(Self::FENCED, true, fenced)?;
            return Ok(Read { fenced, plain: 0 });
        }
        Ok(Read { fenced: self.fenced.read(guard.token())?, plain: self.plain.read()? })
    }

    /// A reader reads again instead.
    pub(crate) fn write(&mut self, guard: &RecordedGuard, read: &Read) -> Result<(), Stop> {
        if guard.mode().is_shared() {
            return self.read(guard).map(drop);
        }
        let mut wrote = None;
        if let Some(before) = read.fenced
            && self.fenced.write(guard.token(), before + 1)?
        {
            wrote = Some(before + 1);
        }
        guard.wrote(Self::FENCED, true, wrote)?;
        self.plain.write(read.plain + 1)?;
        Ok(guard.wrote(Self::PLAIN, false, Some(read.plain + 1))?)
    }
}

/// What may become of any request. Everything else is the case's failure.
fn expected(error: Error) -> Result<(), Stop> {
    match error.kind() {
        ErrorKind::Busy
        | ErrorKind::TimedOut
        | ErrorKind::Lost
        | ErrorKind::Indeterminate
        | ErrorKind::Unavailable
        | ErrorKind::Unsupported => Ok(()),
        _ => Err(error.into()),
    }
}

async fn pause(rng: &mut Rng, millis: u64) {
    tokio::time::sleep(Duration::from_micros(rng.u64(0..millis * 1000))).await;
}

/// A path among words: whoever says where temporary files go may have a space there.
pub(crate) fn in_one_word(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace(' ', "%20")
}

pub(crate) fn of_one_word(word: &str) -> PathBuf {
    word.replace("%20", " ").replace("%25", "%").into()
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { directory, name, seed, ttl, lasts, readers } = self;
        let (ttl, lasts) = (ttl.as_millis(), lasts.as_millis());
        write!(f, "{seed} {ttl} {lasts} {readers} {} {name}", in_one_word(directory))
    }
}

impl FromStr for Workload {
    type Err = Stop;

    fn from_str(text: &str) -> Result<Self, Stop> {
        let mut words = text.splitn(6, ' ');
        let mut word = || words.next().ok_or_else(|| Stop::Failed(format!("a short order: {text:?}")));
        let number =
            |word: &str| word.parse::<u64>().map_err(|_| Stop::Failed(format!("{word:?} is no number")));
        Ok(Self {
            seed: number(word()?)?,
            ttl: Duration::from_millis(number(word()?)?),
            lasts: Duration::from_millis(number(word()?)?),
            readers: u32::try_from(number(word()?)?).unwrap_or(u32::MAX),
            directory: of_one_word(word()?),
            name: LockName::new(word()?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_understood_wherever_its_files_are() {
        let order = Workload {
            directory: "/tmp/two words/100%/%20/x".into(),
            name: LockName::new("a name of words").unwrap(),
            seed: 7,
            ttl: Duration::from_millis(1_500),
            lasts: Duration::ZERO,
            readers: 30,
        };
        let read: Workload = order.to_string().parse().unwrap();
        assert_eq!(
            (read.directory, read.name, read.seed, read.readers),
            (order.directory, order.name, 7, 30)
        );
    }
}
