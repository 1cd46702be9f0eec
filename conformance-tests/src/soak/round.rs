use super::schedule::Schedule;
use super::setup::{Made, SoakSetup, possible};
use crate::case::{Stop, Verdict};
use crate::checker::{Model, Report, check, met_a_hold};
use crate::context::{Context, free_within};
use crate::faults::{scaled, usual_lease};
use crate::history::{History, Recorder, read};
use crate::runner::RunConfig;
use crate::running_client::Role;
use crate::subject::Subject;
use crate::workload::Workload;
use leasehold_core::{LockName, Outcome, Reach, Semantics};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A round that takes longer than this hangs.
const WATCHDOG: Duration = Duration::from_secs(180);

/// What came of a round.
pub(super) struct Played {
    /// What was drawn, and what of it could not be made.
    pub(super) schedule: String,
    pub(super) seen: Seen,
    pub(super) outcome: Verdict,
}

impl Played {
    pub(super) fn not_begun(why: Stop) -> Self {
        Self { schedule: String::new(), seen: Seen::default(), outcome: Err(why) }
    }
}

/// What came of a schedule.
struct Came {
    made: Vec<Made>,
    half_made: Option<String>,
}

/// What a history shows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) grants: usize,
    /// Faults that were made.
    pub(super) faults: usize,
    /// Faults that met a holder of the lock.
    pub(super) met: usize,
}

/// A store, and the history of those who contend for one lock in it.
struct SoakRound {
    cx: Context,
    semantics: Semantics,
    directory: TempDir,
    recorder: Recorder,
    left_out: Vec<String>,
}

/// Draws a round for this subject, plays it to its end, and judges what was recorded in a directory below `root`. A
/// rejected history is kept.
pub(super) async fn play(subject: Arc<dyn Subject>, config: RunConfig, root: &Path) -> Result<Played, Stop> {
    let cx =
        Context::on(subject, "SOAK", config).await.map_err(|cannot| Stop::missing(&cannot.to_string()))?;
    let semantics = cx.semantics().await?;
    let schedule = Schedule::draw(cx.seed(), &possible(&cx, &semantics), usual_lease());
    let directory = tempfile::tempdir_in(root)?;
    let recorder = Recorder::create(directory.path())?;
    let mut round = SoakRound { cx, semantics, directory, recorder, left_out: Vec::new() };
    let mut seen = Seen::default();
    let contended = tokio::time::timeout(scaled(WATCHDOG), round.contend(&schedule)).await;
    let played =
        contended.unwrap_or_else(|_| Err(Stop::Failed(format!("it hangs: no end after {WATCHDOG:?}"))));
    let outcome = played.and_then(|came| match (round.judge(&came.made, &mut seen), came.half_made) {
        // The machine's doing; and a history that ends there need not show anything else.
        (Ok(()) | Err(Stop::Skipped(_)), Some(why)) => Err(Stop::Skipped(why)),
        (judged, _) => judged,
    });
    let words = [schedule.to_string()].into_iter().chain(std::mem::take(&mut round.left_out));
    let schedule = words.collect::<Vec<_>>().join("; ");
    let outcome = outcome.map_err(|stop| match stop {
        Stop::Failed(why) => {
            Stop::Failed(format!("the history is in {}: {why}", round.directory.keep().display()))
        }
        Stop::Skipped(why) => Stop::Skipped(why),
    });
    Ok(Played { schedule, seen, outcome })
}

impl SoakRound {
    async fn contend(&mut self, schedule: &Schedule) -> Result<Came, Stop> {
        let mut setup = SoakSetup::new(&self.cx, &self.semantics, schedule).await?;
        setup.before_the_hold(&self.cx, &self.recorder).await?;
        let mut number = 0;
        // A process that has the store to itself contends only with itself.
        let clients = schedule.clients * if self.semantics.reach == Reach::Process { 3 } else { 1 };
        for process in setup.workers() {
            for _ in 0..clients {
                number += 1;
                process.start_client(Role::Anybody, &self.workload(number)).await?;
            }
        }
        let made = setup.play(&self.cx, &self.recorder).await;
        self.left_out.append(&mut setup.left_out);
        let came = Came { made, half_made: setup.half_made.take() };
        if came.half_made.is_some() {
            return Ok(came);
        }
        // What the last one has touched is over by then, or confirmed.
        tokio::time::sleep(usual_lease()).await;
        // A process that ended without being killed has failed, and does not answer.
        let mut left: Vec<_> = setup
            .workers()
            .iter_mut()
            .filter_map(|process| (!process.was_killed()).then_some(process))
            .collect();
        for process in &mut left {
            process.begin_leave(None).await?;
        }
        for process in left {
            process.done().await?;
        }
        if self.semantics.reach != Reach::Process {
            self.must_be_free(&self.cx.name()).await?;
        }
        Ok(came)
    }

    async fn must_be_free(&self, name: &LockName) -> Verdict {
        let client = self.cx.client().await?;
        free_within(&client, name, self.cx.patience(), "after everybody had left").await.map(drop)
    }

    fn workload(&self, client: u64) -> Workload {
        Workload {
            directory: self.directory.path().to_owned(),
            name: self.cx.name(),
            seed: self.cx.seed().wrapping_add(client),
            ttl: usual_lease(),
            lasts: Duration::ZERO,
            readers: 0,
        }
    }

    /// A fault at random may meet nobody; too few who met each other would show nothing.
    fn judge(&self, made: &[Made], seen: &mut Seen) -> Verdict {
        let history = History::from_events(read(self.directory.path())?)
            .map_err(|error| Stop::Failed(format!("the history is none: {error}")))?;
        let report = check(&history, &self.model(made));
        let met = made.iter().filter(|one| one.met_a_hold(&history)).count();
        *seen = Seen { grants: report.measured.grants, faults: made.len(), met };
        match report.violations.is_empty() {
            false => Err(Stop::Failed(report.to_string())),
            true if met == 0 || !shows_something(&report) => Err(Stop::Skipped(report.to_string())),
            true => Ok(()),
        }
    }

    /// What is promised, with room for a machine that does much at once.
    fn model(&self, made: &[Made]) -> Model {
        let mut model = Model::of(&self.semantics, usual_lease(), self.cx.slack() * 4);
        // A waiter that is silent for longer than its place in the queue lasts moves to the end.
        model.order = None;
        // A holder that lost the lock to such a fault may believe for another lease that it has it.
        let after = u64::try_from((usual_lease() + self.cx.slack()).as_nanos()).unwrap_or(u64::MAX);
        let lenient = made.iter().filter(|one| one.what.promised == Outcome::FencedOnly);
        model.fenced_only = lenient.map(|one| (one.from, one.to.saturating_add(after))).collect();
        model
    }
}

impl Made {
    fn met_a_hold(&self, history: &History) -> bool {
        let own = history
            .faults
            .iter()
            .find(|span| span.fault == self.what.fault && (self.from..=self.to).contains(&span.from));
        own.is_some_and(|span| met_a_hold(span, history, &history.kills()))
    }
}

fn shows_something(report: &Report) -> bool {
    report.measured.grants >= 10 && report.measured.contended >= 3
}
