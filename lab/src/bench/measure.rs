//! One store: its rows, in turns, so that what else the machine does falls on all of them alike; for each row the jobs of its
//! workers, and what the server counts meanwhile.

use super::bench_store::BenchStore;
use super::plan::{HEAD_START, LeftOut, Plan, Row};
use super::protocol::{Job, JobResult, WorkerProcess};
use super::tally::{Pass, RowTally};
use crate::load::{LoadKind, Turn, Window, nanos, now, sleep_until};
use crate::progress::Progress;
use crate::yardstick::{ServerCounters, Yardstick};
use leasehold::semantics::{Reach, Sharing};
use leasehold::{DistributedLock, Error, ErrorKind, LockName};
use leasehold_console::{Failure, brief};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// One store, and who measures it.
pub(super) struct Measurement<'a> {
    pub(super) plan: &'a Plan,
    pub(super) target: &'a BenchStore,
    pub(super) yardstick: Option<Arc<dyn Yardstick>>,
    /// What all names begin with.
    pub(super) seed: &'a str,
    pub(super) progress: &'a Progress,
    pub(super) workers: Vec<WorkerProcess>,
    /// Every name that was used.
    pub(super) names: BTreeSet<LockName>,
}

/// One store, measured.
#[derive(Debug)]
pub(crate) struct StoreFigures {
    /// What the server calls itself, if there is one and it tells.
    pub(crate) server: Option<String>,
    pub(crate) tallies: Vec<RowTally>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// What ended a pass.
pub(super) enum PassError {
    /// The store has no room for this row; others may be smaller.
    Row(String),
    Run(Failure),
}

impl PassError {
    /// Where there is nothing else to go on with.
    fn into_failure(self) -> Failure {
        match self {
            Self::Row(why) => Error::new(ErrorKind::Unavailable, why).into(),
            Self::Run(failure) => failure,
        }
    }
}

impl<E: Into<Failure>> From<E> for PassError {
    fn from(failure: E) -> Self {
        Self::Run(failure.into())
    }
}

impl Measurement<'_> {
    /// Measures all rows. What was used stays in `names` and `workers` also if it fails, or is dropped half-way.
    pub(super) async fn run(&mut self) -> Result<StoreFigures, Failure> {
        self.start_workers(1).await.map_err(PassError::into_failure)?;
        let server = match &self.yardstick {
            Some(yardstick) => Some(yardstick.server().await?),
            None => None,
        };
        let url = self.target.store.config.url().to_string();
        let plan = self.plan;
        let unchosen = plan.left_out.iter().map(|row| LeftOut::new(row, plan.why_left_out));
        let mut left_out: Vec<LeftOut> = unchosen.collect();
        if plan.raw && !self.has_pair_by_hand() {
            left_out.insert(0, LeftOut::new("raw", "this store has no such measure"));
        }
        let mut rows = Vec::new();
        for row in &plan.rows {
            match self.refusal(*row) {
                Some(why) => left_out.push(LeftOut::new(row, &why)),
                None => rows.push(*row),
            }
        }
        let time = brief(plan.estimate(&rows, self.has_pair_by_hand()));
        self.progress.say(format_args!("measuring {url}: {} rows, about {time}", rows.len()));
        let mut tallies: Vec<RowTally> = rows.into_iter().map(RowTally::new).collect();
        let mut broken = Vec::new();
        for pass in 0..plan.passes {
            let mut at = 0;
            while let Some(tally) = tallies.get_mut(at) {
                let row = tally.row;
                self.progress.step(format_args!("pass {}: {row} on {url}", pass + 1));
                match self.pass_with_room(tally, pass).await {
                    Ok(()) => at += 1,
                    Err(PassError::Row(why)) if tallies.len() > 1 => {
                        left_out.push(LeftOut::new(row, &why));
                        let gone = tallies.remove(at);
                        if gone.is_broken() {
                            broken.push(gone);
                        }
                    }
                    Err(error) => return Err(error.into_failure()),
                }
            }
        }
        tallies.extend(broken);
        Ok(StoreFigures { server, tallies, left_out })
    }

