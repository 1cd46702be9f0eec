//! One store: its rows, in turns, so that what else the machine does falls on all of them alike; for each row the jobs of its
//! workers, and what the server counts meanwhile.

use super::bench_store::BenchStore;
use super::plan::{HEAD_START, LeftOut, Plan, Row};
use super::protocol::{Job, JobResult, WorkerProcess};
use super::row_result::{HeldFigures, StoreFigures};
use super::tally::{Pass, RowTally};
use crate::interrupt::{EarlyEnd, Interrupts};
use crate::load::{LoadKind, Turn, Window, nanos, now, sleep_until};
use crate::progress::Progress;
use crate::server::{Server, ServerCounters};
use leasehold::backend::OwnerId;
use leasehold::semantics::HoldKind;
use leasehold::{DistributedLock, Error, ErrorKind, LockName};
use leasehold_console::{Console, Failure, brief};
use std::collections::BTreeSet;
use std::time::Duration;

/// One store, the workers that measure it, and what was seen so far.
struct Measurement<'a> {
    plan: &'a Plan,
    target: &'a BenchStore,
    server: Server,
    version: Option<String>,
    /// What all names begin with.
    root: String,
    progress: Progress,
    workers: Vec<WorkerProcess>,
    /// Every name that was used.
    names: BTreeSet<LockName>,
    tallies: Vec<RowTally>,
    left_out: Vec<LeftOut>,
}

/// What ended a pass.
enum PassError {
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

/// Measures one store, and leaves nothing behind in it, however that ends. What was measured before an early end is kept.
pub(crate) async fn measure(
    plan: &Plan,
    target: &BenchStore,
    interrupts: &mut Interrupts,
    console: Console,
) -> (StoreFigures, Result<(), EarlyEnd>) {
    let mut measurement = match Measurement::begin(plan, target, console) {
        Ok(measurement) => measurement,
        Err(error) => return (StoreFigures::default(), Err(error.into())),
    };
    let outcome = interrupts.unless_ended(measurement.run()).await;
    let outcome = outcome.and_then(|measured| measured.map_err(EarlyEnd::Failed));
    if interrupts.unless_aborted(measurement.clean_up(console)).await.is_none() {
        console.warn(format_args!("interrupted: locks may be left below {:?}", measurement.root), None);
    }
    (measurement.into_figures(), outcome)
}

impl<'a> Measurement<'a> {
    fn begin(plan: &'a Plan, target: &'a BenchStore, console: Console) -> Result<Self, Error> {
        Ok(Self {
            plan,
            target,
            server: Server::Unknown,
            version: None,
            root: format!("leasehold-bench-{}", &OwnerId::random()?.to_hex()[..12]),
            progress: Progress::new(console, plan.rows.len() * plan.passes),
            workers: Vec::new(),
            names: BTreeSet::new(),
            tallies: Vec::new(),
            left_out: Vec::new(),
        })
    }

    /// Measures all rows. What was used and seen stays in `self` also if it fails, or is dropped half-way.
    async fn run(&mut self) -> Result<(), Failure> {
        self.start_workers(1).await.map_err(PassError::into_failure)?;
        self.server = Server::of(&self.target.store.config).await?;
        self.version = self.server.version().await?;
        self.choose_rows();
        let url = self.target.store.config.url().to_string();
        let rows: Vec<Row> = self.tallies.iter().map(|tally| tally.row).collect();
        let time = brief(self.plan.estimate(&rows));
        self.progress.say(format_args!("measuring {url}: {} rows, about {time}", rows.len()));
        for number in 0..self.plan.passes {
            for (at, row) in rows.iter().enumerate() {
                if self.tallies[at].ended.is_some() {
                    continue;
                }
                self.progress.step(format_args!("pass {}: {row} on {url}", number + 1));
                match self.pass(at, *row, number).await {
                    Err(PassError::Row(why)) => self.end_row(at, why)?,
                    Err(PassError::Run(failure)) => return Err(failure),
                    Ok(()) => {}
                }
                // The next row may need the connections that they keep for this one.
                if self.target.store.locks.semantics().hold == HoldKind::Connection {
                    self.end_workers().await;
                }
            }
        }
        Ok(())
    }

    fn choose_rows(&mut self) {
        let unchosen = self.plan.left_out.iter().map(|row| LeftOut::new(row, self.plan.why_left_out));
        self.left_out.extend(unchosen);
        for row in &self.plan.rows {
            match row.refusal(self.target.store.locks.semantics()) {
                Some(why) => self.left_out.push(LeftOut::new(row, &why)),
                None => self.tallies.push(RowTally::new(*row)),
            }
        }
    }

    /// Goes on without a row, as long as there is another one.
    fn end_row(&mut self, at: usize, why: String) -> Result<(), Failure> {
        self.tallies[at].ended = Some(why.clone());
        let goes_on = self.tallies.iter().any(|tally| tally.ended.is_none());
        if goes_on { Ok(()) } else { Err(PassError::Row(why).into_failure()) }
    }

