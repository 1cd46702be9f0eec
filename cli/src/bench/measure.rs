//! One store: its rows, in turns, so that what else the machine does falls on all of them alike.

use super::crew::Worker;
use super::job::{Counts, Done, Job, Moment, Way, Window, histogram, nanos};
use super::plan::{Plan, Row};
use super::progress::Progress;
use super::report::{HeldReport, LeftOut, RowReport, StoreReport};
use super::show::is_noisy;
use super::stats::{Latency, Passes, Round};
use crate::report::Failure;
use crate::store::Store;
use hdrhistogram::Histogram;
use leasehold::bench::{Counters, Yardstick};
use leasehold::{DistributedLock, Error, ErrorKind, LockName};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// From when a job is sent until it runs: a worker reads it, and a thousand tasks are started.
const HEAD_START: Duration = Duration::from_millis(50);

/// How long names are held at least.
const HOLD: Duration = Duration::from_secs(4);

/// One store, and who measures it.
pub(super) struct Measurement<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) yardstick: Option<Arc<dyn Yardstick>>,
    /// How a worker is told which store is meant.
    pub(super) options: Vec<OsString>,
    /// What all names begin with.
    pub(super) seed: &'a str,
    pub(super) progress: &'a Progress,
    pub(super) workers: Vec<Worker>,
    /// Every name that was used.
    pub(super) names: Vec<LockName>,
}

/// What the passes of a row have shown so far.
#[derive(Debug)]
struct Tally {
    row: Row,
    rates: Vec<f64>,
    raw_rates: Vec<f64>,
    latencies: Histogram<u64>,
    turns: u64,
    cpu: f64,
    counted: Option<Counters>,
    fairness: Vec<f64>,
    overlaps: u64,
    stale_tokens: u64,
    held: Option<HeldReport>,
}