    /// Why this store cannot have such a row.
    fn refusal(&self, row: Row) -> Option<String> {
        let semantics = self.target.store.locks.semantics();
        if semantics.reach == Reach::Process && row.processes() > 1 {
            return Some("this store is of one process".to_owned());
        }
        let shares = matches!(row.kind(), LoadKind::Read | LoadKind::Mixed);
        (shares && semantics.sharing == Sharing::Unsupported)
            .then(|| format!("{} ({}) refuses shared locks", semantics.backend, semantics.mode))
    }

    /// The row before may have left its processes with all connections that the store has: new ones begin with none.
    async fn pass_with_room(&mut self, tally: &mut RowTally, pass: usize) -> Result<(), PassError> {
        let before = tally.clone();
        match self.pass(tally, pass).await {
            Err(PassError::Row(why)) => {
                tally.take_pass_back(before, why);
                for worker in std::mem::take(&mut self.workers) {
                    worker.end().await;
                }
                self.start_workers(1).await?;
                self.pass(tally, pass).await
            }
            passed => passed,
        }
    }

    async fn pass(&mut self, tally: &mut RowTally, pass: usize) -> Result<(), PassError> {
        match tally.row {
            Row::Pairs { .. } => {
                let mut kinds = vec![LoadKind::Exclusive];
                kinds.extend(self.has_pair_by_hand().then_some(LoadKind::ByHand));
                // Each is first at times, so that none always has the warmer machine.
                if pass % 2 == 1 {
                    kinds.reverse();
                }
                for kind in kinds {
                    self.load(tally, pass, kind).await?;
                }
                Ok(())
            }
            // Once is enough for what takes minutes to make.
            Row::Held { count } if pass == 0 => self.held(tally, count).await,
            Row::Held { .. } => Ok(()),
            row => self.load(tally, pass, row.kind()).await,
        }
    }

    async fn load(&mut self, tally: &mut RowTally, pass: usize, kind: LoadKind) -> Result<(), PassError> {
        let row = tally.row;
        self.start_workers(row.processes()).await?;
        let names = match row {
            Row::Pairs { tasks } => (0..tasks).map(|task| format!("{kind}/{tasks}/{task}")).collect(),
            // A name for each pass: a waiter that has just gone may still be taken from the queue.
            _ => vec![format!("{row}/{pass}")],
        };
        let names = names.iter().map(|name| self.name(name)).collect::<Result<Vec<_>, _>>()?;
        if let LoadKind::Permits(permits) = kind {
            self.add_slots(&names, permits)?;
        }
        let window = self.window();
        let jobs =
            (0..row.processes()).map(|process| Job::Load(row.load(process, kind, names.clone(), window)));
        let (done, counted) = self.ask_counting(jobs.collect(), window).await?;
        let mut pass = Pass { kind, window, turns: Vec::new(), cpu: 0.0, counted };
        let mut failure = None;
        for (result, turns) in done {
            pass.turns.extend(turns);
            match result {
                JobResult::Loaded { cpu, failed: None, .. } => pass.cpu += cpu,
                JobResult::Loaded { failed: Some(why), .. } => failure = Some(PassError::Row(why)),
                other => failure = Some(unexpected(other)),
            }
        }
        pass.turns.sort_unstable_by_key(|turn| turn.acquired);
        match failure {
            None => tally.add(&pass),
            Some(error) => {
                // What was seen counts, whatever has failed.
                tally.add_evidence(&pass);
                return Err(error);
            }
        }
        Ok(())
    }

    /// In a process of its own, whose memory nothing else has grown.
    async fn held(&mut self, tally: &mut RowTally, count: usize) -> Result<(), PassError> {
        let at = self.workers.len();
        self.start_workers(at + 1).await?;
        for number in 0..count {
            self.name(&format!("held/{count}/{number}"))?;
        }
        let names = format!("{}/held/{count}", self.seed);
        // A ttl that has each of them renewed twice meanwhile, and that a busy machine can keep.
        let time = self.plan.hold();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (ttl_ms, time_ms) = (millis(time * 3 / 2), millis(time));
        let done = self.ask(at, Job::Hold { names, count, ttl_ms, time_ms }).await?;
        self.workers.remove(at).end().await;
        match done {
            JobResult::Held(held) => {
                tally.held = Some(held);
                Ok(())
            }
            other => Err(unexpected(other)),
        }
    }

