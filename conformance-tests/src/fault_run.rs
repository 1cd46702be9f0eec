//! A store under faults, clients that work in it in processes of their own, and the history that they write: what a cell of the
//! matrix and a round of the soak have in common.

use crate::checker::{CheckReport, Model, check};
use crate::context::Context;
use crate::faults::{ClientSetup, FaultTiming, Ground, Injection, Time, injection};
use crate::history::{FencedCounter, History, Recorder};
use crate::stop::{Stop, Verdict};
use crate::worker::Worker;
use crate::workload::{FENCED, Workload};
use leasehold_core::{Fault, LockName, Semantics};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A store, and the history of the clients that want one lock in it.
pub(crate) struct FaultRun {
    pub(crate) cx: Context,
    pub(crate) semantics: Semantics,
    pub(crate) name: LockName,
    pub(crate) directory: TempDir,
    pub(crate) recorder: Recorder,
}

/// A fault of a run, ready to be made.
pub(crate) struct PreparedFault {
    pub(crate) fault: Fault,
    pub(crate) injection: Box<dyn Injection>,
    pub(crate) timing: FaultTiming,
    pub(crate) setup: ClientSetup,
}

impl FaultRun {
    /// A run whose history is in a directory below `root`.
    pub(crate) fn new(cx: Context, semantics: Semantics, name: LockName, root: &Path) -> Result<Self, Stop> {
        let directory = tempfile::tempdir_in(root)?;
        let recorder = Recorder::create(directory.path())?;
        Ok(Self { cx, semantics, name, directory, recorder })
    }

    /// Prepares a fault for leases of this length, or of its own. Before any client is connected.
    pub(crate) async fn prepare(&self, fault: Fault, lease: Option<Duration>) -> Result<PreparedFault, Stop> {
        let mut injection = injection(fault, self.cx.store(), &self.semantics)?;
        let timing = injection.timing();
        let setup = injection.prepare(self.cx.store(), lease.unwrap_or(timing.ttl)).await?;
        Ok(PreparedFault { fault, injection, timing, setup })
    }

    pub(crate) async fn worker(
        &self,
        address: &str,
        environment: &[(String, String)],
    ) -> Result<Worker, Stop> {
        Worker::start(self.cx.subject().name(), address, environment).await
    }

    pub(crate) fn workload(&self, name: &LockName, seed: u64, ttl: Duration) -> Workload {
        let directory = self.directory.path().to_owned();
        Workload { directory, name: name.clone(), seed, ttl, lasts: Duration::ZERO, readers: 0 }
    }

    pub(crate) fn ground<'a>(&'a self, holder: &'a mut Worker, others: Option<&'a mut Worker>) -> Ground<'a> {
        Ground { store: self.cx.store(), holder, others, name: &self.name, recorder: &self.recorder }
    }

    /// Waits for so long, and then until another client has had the lock.
    pub(crate) async fn watch(&self, time: Time) -> Verdict {
        let mut counter = FencedCounter::open(&self.directory.path().join(FENCED))?;
        let (start, before) = (Instant::now(), counter.highest()?);
        while start.elapsed() < time.least || (start.elapsed() < time.most && counter.highest()? <= before) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    pub(crate) fn check(&self, model: &Model) -> Result<(History, CheckReport), Stop> {
        let history = History::read(self.directory.path())?;
        let report = check(&history, model);
        Ok((history, report))
    }
}

impl PreparedFault {
    /// Makes the fault. It stands in the history from just before, and is over there if it could be made only by half.
    pub(crate) async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        ground.recorder.injected(self.fault, self.target(ground.holder))?;
        let done = self.injection.inject(ground).await;
        if done.is_err() {
            self.record_end(ground)?;
        }
        done
    }

    /// Heals the fault. It stands in the history until just after.
    pub(crate) async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        let done = self.injection.heal(ground).await;
        self.record_end(ground)?;
        done
    }

    fn record_end(&self, ground: &Ground<'_>) -> Verdict {
        // The dead stay dead.
        if self.fault == Fault::HolderKilled {
            return Ok(());
        }
        Ok(ground.recorder.healed(self.fault, self.target(ground.holder))?)
    }

    /// True if no process but the holder's feels it.
    pub(crate) fn hits_holder_alone(&self) -> bool {
        self.timing.hits_holder || self.setup.holder != self.setup.others
    }

    fn target(&self, holder: &Worker) -> Option<u32> {
        self.hits_holder_alone().then(|| holder.process())
    }
}
