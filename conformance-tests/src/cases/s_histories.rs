//! S: histories at random, recorded, and held against what a lock is.

use crate::cases::prelude::*;
use crate::cases::random_steps::run_histories;
use crate::cases::recorded_run::RecordedRun;
use crate::running_client::Role;
use crate::worker::Request;
use crate::workload::Workload;
use leasehold_core::{Fault, LockMode};

pub(super) const CASES: CaseTable = cases![
    S01 random_history_of_many_tasks_is_that_of_one_lock,
    S02 random_history_of_processes_that_stop_and_die_is_that_of_one_lock,
    S03 counter_that_checks_tokens_loses_nothing_where_another_one_does,
    S04 random_steps_of_owners_are_those_of_a_model
        = run_histories(|_| vec![vec![LockMode::Exclusive]; 4], &[LockMode::Exclusive], false),
];

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
        busy.send(&Request::History(run.workload(10, lasts))).await?;
        run.run_tasks(1, lasts).await?;
        busy.done().await
    };
    let accidents = async {
        begin_to_write(&mut stopped, run.workload(20, lasts)).await?;
        run.recorder.injected(Fault::HolderPaused, Some(stopped.process()))?;
        stopped.pause();
        tokio::time::sleep(cx.ttl() * 3 / 2).await;
        stopped.resume();
        run.recorder.healed(Fault::HolderPaused, Some(stopped.process()))?;
        stopped.order(Request::Leave(None)).await?;
        begin_to_write(&mut killed, run.workload(30, lasts)).await?;
        run.recorder.injected(Fault::HolderKilled, Some(killed.process()))?;
        killed.kill();
        Ok(())
    };
    let (tasks, accidents): (Verdict, Verdict) = tokio::join!(tasks, accidents);
    tasks.and(accidents)?;
    // Once the hold of the killed process is over, all goes on as before.
    free_within(&cx.client().await?, &cx.name(), cx.patience(), "after a holder was killed").await?;
    run.run_tasks(3, cx.ttl()).await?;
    run.judge().await
}

/// The process takes the lock and reads; it writes when it is told to leave.
async fn begin_to_write(worker: &mut Worker, workload: Workload) -> Verdict {
    worker.order(Request::Start(Role::LateWriter, workload)).await?;
    worker.held().await.map(drop)
}

/// Kleppmann's scenario, with real processes: the first holder is stopped between its read and its write, and the second one reads and writes meanwhile. Where no token is
/// checked, the late write of the first loses an update.
async fn counter_that_checks_tokens_loses_nothing_where_another_one_does(cx: &Context) -> Verdict {
    let run = RecordedRun::new(cx, cx.ttl())?;
    let (mut first, mut second) = (cx.worker().await?, cx.worker().await?);
    begin_to_write(&mut first, run.workload(0, Duration::ZERO)).await?;
    run.recorder.injected(Fault::HolderPaused, Some(first.process()))?;
    first.pause();
    begin_to_write(&mut second, run.workload(1, Duration::ZERO)).await?;
    second.order(Request::Leave(None)).await?;
    first.resume();
    run.recorder.healed(Fault::HolderPaused, Some(first.process()))?;
    first.order(Request::Leave(None)).await?;
    let report = run.report().await?;
    if !report.violations.is_empty() {
        return report.verdict(report.to_string(), run.room());
    }
    let (fenced, plain) = (report.measured.fenced, report.measured.plain);
    ensure!((fenced.accepted, fenced.refused, fenced.lost) == (1, 1, 0), "with tokens: {fenced:?}");
    ensure!((plain.accepted, plain.lost) == (2, 1), "without tokens: {plain:?}");
    Ok(())
}
