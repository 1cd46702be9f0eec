//! A backend on one file, complete, and the suite over it.

use async_trait::async_trait;
use leasehold_conformance::{Cannot, Case, Store, Subject};
use leasehold_core::{
    Attempt, Busy, Claim, Clock, DistributedLock, Error, ErrorKind, ExpiryClock, Fault, FencingToken, Grant,
    LockAdmin, LockBackend, LockClient, LossCause, Moment, Outcome, OwnerId, Promises, Reach, Release,
    Renewal, Result, Semantics, SystemClock, TokenClass, renew_each,
};
use serde_json::{from_slice, to_vec};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

/// Of each name: the owner, the end of the lease in µs of the host's clock, and the last token.
type Locks = BTreeMap<String, (String, u64, u64)>;

/// Locks in a file, between the processes of one host.
#[derive(Debug)]
struct Toy {
    file: PathBuf,
}

impl Toy {
    /// Check and effect, in one step: the kernel lets one process at a time pass, and frees the way if it dies. A file
    /// that takes the old one's place is never half written.
    fn step<T>(&self, step: impl FnOnce(&mut Locks, u64) -> T) -> Result<T> {
        let run = || -> io::Result<T> {
            let turn = fs::File::create(self.file.with_extension("turn"))?;
            turn.lock()?;
            let mut locks = match fs::read(&self.file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Locks::default(),
                read => from_slice(&read?)?,
            };
            let now = SystemClock::new().now().since(Moment::ORIGIN).as_micros();
            let outcome = step(&mut locks, u64::try_from(now).unwrap_or(u64::MAX));
            let new = self.file.with_extension("new");
            fs::write(&new, to_vec(&locks)?)?;
            fs::rename(&new, &self.file)?;
            Ok(outcome)
        };
        // It may have failed after the file was replaced: nobody knows.
        run().map_err(|error| {
            Error::new(ErrorKind::Indeterminate, "the file is out of order").with_source(error)
        })
    }

    fn renew_one(&self, claim: &Claim) -> Result<Renewal> {
        self.step(|locks, now| match locks.get_mut(claim.name().as_str()) {
            Some((owner, end, _)) if *owner == claim.owner().to_hex() && *end > now => {
                *end = (*end).max(now + claim.ttl_millis() * 1000);
                Renewal::Renewed
            }
            Some((_, end, _)) if *end > now => Renewal::Lost(LossCause::Taken),
            _ => Renewal::Lost(LossCause::Gone),
        })
    }
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
        self.step(|locks, now| {
            let (owner, end, token) = locks.entry(claim.name().to_string()).or_default();
            let mine = *owner == claim.owner().to_hex();
            if *end > now && !mine {
                return Attempt::Busy(Busy::new().with_end(Duration::from_micros(*end - now)));
            }
            if *end <= now {
                *token += 1;
            }
            (*owner, *end) = (claim.owner().to_hex(), (*end).max(now + claim.ttl_millis() * 1000));
            Attempt::Granted(Grant::new(FencingToken::new(*token)))
        })
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renew_each(claims, async |claim| self.renew_one(claim)).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.step(|locks, now| match locks.get_mut(claim.name().as_str()) {
            Some((owner, end, _)) if *owner == claim.owner().to_hex() && *end > now => {
                (*owner, *end) = (String::new(), now + u64::try_from(linger.as_micros()).unwrap_or(0));
                Release::Released
            }
            _ => Release::NotHeld,
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

/// What the suite has to know.
#[derive(Debug)]
struct ToySubject;

#[derive(Debug)]
struct Directory(tempfile::TempDir);

#[async_trait]
impl Subject for ToySubject {
    fn name(&self) -> &str {
        "toy"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        // In memory, where there is such a place. Who is stopped within a step keeps all others out, and waiting for a disk is
        // nearly all of it.
        let place = std::path::Path::new("/dev/shm");
        let directory = if place.is_dir() { tempfile::tempdir_in(place) } else { tempfile::tempdir() };
        Ok(Box::new(Directory(directory.map_err(Cannot::failed)?)))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(LockClient::new(Arc::new(Toy { file: address.into() }))))
    }

    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        match case.id {
            "D16" => {
                Err(Cannot::new("ten thousand locks are too many for a file that each step writes anew"))
            }
            _ => Ok(()),
        }
    }
}

impl Store for Directory {
    fn address(&self) -> String {
        self.0.path().join("locks").display().to_string()
    }
}

leasehold_conformance::main!(ToySubject);
