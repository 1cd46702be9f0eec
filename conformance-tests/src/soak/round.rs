use super::schedule::Schedule;
use super::setup::{MadeFault, SoakSetup, possible};
use crate::checker::{CheckReport, Model, met_a_hold};
use crate::context::Context;
use crate::expect::free_within;
use crate::fault_run::FaultRun;
use crate::faults::usual_lease;
use crate::history::History;
use crate::run_config::RunConfig;
use crate::runner::CaseOutcome;
use crate::running_client::Role;
use crate::stop::{Stop, Verdict};
use crate::subject::Subject;
use crate::time_scale::scaled;
use crate::worker::ClientRequest;
use leasehold_core::{Outcome, Reach};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A round that takes longer than this hangs.
const WATCHDOG: Duration = Duration::from_secs(180);

/// What came of one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Round {
    /// Its number, from zero.
    pub number: u64,
    /// The subject.
    pub subject: String,
    /// What it chose from: a soak of this subject with this seed begins with this round.
    pub seed: u64,
    /// The faults, in their order, with their moments; and which of them could not be made, and why. Empty if the store
    /// could not be started.
    pub schedule: String,
    /// How often the lock was granted.
    pub grants: usize,
    /// Faults that were made.
    pub faults: usize,
    /// Faults that met a holder of the lock.
    pub met: usize,
    /// How it came out. Skipped is one whose history shows nothing: too few met in it, or a fault could only be made by
    /// half.
    pub outcome: CaseOutcome,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

impl Round {
    pub(super) fn new(number: u64, subject: &str, seed: u64) -> Self {
        let (subject, schedule, outcome) = (subject.to_owned(), String::new(), CaseOutcome::Passed);
        Self { number, subject, seed, schedule, grants: 0, faults: 0, met: 0, outcome, took_ms: 0 }
    }

    /// Draws a schedule for this subject, plays it to its end, and judges what was recorded in a directory below `root`. A
    /// rejected history is kept.
    pub(super) async fn play(
        &mut self,
        subject: Arc<dyn Subject>,
        config: RunConfig,
        root: &Path,
    ) -> Verdict {
        let cx = Context::start(subject, "SOAK", config).await?;
        let (semantics, name) = (cx.semantics().await?, cx.name());
        let run = FaultRun::new(cx, semantics, name, root)?;
        let schedule = Schedule::draw(self.seed, &possible(&run), usual_lease());
        self.schedule = schedule.to_string();
        let played = tokio::time::timeout(scaled(WATCHDOG), self.contend(&run, &schedule)).await;
        let played =
            played.unwrap_or_else(|_| Err(Stop::Failed(format!("it hangs: no end after {WATCHDOG:?}"))));
        played.map_err(|stop| match stop {
            Stop::Failed(why) => {
                Stop::Failed(format!("the history is in {}: {why}", run.directory.keep().display()))
            }
            stop => stop,
        })
    }

    /// Lets all clients contend while the faults are made.
    async fn contend(&mut self, run: &FaultRun, schedule: &Schedule) -> Verdict {
        let (cx, reach) = (&run.cx, run.semantics.reach);
        let mut setup = SoakSetup::new(run, schedule).await?;
        setup.before_the_hold(run).await?;
        let mut number = 0;
        // A process that has the store to itself contends only with itself.
        let clients = schedule.clients * if reach == Reach::Process { 3 } else { 1 };
        for process in &mut setup.workers {
            for _ in 0..clients {
                number += 1;
                let workload = run.workload(&run.name, self.seed.wrapping_add(number), usual_lease());
                process.order(ClientRequest::Start(Role::Anybody, workload)).await?;
            }
        }
        let made = setup.play(run).await;
        setup.left_out.iter().for_each(|fault| self.schedule += &format!("; {fault}"));
        if let Some(why) = setup.half_made.take() {
            // No client writes while the history is read.
            drop(setup);
            // The machine's doing; and a history that ends there need not show anything else.
            return match self.judge(run, &made) {
                Err(Stop::Failed(why)) => Err(Stop::Failed(why)),
                _ => Err(Stop::Skipped(why)),
            };
        }
        // What the last one has touched is over by then, or confirmed.
        tokio::time::sleep(usual_lease()).await;
        // A process that ended without being killed has failed, and does not answer.
        setup.workers.retain_mut(|process| !process.was_killed());
        for process in &mut setup.workers {
            process.begin(ClientRequest::Leave(None)).await?;
        }
        for process in &mut setup.workers {
            process.done().await?;
        }
        if reach != Reach::Process {
            free_within(&cx.client().await?, &run.name, cx.patience(), "after all clients had left").await?;
        }
        self.judge(run, &made)
    }

    /// A fault at random may meet no holder; too few clients that met each other would show nothing.
    fn judge(&mut self, run: &FaultRun, made: &[MadeFault]) -> Verdict {
        let (history, report) = run.check(&model(run, made))?;
        self.met = made.iter().filter(|one| one.met_a_hold(&history)).count();
        (self.grants, self.faults) = (report.measured.grants, made.len());
        match report.violations.is_empty() {
            false => Err(Stop::Failed(report.to_string())),
            true if self.met == 0 || !shows_something(&report) => Err(Stop::Skipped(report.to_string())),
            true => Ok(()),
        }
    }
}

/// What is promised, with room for a machine that does much at once.
fn model(run: &FaultRun, made: &[MadeFault]) -> Model {
    let mut model = Model::from_semantics(&run.semantics, usual_lease(), run.cx.slack() * 4);
    // A waiter that is silent for longer than its place in the queue lasts moves to the end.
    model.order = None;
    // A holder that lost the lock to such a fault may believe for another lease that it has it.
    let after = u64::try_from((usual_lease() + run.cx.slack()).as_nanos()).unwrap_or(u64::MAX);
    let lenient = made.iter().filter(|one| one.what.promised == Outcome::FencedOnly);
    model.fenced_only = lenient.map(|one| (one.from, one.to.saturating_add(after))).collect();
    model
}

impl MadeFault {
    fn met_a_hold(&self, history: &History) -> bool {
        let own = history
            .faults
            .iter()
            .find(|span| span.fault == self.what.fault && (self.from..=self.to).contains(&span.from));
        own.is_some_and(|span| met_a_hold(span, history, &history.kills()))
    }
}

fn shows_something(report: &CheckReport) -> bool {
    report.measured.grants >= 10 && report.measured.contended >= 3
}