    async fn pass(&mut self, at: usize, row: Row, number: usize) -> Result<(), PassError> {
        if let Row::Held { count } = row {
            // Once is enough for what takes minutes to make.
            if number == 0 {
                self.tallies[at].held = Some(self.held(count).await?);
            }
            return Ok(());
        }
        let pass = self.load(row, number).await?;
        let tally = &mut self.tallies[at];
        match pass.failed {
            None => tally.add(&pass),
            Some(why) => {
                // What was seen counts, whatever has failed.
                tally.add_evidence(&pass.turns);
                return Err(PassError::Row(why));
            }
        }
        Ok(())
    }

    async fn load(&mut self, row: Row, number: usize) -> Result<Pass, PassError> {
        self.start_workers(row.processes()).await?;
        let names = match row {
            Row::Pairs { tasks } => (0..tasks).map(|task| format!("pairs/{tasks}/{task}")).collect(),
            // A name for each pass: a waiter that has just gone may still be taken from the queue.
            _ => vec![format!("{row}/{number}")],
        };
        let names = names.iter().map(|name| self.name(name)).collect::<Result<Vec<_>, _>>()?;
        if let LoadKind::Permits(permits) = row.kind() {
            self.add_slots(&names, permits)?;
        }
        let from = now() + nanos(HEAD_START + self.plan.warm_up);
        let window = Window { from, until: from + nanos(self.plan.window) };
        let jobs = (0..row.processes()).map(|process| Job::Load(row.load(process, names.clone(), window)));
        let (done, counted) = self.ask_counting(jobs.collect(), window).await?;
        let mut pass = Pass { window, turns: Vec::new(), cpu: 0.0, counted, failed: None };
        for (result, turns) in done {
            pass.turns.extend(turns);
            match result {
                JobResult::Loaded { cpu, failed, .. } => {
                    pass.cpu += cpu;
                    pass.failed = pass.failed.or(failed);
                }
                JobResult::Failed { why } => pass.failed = Some(why),
                other => return Err(unexpected(other)),
            }
        }
        pass.turns.sort_unstable_by_key(|turn| turn.acquired);
        Ok(pass)
    }

    /// In a process of its own, whose memory nothing else has grown.
    async fn held(&mut self, count: usize) -> Result<HeldFigures, PassError> {
        let at = self.workers.len();
        self.start_workers(at + 1).await?;
        for number in 0..count {
            self.name(&format!("held/{count}/{number}"))?;
        }
        let names = format!("{}/held/{count}", self.root);
        // A ttl that has each of them renewed twice meanwhile, and that a busy machine can keep.
        let time = self.plan.hold();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (ttl_ms, time_ms) = (millis(time * 3 / 2), millis(time));
        let done = self.ask(at, Job::Hold { names, count, ttl_ms, time_ms }).await?;
        self.workers.remove(at).end().await;
        match done {
            JobResult::Held(held) => Ok(held),
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
        let before = self.server.counters().await?;
        let counted_from = asked.midpoint(now());
        sleep_until(window.until).await;
        let after = self.server.counters().await?;
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

    async fn end_workers(&mut self) {
        for worker in std::mem::take(&mut self.workers) {
            worker.end().await;
        }
    }

    fn name(&mut self, what: &str) -> Result<String, Failure> {
        let name = LockName::new(format!("{}/{what}", self.root))?;
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

    /// Ends the workers, and then what their locks have left: no worker holds any of them any more.
    async fn clean_up(&mut self, console: Console) {
        self.end_workers().await;
        let names: Vec<LockName> = std::mem::take(&mut self.names).into_iter().collect();
        // One name alone: no row has begun, and the store may be out of reach.
        let admin = self.target.store.locks.admin();
        let admin = admin.filter(|_| names.len() > 1 && !self.target.ends_with_us());
        if let Some(admin) = admin
            && let Err(error) = admin.forget(&names).await
        {
            let what = format_args!("not deleted: what locks below {:?} have left: {error}", self.root);
            console.warn(what, error.help());
        }
    }

    fn into_figures(self) -> StoreFigures {
        let Self { version, tallies, mut left_out, .. } = self;
        left_out.extend(tallies.iter().filter_map(|tally| match (&tally.ended, tally.is_worth_showing()) {
            (Some(why), true) => Some(LeftOut::new(tally.row, &format!("after some passes: {why}"))),
            (Some(why), false) => Some(LeftOut::new(tally.row, why)),
            (None, is_shown) => (!is_shown).then(|| LeftOut::new(tally.row, "the run ended before")),
        }));
        let rows = tallies.into_iter().filter(RowTally::is_worth_showing).map(RowTally::result).collect();
        StoreFigures { server: version, rows, left_out }
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
