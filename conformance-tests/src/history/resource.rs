use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A counter in a file, shared by the processes of this host, that looks at tokens: what a lock with a fencing token is
/// to protect. Each call is one atomic step. Every client opens it for itself. Errors are those of the file system.
///
/// Reading shows the token as well. Readers of a shared lock leave a mark of their own, so that they do not refuse each other:
/// an exclusive holder is refused if any later holder was here, a reader only if a later one has written. A resource that looks at tokens only when it is written to accepts the write of an
/// older grant after a newer one has read, and the newer one then overwrites it: an update is lost although every check
/// was passed.
#[derive(Debug)]
pub struct FencedCounter(CounterFile);

/// The same counter without a look at tokens: as safe as the lock alone makes it. Errors are those of the file system.
#[derive(Debug)]
pub struct PlainCounter(CounterFile);

impl FencedCounter {
    /// The counter in this file, at zero if it is not there.
    pub fn open(path: &Path) -> Result<Self> {
        CounterFile::open(path).map(Self)
    }

    /// The number, or `None` for a token that is older than one which was shown before.
    pub fn read(&mut self, token: u64) -> Result<Option<u64>> {
        let fresh = self.0.step(&CounterStep::Read(token))?;
        Ok(fresh.then_some(self.0.number))
    }

    /// The number for a reader of a shared lock, or `None` if a later holder has written. Earlier writers are refused from now
    /// on.
    pub fn read_shared(&mut self, token: u64) -> Result<Option<u64>> {
        let fresh = self.0.step(&CounterStep::ReadShared(token))?;
        Ok(fresh.then_some(self.0.number))
    }

    /// The highest token that was shown so far. For whoever looks on, and takes no part.
    pub(crate) fn highest(&mut self) -> Result<u64> {
        self.0.look()?;
        Ok(self.0.highest)
    }

    /// Writes the number, unless the token is older than one which was shown before: false then.
    pub fn write(&mut self, token: u64, new: u64) -> Result<bool> {
        self.0.step(&CounterStep::Write(token, new))
    }
}

impl PlainCounter {
    /// The counter in this file, at zero if it is not there.
    pub fn open(path: &Path) -> Result<Self> {
        CounterFile::open(path).map(Self)
    }

    /// The number.
    pub fn read(&mut self) -> Result<u64> {
        self.0.look()?;
        Ok(self.0.number)
    }

    /// Writes the number.
    pub fn write(&mut self, new: u64) -> Result<()> {
        self.0.step(&CounterStep::Write(ANY, new)).map(drop)
    }
}

/// The token of one who shows none: no other is older or newer.
const ANY: u64 = 0;

/// Two numbers, as a file of the steps that made them: whoever makes a step appends it, in one call, and learns what came of
/// it from all that stand before it. No lock is taken, since a process that is stopped would keep it: a resource does not
/// stand still with one of its clients.
#[derive(Debug)]
struct CounterFile {
    file: File,
    /// How much of the file is in the numbers below.
    folded: u64,
    number: u64,
    highest: u64,
    last_write: u64,
}

/// One step, with the token that it shows.
enum CounterStep {
    Read(u64),
    ReadShared(u64),
    Write(u64, u64),
}

impl CounterFile {
    fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        Ok(Self { file, folded: 0, number: 0, highest: 0, last_write: 0 })
    }

    /// True unless the token was older than one before it.
    fn step(&mut self, step: &CounterStep) -> Result<bool> {
        self.file.write_all(&step.to_bytes())?;
        // What is appended moves the place of this file to its own end, wherever others have written meanwhile.
        let end = self.file.stream_position()?;
        self.fold(end)
    }

    /// Without a step of its own.
    fn look(&mut self) -> Result<()> {
        let end = self.file.metadata()?.len();
        // The last one may be on its way.
        self.fold(end - end % CounterStep::LENGTH).map(drop)
    }

    /// What the last step before this place came to.
    fn fold(&mut self, end: u64) -> Result<bool> {
        let mut bytes = vec![0; usize::try_from(end - self.folded).unwrap_or_default()];
        self.file.read_exact_at(&mut bytes, self.folded)?;
        self.folded = end;
        let steps = bytes.chunks_exact(CounterStep::LENGTH as usize).map(CounterStep::from_bytes);
        let mut accepted = false;
        for step in steps {
            accepted = self.accepts(&step?);
        }
        Ok(accepted)
    }

    fn accepts(&mut self, step: &CounterStep) -> bool {
        let (CounterStep::Read(token) | CounterStep::ReadShared(token) | CounterStep::Write(token, _)) =
            *step;
        let mark = if matches!(step, CounterStep::ReadShared(_)) { self.last_write } else { self.highest };
        let fresh = token >= mark;
        self.highest = token.max(self.highest);
        if let (true, CounterStep::Write(_, new)) = (fresh, step) {
            (self.number, self.last_write) = (*new, token);
        }
        fresh
    }
}