impl Measurement<'_> {
    /// Measures all rows. What was used stays in `names` and `workers` also if it fails, or is dropped half-way.
    pub(super) async fn run(&mut self) -> Result<StoreReport, Failure> {
        self.crew(1).await?;
        let server = match &self.yardstick {
            Some(yardstick) => Some(yardstick.server().await?),
            None => None,
        };
        let mut left_out = self.left_out();
        let impossible = |row: &Row| self.is_impossible(*row);
        let (impossible, rows): (Vec<Row>, Vec<Row>) = self.plan.rows.iter().partition(|row| impossible(row));
        left_out.extend(
            impossible
                .iter()
                .map(|row| LeftOut { row: row.to_string(), why: "this store is of one process".to_owned() }),
        );
        let mut tallies: Vec<Tally> = rows.iter().map(|row| Tally::new(*row)).collect();
        for pass in 0..self.plan.passes {
            for at in 0..tallies.len() {
                self.progress.step(tallies[at].row, pass);
                let half = half_of(&tallies, tallies[at].row);
                self.pass(&mut tallies[at], pass, half).await?;
            }
        }
        Ok(StoreReport {
            url: self.store.config.url().to_string(),
            backend: self.store.locks.semantics().backend.to_string(),
            server,
            rows: tallies.into_iter().map(Tally::into_report).collect(),
            left_out,
        })
    }

    async fn pass(&mut self, tally: &mut Tally, pass: usize, half: Option<f64>) -> Result<(), Failure> {
        match tally.row {
            Row::Pairs { tasks } => {
                // First one, then the other, so that neither always has the warmer machine.
                let mut ways = vec![Way::Leasehold];
                if self.has_raw() {
                    ways.insert(pass % 2, Way::Raw);
                }
                for way in ways {
                    self.pairs(tally, way, tasks, None).await?;
                }
                Ok(())
            }
            Row::HalfLoad { tasks } => self.pairs(tally, Way::Leasehold, tasks, half).await,
            Row::HandOver { waiters, processes } => self.hand_over(tally, pass, waiters + 1, processes).await,
            // Once is enough for what takes minutes to make.
            Row::Held { count } if pass == 0 => self.held(tally, count).await,
            Row::Held { .. } => Ok(()),
        }
    }

    async fn pairs(
        &mut self,
        tally: &mut Tally,
        way: Way,
        tasks: usize,
        pairs_a_second: Option<f64>,
    ) -> Result<(), Failure> {
        let kind = if way == Way::Raw { "raw" } else { "pairs" };
        let names = self.names(&format!("{kind}/{tasks}"), tasks)?;
        let window = self.window();
        let job = Job::Pairs { way, tasks, names, pairs_a_second, window };
        let (done, counted) = self.ask_counting(0, 1, vec![job], window).await?;
        for done in done {
            let Done::Pairs { latencies, cpu } = done else { return Err(out_of_turn()) };
            tally.pairs(way, &latencies, cpu, counted, window);
        }
        Ok(())
    }

    async fn hand_over(
        &mut self,
        tally: &mut Tally,
        pass: usize,
        contenders: usize,
        processes: usize,
    ) -> Result<(), Failure> {
        self.crew(processes).await?;
        let name = self.name(&format!("hand-over/{contenders}x{processes}/{pass}"))?;
        let window = self.window();
        let first = |process: usize| contenders * process / processes;
        let jobs = (0..processes).map(|process| Job::HandOver {
            name: name.clone(),
            contenders: first(process + 1) - first(process),
            first: first(process),
            window,
        });
        let (done, counted) = self.ask_counting(0, processes, jobs.collect(), window).await?;
        let (mut turns, mut cpu) = (Vec::new(), 0.0);
        for done in done {
            let Done::HandOver { turns: some, cpu: its } = done else { return Err(out_of_turn()) };
            turns.extend(some);
            cpu += its;
        }
        tally.turns += turns.len() as u64;
        tally.rates.push(turns.len() as f64 / window.seconds());
        tally.cpu += cpu;
        tally.count(counted);
        let round = Round::of(turns, contenders);
        let _ = tally.latencies.add(&round.hand_overs);
        tally.fairness.push(round.fairness);
        tally.overlaps += round.overlaps;
        tally.stale_tokens += round.stale_tokens;
        Ok(())
    }

    /// In a process of its own, whose memory nothing else has grown.
    async fn held(&mut self, tally: &mut Tally, count: usize) -> Result<(), Failure> {
        let at = self.workers.len();
        self.crew(at + 1).await?;
        let names = self.names(&format!("held/{count}"), count)?;
        // A ttl that has each of them renewed twice meanwhile, and that a busy machine can keep.
        let time =
            (self.plan.window * u32::try_from(self.plan.passes).unwrap_or(u32::MAX)).clamp(HOLD, HOLD * 5);
        let ttl = time * 3 / 2;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let job = Job::Hold { names, count, ttl_millis: millis(ttl), millis: millis(time) };
        let Done::Held(held) = self.ask(at, job).await? else { return Err(out_of_turn()) };
        tally.held = Some(HeldReport::of(&held, millis(ttl), time.as_secs_f64()));
        self.workers.remove(at).end().await;
        Ok(())
    }

    /// Has workers do these jobs at the same time, and reads the server's counters at both ends of the window.
    async fn ask_counting(
        &mut self,
        first: usize,
        count: usize,
        jobs: Vec<Job>,
        window: Window,
    ) -> Result<(Vec<Done>, Option<Counters>), Failure> {
        let workers = self.workers.iter_mut().skip(first).take(count);
        for (worker, job) in workers.zip(&jobs) {
            worker.tell(job).await?;
        }
        window.from.wait().await;
        let before = self.counters().await?;
        window.until.wait().await;
        let after = self.counters().await?;
        let mut done = Vec::new();
        for worker in self.workers.iter_mut().skip(first).take(count) {
            done.push(worker.answer().await?);
        }
        let counted = before.zip(after).map(|(before, after)| Counters {
            commands: after.commands.saturating_sub(before.commands),
            bytes: after.bytes.saturating_sub(before.bytes),
        });
        Ok((done, counted))
    }

    async fn ask(&mut self, worker: usize, job: Job) -> Result<Done, Failure> {
        match self.workers.get_mut(worker) {
            Some(worker) => worker.ask(&job).await,
            None => Err(out_of_turn()),
        }
    }

    async fn counters(&self) -> Result<Option<Counters>, Failure> {
        match &self.yardstick {
            Some(yardstick) => Ok(yardstick.counters().await?),
            None => Ok(None),
        }
    }

    /// At least so many workers, each of which has its connection.
    async fn crew(&mut self, count: usize) -> Result<(), Failure> {
        while self.workers.len() < count {
            let at = self.workers.len();
            self.workers.push(Worker::start(&self.options)?);
            let name = self.name(&format!("open/{at}"))?;
            self.ask(at, Job::Open { name }).await?;
        }
        Ok(())
    }

    fn window(&self) -> Window {
        let from = Moment::now().plus(HEAD_START + self.plan.warm_up);
        Window { from, until: Moment(from.0 + nanos(self.plan.window)) }
    }

    fn name(&mut self, what: &str) -> Result<String, Failure> {
        let name = LockName::new(format!("{}/{what}", self.seed))?;
        self.names.push(name.clone());
        Ok(name.as_str().to_owned())
    }

    /// What so many names begin with.
    fn names(&mut self, what: &str, count: usize) -> Result<String, Failure> {
        let prefix = format!("{}/{what}", self.seed);
        for number in 0..count {
            self.names.push(LockName::new(format!("{prefix}/{number}"))?);
        }
        Ok(prefix)
    }

    fn has_raw(&self) -> bool {
        self.plan.raw && self.yardstick.as_ref().is_some_and(|yardstick| yardstick.has_raw())
    }

    fn left_out(&self) -> Vec<LeftOut> {
        let left = |row: String, why: &str| LeftOut { row, why: why.to_owned() };
        let raw = (self.plan.raw && !self.has_raw())
            .then(|| left("raw".to_owned(), "this store has no such measure"));
        let rows = self.plan.left_out.iter();
        let rows = rows.map(|row| left(row.to_string(), "not of this choice of rows; --full alone has all"));
        raw.into_iter().chain(rows).collect()
    }

    fn is_impossible(&self, row: Row) -> bool {
        let shared = self.store.config.url().scheme() != "memory";
        matches!(row, Row::HandOver { processes: 2.., .. } if !shared)
    }
}

