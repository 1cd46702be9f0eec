//! A history that is being recorded, and then judged by the checker.

use crate::cases::prelude::*;
use crate::checker::{CheckReport, Least, Model, check};
use crate::history::{History, Recorder};
use crate::workload::Workload;
use tempfile::TempDir;

pub(super) struct RecordedRun<'a> {
    cx: &'a Context,
    pub(super) directory: TempDir,
    ttl: Duration,
    /// How many of a hundred holds are shared.
    pub(super) readers: u32,
    /// The least that the history must have, or it shows nothing.
    pub(super) least: Least,
    pub(super) recorder: Recorder,
}

impl<'a> RecordedRun<'a> {
    pub(super) fn new(cx: &'a Context, ttl: Duration) -> Result<Self, Stop> {
        let directory = tempfile::tempdir()?;
        let recorder = Recorder::create(directory.path())?;
        Ok(Self { cx, directory, ttl, readers: 0, least: Least::USUAL, recorder })
    }

    pub(super) fn workload(&self, client: u64, lasts: Duration) -> Workload {
        Workload {
            directory: self.directory.path().to_owned(),
            name: self.cx.name(),
            seed: self.cx.seed().wrapping_add(client),
            ttl: self.ttl,
            lasts,
            readers: self.readers,
        }
    }

    /// Tasks of this process, each with a client of its own.
    pub(super) async fn run_tasks(&self, tasks: u64, lasts: Duration) -> Verdict {
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (client, workload) = (self.cx.client().await?, self.workload(task, lasts));
            running.spawn(async move { workload.run(client).await });
        }
        joined(running).await.map(drop)
    }

    /// The report of the checker, with room for a machine that runs many cases at once: other cases measure times.
    pub(super) async fn report(&self) -> Result<CheckReport, Stop> {
        let semantics = self.cx.semantics().await?;
        let mut model = Model::from_semantics(&semantics, self.ttl, self.room());
        model.least = self.least;
        Ok(check(&History::read(self.directory.path())?, &model))
    }

    pub(super) fn room(&self) -> Duration {
        self.cx.slack() * 4
    }

    /// Ends the case: the history must be accepted. A rejected history is kept, and can be run again.
    pub(super) async fn judge(self) -> Verdict {
        let (seed, room, report) = (self.cx.seed(), self.room(), self.report().await?);
        if report.is_accepted() {
            return Ok(());
        }
        let kept = self.directory.keep();
        let words = format!("LEASEHOLD_SEED={seed}, the history is in {}: {report}", kept.display());
        report.verdict(words, room)
    }
}
