//! A backend on one file, complete, and the suite over it.

use async_trait::async_trait;
use leasehold_conformance::{Stop, Store, Subject};
use leasehold_core::{
    Attempt, Busy, Claim, Clock, DistributedLock, Error, ErrorKind, ExpiryClock, Fault, FencingToken, Grant,
    LockAdmin, LockBackend, LockClient, LossCause, Moment, Outcome, OwnerId, Promises, Reach, Release,
    Renewal, Result, Semantics, SystemClock, TokenClass, renew_each,
};
use serde_json::{from_slice, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Locks in a log, between the processes of one host. Each request adds a line, and the order of the lines decides: every
/// reader comes to the same answer. No process waits for another's step, so a process that is stopped within a step keeps
/// no other out.
#[derive(Debug)]
struct Toy(Mutex<(File, Table)>);

/// The state after the lines that were read. Times are in µs, by the host's clock.
#[derive(Debug, Default)]
struct Table {
    read: u64,
    now: u64,
    locks: BTreeMap<String, (String, u64, u64)>,
}

/// A request (acquire, renew or end), the name, the owner, the time, and the length.
type Line = (char, String, String, u64, u64);

/// The token, or the time for which another owner still holds: zero if the lock is free.
enum Answer {
    Yes(u64),
    No(Duration),
}

impl Table {
    /// Check and effect, in one step. Time does not go back: a line counts as no earlier than the lines before it.
    fn apply(&mut self, (wish, name, claimant, at, lasts): Line) -> Answer {
        self.now = self.now.max(at);
        let (owner, end, token) = self.locks.entry(name).or_default();
        let held = *end > self.now;
        match (wish, held) {
            (_, true) if *owner != claimant => return Answer::No(Duration::from_micros(*end - self.now)),
            ('e', true) => (*owner, *end) = (String::new(), self.now + lasts),
            ('a', _) | ('r', true) => {
                *token += u64::from(!held);
                (*owner, *end) = (claimant, (*end).max(self.now + lasts));
            }
            _ => return Answer::No(Duration::ZERO),
        }
        Answer::Yes(*token)
    }

    /// Reads on, up to where the file was written last.
    fn read(&mut self, log: &mut File) -> io::Result<Answer> {
        let end = log.stream_position()?;
        // If the file has become shorter, it is not the log that was read.
        let more = end.checked_sub(self.read).ok_or(io::ErrorKind::InvalidData)?;
        let mut new = Vec::new();
        log.seek(SeekFrom::Start(self.read))?;
        log.take(more).read_to_end(&mut new)?;
        self.read = end;
        let lines = new.split(|byte| *byte == b'\n').filter_map(|line| from_slice(line).ok());
        lines.map(|line| self.apply(line)).last().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Toy {
    fn open(log: &str) -> Result<Self> {
        let log = File::options().create(true).read(true).append(true).open(log);
        Ok(Self(Mutex::new((log.map_err(|error| failed(ErrorKind::Unavailable, error))?, Table::default()))))
    }

    /// Adds a line in one write, which no other write splits, and reads to its end: the last answer is its own.
    fn step(&self, wish: char, claim: &Claim, lasts: Duration) -> Result<Answer> {
        let mut locked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (log, table) = &mut *locked;
        let now = micros(SystemClock::new().now().since(Moment::ORIGIN));
        let line = (wish, claim.name().as_str(), claim.owner().to_hex(), now, micros(lasts));
        // On a new line, also after a line that was cut short.
        let line = format!("\n{}\n", json!(line));
        match log.write(line.as_bytes()) {
            Err(error) => Err(failed(ErrorKind::Unavailable, error)),
            // If only its last byte is missing, it counts.
            Ok(length) if length < line.len() => {
                Err(failed(ErrorKind::Indeterminate, io::ErrorKind::StorageFull.into()))
            }
            Ok(_) => table.read(log).map_err(|error| failed(ErrorKind::Indeterminate, error)),
        }
    }

    fn renew_one(&self, claim: &Claim) -> Result<Renewal> {
        Ok(match self.step('r', claim, claim.ttl())? {
            Answer::Yes(_) => Renewal::Renewed,
            Answer::No(Duration::ZERO) => Renewal::Lost(LossCause::Gone),
            Answer::No(_) => Renewal::Lost(LossCause::Taken),
        })
    }
}

fn failed(kind: ErrorKind, error: io::Error) -> Error {
    Error::new(kind, "the log is out of order").with_source(error)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[async_trait]
impl LockBackend for Toy {
    fn semantics(&self) -> Semantics {
        let promises = Promises::new(|fault| match fault {
            Fault::None
            | Fault::HolderKilled
            | Fault::HolderPaused
            | Fault::ExecutorStarved
            | Fault::ClientClockJumps
            | Fault::ClientSuspended => Outcome::Holds,
            Fault::DiskFull => Outcome::Unavailable,
            Fault::RecordDeleted | Fault::DataLost | Fault::PowerLost | Fault::NetworkFileSystem => {
                Outcome::MayBreak
            }
            // There is no server.
            Fault::StorePaused
            | Fault::StoreRestarted
            | Fault::StoreClockForward
            | Fault::StoreClockBack
            | Fault::HolderPartitioned
            | Fault::AcquireReplyLost
            | Fault::FailOver
            | Fault::SplitBrain
            | Fault::MinorityDown
            | Fault::QuorumLost
            | Fault::MemoryFull
            | Fault::ConnectionKilled
            | Fault::Pooler => Outcome::NotApplicable,
        });
        let mut semantics = Semantics::lease("toy", "file", promises);
        (semantics.reach, semantics.expiry_clock) = (Reach::Host, ExpiryClock::Host);
        semantics.token = TokenClass::Stored;
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        Ok(match self.step('a', claim, claim.ttl())? {
            Answer::Yes(token) => Attempt::Granted(Grant::new(FencingToken::new(token))),
            Answer::No(rest) => Attempt::Busy(Busy::new().with_end(rest)),
        })
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renew_each(claims, async |claim| self.renew_one(claim)).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        Ok(match self.step('e', claim, linger)? {
            Answer::Yes(_) => Release::Released,
            Answer::No(_) => Release::NotHeld,
        })
    }

    /// Never: the core asks again at the interval of the semantics.
    async fn changed(&self, _: &Claim) {
        std::future::pending::<()>().await;
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        None
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// The backend as a subject of the suite.
#[derive(Debug)]
struct ToySubject;

#[derive(Debug)]
struct Directory(tempfile::TempDir);

#[async_trait]
impl Subject for ToySubject {
    fn name(&self) -> &str {
        "toy"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        Ok(Box::new(Directory(tempfile::tempdir().map_err(Stop::failed)?)))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(LockClient::new(Arc::new(Toy::open(address)?))))
    }
}

impl Store for Directory {
    fn address(&self) -> String {
        self.0.path().join("locks").display().to_string()
    }
}

leasehold_conformance::main!(ToySubject);
