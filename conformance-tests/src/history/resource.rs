use leasehold_core::LockMode;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Result, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A counter in a file, shared by the processes of this host, that looks at tokens: what a lock with a fencing token is
/// to protect. Each call is one atomic step. Every client opens it for itself.
///
/// Reading shows the token as well. Readers of a shared lock leave a mark of their own, so that they do not refuse each other:
/// an exclusive holder is refused if any later holder was here, a reader only if a later one has written. A resource that looks at
/// tokens only when it is written to accepts the write of an older grant after a newer one has read, and the newer one then
/// overwrites it: an update is lost although every check was passed.
///
/// The file has the steps that made the counter: a client appends its step, in one call, and learns what came of it from all that
/// stand before it. No lock is taken, since a process that is stopped would keep it: a resource does not stand still with one
/// of its clients.
#[derive(Debug)]
pub(crate) struct FencedCounter {
    file: File,
    /// How much of the file is in the numbers below.
    folded: u64,
    number: u64,
    highest: u64,
    last_write: u64,
}

/// The token of clients that show none. A counter that is shown no other is as safe as the lock alone makes it.
pub(crate) const NO_TOKEN: u64 = 0;

/// One step, with the token that it shows. A line of the file.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum CounterStep {
    Read(u64),
    ReadShared(u64),
    Write(u64, u64),
}

impl FencedCounter {
    /// The counter in this file, at zero if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        Ok(Self { file, folded: 0, number: 0, highest: 0, last_write: 0 })
    }

    /// The number, or `None` for a token that is older than one which was shown before; for a reader of a shared lock, than one
    /// which was written with. Earlier writers are refused from now on.
    pub(crate) fn read(&mut self, token: u64, mode: LockMode) -> Result<Option<u64>> {
        let step = if mode.is_shared() { CounterStep::ReadShared(token) } else { CounterStep::Read(token) };
        Ok(self.step(step)?.then_some(self.number))
    }

    /// Writes the number, unless the token is older than one which was shown before: false then.
    pub(crate) fn write(&mut self, token: u64, new: u64) -> Result<bool> {
        self.step(CounterStep::Write(token, new))
    }

    /// The highest token that was shown so far. For an onlooker, who makes no step.
    pub(crate) fn highest(&mut self) -> Result<u64> {
        self.look()?;
        Ok(self.highest)
    }

    /// The number. For an onlooker, who makes no step.
    pub(crate) fn number(&mut self) -> Result<u64> {
        self.look()?;
        Ok(self.number)
    }

    /// True unless the token was older than one before it.
    fn step(&mut self, step: CounterStep) -> Result<bool> {
        let line = serde_json::to_string(&step)? + "\n";
        self.file.write_all(line.as_bytes())?;
        // What is appended moves the place of this file to its own end, wherever others have written meanwhile.
        let end = self.file.stream_position()?;
        self.fold(end)
    }

    fn look(&mut self) -> Result<()> {
        let end = self.file.metadata()?.len();
        self.fold(end).map(drop)
    }

    /// What the last step before this place came to.
    fn fold(&mut self, end: u64) -> Result<bool> {
        let mut bytes = vec![0; usize::try_from(end - self.folded).unwrap_or_default()];
        self.file.read_exact_at(&mut bytes, self.folded)?;
        let mut accepted = false;
        // A last line without an end is on its way.
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            accepted = self.accepts(serde_json::from_slice(line)?);
            self.folded += line.len() as u64;
        }
        Ok(accepted)
    }

    fn accepts(&mut self, step: CounterStep) -> bool {
        let (CounterStep::Read(token) | CounterStep::ReadShared(token) | CounterStep::Write(token, _)) = step;
        let mark = if matches!(step, CounterStep::ReadShared(_)) { self.last_write } else { self.highest };
        let fresh = token >= mark;
        self.highest = token.max(self.highest);
        if let (true, CounterStep::Write(_, new)) = (fresh, step) {
            (self.number, self.last_write) = (new, token);
        }
        fresh
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
        assert_eq!(one.read(3, LockMode::Exclusive).unwrap(), Some(0));
        assert!(one.write(3, 1).unwrap(), "a token was refused that is the highest");
        assert_eq!(two.read(5, LockMode::Exclusive).unwrap(), Some(1));
        assert!(!one.write(3, 2).unwrap(), "a newer token had been shown, by a reader");
        assert_eq!(one.read(4, LockMode::Exclusive).unwrap(), None);
        assert!(two.write(5, 2).unwrap());
        assert_eq!(two.read(5, LockMode::Exclusive).unwrap(), Some(2));
    }

    #[test]
    fn reader_is_refused_after_a_later_write_alone_and_refuses_earlier_writers() {
        let directory = tempfile::tempdir().unwrap();
        let mut counter = FencedCounter::open(&directory.path().join("fenced")).unwrap();
        assert_eq!(counter.read(5, LockMode::Shared).unwrap(), Some(0));
        assert_eq!(counter.read(4, LockMode::Shared).unwrap(), Some(0), "the other reader has not written");
        assert!(!counter.write(3, 1).unwrap(), "a stale writer was accepted under readers");
        assert!(counter.write(6, 2).unwrap());
        assert_eq!(
            counter.read(5, LockMode::Shared).unwrap(),
            None,
            "a stale reader was accepted after a writer"
        );
        assert_eq!(counter.read(7, LockMode::Shared).unwrap(), Some(2));
    }

    /// Like a client that is stopped in the middle of a step.
    #[test]
    fn file_locked_by_a_stopped_client_blocks_no_other_client() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fenced");
        let kept = File::create(&path).unwrap();
        kept.lock().unwrap();
        let (done, outcome) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            done.send(FencedCounter::open(&path).unwrap().read(1, LockMode::Exclusive).unwrap())
        });
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
                        if counter.read(token, LockMode::Exclusive).unwrap().is_some() {
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
        let number = fresh.read(u64::MAX, LockMode::Exclusive).unwrap().unwrap();
        assert_eq!(
            Some(number),
            seen.read(u64::MAX, LockMode::Exclusive).unwrap(),
            "who reads it all, and who read it as it grew"
        );
    }

    #[test]
    fn counter_without_tokens_accepts_every_write() {
        let directory = tempfile::tempdir().unwrap();
        let mut counter = FencedCounter::open(&directory.path().join("plain")).unwrap();
        assert_eq!(counter.number().unwrap(), 0);
        assert!(counter.write(NO_TOKEN, 7).unwrap());
        assert!(counter.write(NO_TOKEN, 6).unwrap());
        assert_eq!(counter.number().unwrap(), 6);
    }
}