    async fn ask(&mut self, worker: usize, job: Job) -> Result<JobResult, Failure> {
        let worker = self.workers.get_mut(worker).ok_or_else(out_of_turn)?;
        worker.tell(&job).await?;
        worker.answer().await.map(|(result, _)| result)
    }

    /// Has a worker do each of these jobs, at the same time, and reads the server's counters at both ends of the window.
    async fn ask_counting(
        &mut self,
        jobs: Vec<Job>,
        window: Window,
    ) -> Result<(Vec<(JobResult, Vec<Turn>)>, Option<ServerCounters>), Failure> {
        for (worker, job) in self.workers.iter_mut().zip(&jobs) {
            worker.tell(job).await?;
        }
        sleep_until(window.from).await;
        let asked = now();
        let before = self.counters().await?;
        let counted_from = asked.midpoint(now());
        sleep_until(window.until).await;
        let after = self.counters().await?;
        let mut done = Vec::new();
        for worker in self.workers.iter_mut().take(jobs.len()) {
            done.push(worker.answer().await?);
        }
        // A busy server tells its counters late: what it did before is not in them. After the window it does nothing more.
        let rest = window.until.saturating_sub(counted_from.max(window.from)) as f64;
        let whole = (rest / (window.until - window.from) as f64).max(0.1).recip();
        let of_window =
            |after: u64, before: u64| (after.saturating_sub(before) as f64 * whole).round() as u64;
        let counted = before.zip(after).map(|(before, after)| ServerCounters {
            commands: of_window(after.commands, before.commands),
            bytes: of_window(after.bytes, before.bytes),
        });
        Ok((done, counted))
    }

    async fn counters(&self) -> Result<Option<ServerCounters>, Failure> {
        match &self.yardstick {
            Some(yardstick) => Ok(yardstick.counters().await?),
            None => Ok(None),
        }
    }

    /// At least so many workers, each of which has its connection.
    async fn start_workers(&mut self, count: usize) -> Result<(), PassError> {
        while self.workers.len() < count {
            let at = self.workers.len();
            self.workers.push(WorkerProcess::start(self.target)?);
            let name = self.name(&format!("open/{at}"))?;
            // Without the first there is nothing to measure, and it says itself what is wrong.
            let opened = self.ask(at, Job::Open { name, for_all: at == 0 }).await?;
            if !matches!(opened, JobResult::Opened) {
                self.workers.remove(at).end().await;
                return Err(unexpected(opened));
            }
        }
        Ok(())
    }

    fn window(&self) -> Window {
        let from = now() + nanos(HEAD_START + self.plan.warm_up);
        Window { from, until: from + nanos(self.plan.window) }
    }

    fn name(&mut self, what: &str) -> Result<String, Failure> {
        let name = LockName::new(format!("{}/{what}", self.seed))?;
        let text = name.as_str().to_owned();
        self.names.insert(name);
        Ok(text)
    }

    /// The locks that a semaphore is made of.
    fn add_slots(&mut self, semaphores: &[String], permits: u32) -> Result<(), Failure> {
        for name in semaphores {
            let slots = (0..permits).map(|slot| format!("{name}::slot:{slot}"));
            for part in slots.chain([format!("{name}::gate")]) {
                self.names.insert(LockName::from_store(part)?);
            }
        }
        Ok(())
    }

    fn has_pair_by_hand(&self) -> bool {
        self.plan.raw && self.yardstick.as_ref().is_some_and(|yardstick| yardstick.has_pair())
    }
}

/// The error for an answer of another kind than the job asks for.
fn unexpected(answer: JobResult) -> PassError {
    match answer {
        JobResult::Failed { why } => PassError::Row(why),
        _ => PassError::Run(out_of_turn()),
    }
}

fn out_of_turn() -> Failure {
    Error::new(ErrorKind::Closed, "a worker of the bench answered out of turn").into()
}