impl CounterStep {
    /// A line: what it is, the token, the number.
    const LENGTH: u64 = 44;

    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Read(token) => format!("r {token:020} {:020}\n", 0),
            Self::ReadShared(token) => format!("s {token:020} {:020}\n", 0),
            Self::Write(token, number) => format!("w {token:020} {number:020}\n"),
        }
        .into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text.split_whitespace();
        let (verb, mut numbers) = (words.next(), words.map(str::parse));
        match (verb, numbers.next(), numbers.next()) {
            (Some("r"), Some(Ok(token)), _) => Ok(Self::Read(token)),
            (Some("s"), Some(Ok(token)), _) => Ok(Self::ReadShared(token)),
            (Some("w"), Some(Ok(token)), Some(Ok(number))) => Ok(Self::Write(token, number)),
            _ => Err(Error::new(ErrorKind::InvalidData, format!("{text:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_token_can_neither_read_nor_write() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fenced");
        let (mut one, mut two) = (FencedCounter::open(&path).unwrap(), FencedCounter::open(&path).unwrap());
        assert_eq!(one.read(3).unwrap(), Some(0));
        assert!(one.write(3, 1).unwrap(), "a token was refused that is the highest");
        assert_eq!(two.read(5).unwrap(), Some(1));
        assert!(!one.write(3, 2).unwrap(), "a newer token had been shown, by a reader");
        assert_eq!(one.read(4).unwrap(), None);
        assert!(two.write(5, 2).unwrap());
        assert_eq!(two.read(5).unwrap(), Some(2));
    }

    #[test]
    fn reader_is_refused_after_a_later_write_alone_and_refuses_earlier_writers() {
        let directory = tempfile::tempdir().unwrap();
        let mut counter = FencedCounter::open(&directory.path().join("fenced")).unwrap();
        assert_eq!(counter.read_shared(5).unwrap(), Some(0));
        assert_eq!(counter.read_shared(4).unwrap(), Some(0), "the other reader has not written");
        assert!(!counter.write(3, 1).unwrap(), "a stale writer was accepted under readers");
        assert!(counter.write(6, 2).unwrap());
        assert_eq!(counter.read_shared(5).unwrap(), None, "a stale reader was accepted after a writer");
        assert_eq!(counter.read_shared(7).unwrap(), Some(2));
    }

    /// Like a client that is stopped in the middle of a step.
    #[test]
    fn file_locked_by_a_stopped_client_blocks_no_other_client() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fenced");
        let kept = File::create(&path).unwrap();
        kept.lock().unwrap();
        let (done, outcome) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(FencedCounter::open(&path).unwrap().read(1).unwrap()));
        let waited = std::time::Duration::from_secs(10);
        assert_eq!(
            outcome.recv_timeout(waited),
            Ok(Some(0)),
            "the resource stands still with one of its clients"
        );
        drop(kept);
    }

    #[test]
    fn steps_of_many_at_once_are_in_one_order() {
        const TIMES: u64 = 2_000;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fenced");
        let (turn, mut seen) = (std::sync::atomic::AtomicU64::new(1), FencedCounter::open(&path).unwrap());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut counter = FencedCounter::open(&path).unwrap();
                    for _ in 0..TIMES {
                        let token = turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        // Refused, if another one was here with a newer token.
                        if counter.read(token).unwrap().is_some() {
                            counter.write(token, token).unwrap();
                        }
                    }
                });
            }
            let mut before = 0;
            while before < 4 * TIMES {
                let now = seen.highest().unwrap();
                assert!(now >= before, "the highest token went back from {before} to {now}");
                before = now;
            }
        });
        let mut fresh = FencedCounter::open(&path).unwrap();
        let number = fresh.read(u64::MAX).unwrap().unwrap();
        assert_eq!(
            Some(number),
            seen.read(u64::MAX).unwrap(),
            "who reads it all, and who read it as it grew"
        );
    }

    #[test]
    fn plain_counter_accepts_every_write() {
        let directory = tempfile::tempdir().unwrap();
        let mut counter = PlainCounter::open(&directory.path().join("plain")).unwrap();
        assert_eq!(counter.read().unwrap(), 0);
        counter.write(7).unwrap();
        counter.write(6).unwrap();
        assert_eq!(counter.read().unwrap(), 6);
    }
}