/// Half of what so many tasks have reached at full speed.
fn half_of(tallies: &[Tally], row: Row) -> Option<f64> {
    let Row::HalfLoad { tasks } = row else { return None };
    let full = tallies.iter().find(|tally| tally.row == Row::Pairs { tasks })?;
    Some((full.rates.last()? / 2.0).max(1.0))
}

impl Tally {
    fn new(row: Row) -> Self {
        Self {
            row,
            rates: Vec::new(),
            raw_rates: Vec::new(),
            latencies: histogram(),
            turns: 0,
            cpu: 0.0,
            counted: None,
            fairness: Vec::new(),
            overlaps: 0,
            stale_tokens: 0,
            held: None,
        }
    }

    fn pairs(&mut self, way: Way, latencies: &Counts, cpu: f64, counted: Option<Counters>, window: Window) {
        let mut seen = histogram();
        latencies.add_to(&mut seen);
        let rate = seen.len() as f64 / window.seconds();
        if way == Way::Raw {
            self.raw_rates.push(rate);
            return;
        }
        self.rates.push(rate);
        self.turns += seen.len();
        self.cpu += cpu;
        self.count(counted);
        let _ = self.latencies.add(&seen);
    }

    fn count(&mut self, counted: Option<Counters>) {
        let Some(counted) = counted else { return };
        let all = self.counted.get_or_insert_default();
        all.commands += counted.commands;
        all.bytes += counted.bytes;
    }

    fn into_report(self) -> RowReport {
        let each = |total: f64| (self.turns > 0).then(|| total / self.turns as f64);
        let contended = matches!(self.row, Row::HandOver { .. });
        let ratios: Vec<f64> = self.rates.iter().zip(&self.raw_rates).map(|(rate, raw)| rate / raw).collect();
        let some = |values: Vec<f64>| (!values.is_empty()).then(|| Passes::of(values));
        let mut report = RowReport {
            row: self.row.to_string(),
            server_commands: self.counted.and_then(|counted| each(counted.commands as f64)),
            server_bytes: self.counted.and_then(|counted| each(counted.bytes as f64)),
            client_cpu_us: each(self.cpu * 1e6).filter(|_| self.held.is_none()),
            per_second: some(self.rates),
            latency_us: Latency::of(&self.latencies),
            raw_per_second: some(self.raw_rates),
            of_raw: some(ratios),
            fairness: some(self.fairness),
            overlaps: contended.then_some(self.overlaps),
            stale_tokens: contended.then_some(self.stale_tokens),
            held: self.held,
            noisy: false,
        };
        report.noisy = is_noisy(&report);
        report
    }
}

fn out_of_turn() -> Failure {
    Error::new(ErrorKind::Closed, "a worker of the bench answered out of turn").into()
}
