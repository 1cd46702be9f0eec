//! A store under faults, clients that work in it in processes of their own, and the history that they write: what a cell of the
//! matrix and a round of the soak have in common.

use crate::checker::{CheckReport, Model, check};
use crate::context::Context;
use crate::faults::{Ground, Time};
use crate::history::{FencedCounter, History, Recorder};
use crate::stop::{Stop, Verdict};
use crate::worker::{Environment, Worker};
use crate::workload::{FENCED, Workload};
use leasehold_core::{LockName, Semantics};
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

impl FaultRun {
    /// A run whose history is in a directory below `root`.
    pub(crate) fn new(cx: Context, semantics: Semantics, name: LockName, root: &Path) -> Result<Self, Stop> {
        let directory = tempfile::tempdir_in(root)?;
        let recorder = Recorder::create(directory.path())?;
        Ok(Self { cx, semantics, name, directory, recorder })
    }

    pub(crate) async fn worker(&self, address: &str, environment: &Environment) -> Result<Worker, Stop> {
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
