//! S: histories at random, recorded, and held against what a lock is.

use crate::cases::prelude::*;
use crate::checker::{CheckReport, Least, Model, Rule, check};
use crate::history::{History, Recorder, read};
use crate::workload::Workload;
use leasehold_core::Fault;
use tempfile::TempDir;

pub(super) const CASES: CaseTable = cases![
    S01 random_history_of_many_tasks_is_that_of_one_lock,
    S02 random_history_of_processes_that_stop_and_die_is_that_of_one_lock,
    S03 counter_that_checks_tokens_loses_nothing_where_another_one_does,
];

/// A history that is being recorded.
pub(super) struct RecordedRun<'a> {
    cx: &'a Context,
    pub(super) directory: TempDir,
    seed: u64,
    ttl: Duration,
    readers: u32,
    least: Least,
    recorder: Recorder,
}

impl<'a> RecordedRun<'a> {
    pub(super) fn new(cx: &'a Context, ttl: Duration) -> Result<Self, Stop> {
        let directory = tempfile::tempdir()?;
        let recorder = Recorder::create(directory.path())?;
        Ok(Self { cx, directory, seed: cx.seed(), ttl, readers: 0, least: Least::USUAL, recorder })
    }

    /// What the history must have, or it shows nothing.
    pub(super) fn with_least(self, least: Least) -> Self {
        Self { least, ..self }
    }

    /// How many of a hundred holds are shared.
    pub(super) fn with_readers(self, readers: u32) -> Self {
        Self { readers, ..self }
    }

    fn workload(&self, client: u64, lasts: Duration) -> Workload {
        Workload {
            directory: self.directory.path().to_owned(),
            name: self.cx.name(),
            seed: self.seed.wrapping_add(client),
            ttl: self.ttl,
            lasts,
            readers: self.readers,
        }
    }

    /// Tasks of this process, each with a client of its own.
    pub(super) async fn run_tasks(&self, tasks: u64, lasts: Duration) -> Verdict {
        let mut running = tokio::task::JoinSet::new();
        for task in 0..tasks {
            let (client, workload) = (self.cx.client().await?, self.workload(task, lasts));
            running.spawn(async move { workload.run(client).await });
        }
        while let Some(task) = running.join_next().await {
            task??;
        }
        Ok(())
    }

    /// What the checker says, with room for a machine that runs many cases at once: other cases measure times.
    async fn report(&self) -> Result<CheckReport, Stop> {
        let semantics = self.cx.semantics().await?;
        let mut model = Model::from_semantics(&semantics, self.ttl, self.cx.slack() * 4);
        model.least = self.least;
        let history = History::from_events(read(self.directory.path())?)
            .map_err(|error| Stop::Failed(format!("the history is none: {error}")))?;
        Ok(check(&history, &model))
    }

    /// Ends the case: the history must be accepted. What is not is kept, and can be run again.
    pub(super) async fn judge(self) -> Verdict {
        let outcome = self.report().await.map(|report| (report.is_accepted(), report.to_string()));
        let problem = match outcome {
            Ok((true, _)) => return Ok(()),
            Ok((false, report)) => report,
            Err(stop) => format!("{stop:?}"),
        };
        let kept = self.directory.keep();
        Err(Stop::Failed(format!(
            "LEASEHOLD_SEED={}, the history is in {}: {problem}",
            self.seed,
            kept.display()
        )))
    }
}

async fn random_history_of_many_tasks_is_that_of_one_lock(cx: &Context) -> Verdict {
    // Short leases: many of them end before their holders let go.
    let run = RecordedRun::new(cx, cx.ttl() / 4)?;
    run.run_tasks(4, cx.ttl() * 2).await?;
    run.judge().await
}

/// Three processes and a task. One process is stopped for longer than its lease, another one dies, each while it holds.
async fn random_history_of_processes_that_stop_and_die_is_that_of_one_lock(cx: &Context) -> Verdict {
    let run = RecordedRun::new(cx, cx.ttl())?;
    let (mut stopped, mut killed, mut busy) = (cx.worker().await?, cx.worker().await?, cx.worker().await?);
    let lasts = cx.ttl() * 4;
    let tasks = async {
        busy.begin_history(&run.workload(10, lasts)).await?;
        run.run_tasks(1, lasts).await?;
        busy.done().await
    };
    let accidents = async {
        stopped.begin_effect(&run.workload(20, lasts)).await?;
        stopped.done().await?;
        stop(&run, &stopped, cx.ttl() * 3 / 2).await?;
        stopped.end_effect().await?;
        killed.begin_effect(&run.workload(30, lasts)).await?;
        killed.done().await?;
        run.recorder.injected(Fault::HolderKilled, Some(killed.process()))?;
        killed.kill();
        Ok(())
    };
    let (tasks, accidents): (Verdict, Verdict) = tokio::join!(tasks, accidents);
    tasks.and(accidents)?;
    // As if nothing had been, as soon as the dead one's hold is over.
    free_within(&cx.client().await?, &cx.name(), cx.patience(), "after a holder was killed").await?;
    run.run_tasks(3, cx.ttl()).await?;
    run.judge().await
}

async fn stop(run: &RecordedRun<'_>, worker: &Worker, time: Duration) -> Verdict {
    run.recorder.injected(Fault::HolderPaused, Some(worker.process()))?;
    worker.pause();
    tokio::time::sleep(time).await;
    worker.resume();
    Ok(run.recorder.healed(Fault::HolderPaused, Some(worker.process()))?)
}

/// Both holders have read before the first one is stopped or after the second one has it; both write. What a lock alone
/// cannot do is shown beside what it can with a token.
async fn counter_that_checks_tokens_loses_nothing_where_another_one_does(cx: &Context) -> Verdict {
    let run = RecordedRun::new(cx, cx.ttl())?;
    let (mut first, mut second) = (cx.worker().await?, cx.worker().await?);
    let (name, lasts) = (run.workload(0, Duration::ZERO), Duration::ZERO);
    first.begin_effect(&name).await?;
    first.done().await?;
    run.recorder.injected(Fault::HolderPaused, Some(first.process()))?;
    first.pause();
    second.begin_effect(&run.workload(1, lasts)).await?;
    second.done().await?;
    second.end_effect().await?;
    first.resume();
    run.recorder.healed(Fault::HolderPaused, Some(first.process()))?;
    first.end_effect().await?;

    let report = run.report().await?;
    ensure!(report.violations.is_empty(), "{report}");
    let (fenced, plain) = (report.measured.fenced, report.measured.plain);
    ensure!((fenced.accepted, fenced.refused, fenced.lost) == (1, 1, 0), "with tokens: {fenced:?}");
    ensure!((plain.accepted, plain.lost) == (2, 1), "without tokens: {plain:?}");
    ensure!(report.count(Rule::Belief) == 0, "two believed at once: {report}");
    Ok(())
}
