//! One store: its rows, in turns, so that what else the machine does falls on all of them alike. How each is measured
//! stands in `rows.rs`.

use super::bench_store::BenchStore;
use super::job::{Job, JobResult, MonotonicTime, Window, nanos};
use super::pass_error::{PassError, out_of_turn, unexpected};
use super::plan::{LeftOut, Plan, Row};
use super::tally::RowTally;
use super::worker_process::WorkerProcess;
use crate::progress::Progress;
use crate::yardstick::{ByHand, ServerCounters, Yardstick};
use leasehold::LockName;
use leasehold_console::Failure;
use std::sync::Arc;
use std::time::Duration;

/// From when a job is sent until it runs: a worker reads it, and a thousand tasks are started.
const HEAD_START: Duration = Duration::from_millis(50);

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
    pub(super) names: Vec<LockName>,
}

/// One store, measured.
#[derive(Debug)]
pub(crate) struct StoreFigures {
    /// What the server calls itself, if there is one and it tells.
    pub(crate) server: Option<String>,
    pub(crate) tallies: Vec<RowTally>,
    pub(crate) left_out: Vec<LeftOut>,
}

impl Measurement<'_> {
    /// Measures all rows. What was used stays in `names` and `workers` also if it fails, or is dropped half-way.
    pub(super) async fn run(&mut self) -> Result<StoreFigures, Failure> {
        self.start_workers(1).await.map_err(PassError::into_failure)?;
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
        let mut tallies: Vec<RowTally> = rows.iter().map(|row| RowTally::new(*row)).collect();
        let mut broken = Vec::new();
        for pass in 0..self.plan.passes {
            let mut at = 0;
            while at < tallies.len() {
                let row = tallies[at].row;
                self.progress.step(format_args!("pass {}: {row}", pass + 1));
                let half = half_of(&tallies, row);
                match self.pass_with_room(&mut tallies[at], pass, half).await {
                    Ok(()) => at += 1,
                    Err(PassError::Row(why)) if tallies.len() > 1 => {
                        left_out.push(LeftOut { row: row.to_string(), why });
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

    /// The row before may have left its processes with all connections that the store has: new ones begin with none.
    async fn pass_with_room(
        &mut self,
        tally: &mut RowTally,
        pass: usize,
        half: Option<f64>,
    ) -> Result<(), PassError> {
        let before = tally.clone();
        match self.pass(tally, pass, half).await {
            Err(PassError::Row(why)) => {
                tally.take_pass_back(before, why);
                for worker in std::mem::take(&mut self.workers) {
                    worker.end().await;
                }
                self.start_workers(1).await?;
                self.pass(tally, pass, half).await
            }
            passed => passed,
        }
    }

    pub(super) async fn ask(&mut self, worker: usize, job: Job) -> Result<JobResult, Failure> {
        match self.workers.get_mut(worker) {
            Some(worker) => worker.ask(&job).await,
            None => Err(out_of_turn()),
        }
    }

    pub(super) async fn counters(&self) -> Result<Option<ServerCounters>, Failure> {
        match &self.yardstick {
            Some(yardstick) => Ok(yardstick.counters().await?),
            None => Ok(None),
        }
    }

    /// At least so many workers, each of which has its connection.
    pub(super) async fn start_workers(&mut self, count: usize) -> Result<(), PassError> {
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

    pub(super) fn window(&self) -> Window {
        let from = MonotonicTime::now().plus(HEAD_START + self.plan.warm_up);
        Window { from, until: MonotonicTime(from.0 + nanos(self.plan.window)) }
    }

    pub(super) fn name(&mut self, what: &str) -> Result<String, Failure> {
        let name = LockName::new(format!("{}/{what}", self.seed))?;
        self.names.push(name.clone());
        Ok(name.as_str().to_owned())
    }

    /// What so many names begin with.
    pub(super) fn names(&mut self, what: &str, count: usize) -> Result<String, Failure> {
        let prefix = format!("{}/{what}", self.seed);
        for number in 0..count {
            self.names.push(LockName::new(format!("{prefix}/{number}"))?);
        }
        Ok(prefix)
    }

    pub(super) fn has(&self, measure: ByHand) -> bool {
        self.plan.raw && self.yardstick.as_ref().is_some_and(|yardstick| yardstick.has(measure))
    }

    fn left_out(&self) -> Vec<LeftOut> {
        let left = |row: String, why: &str| LeftOut { row, why: why.to_owned() };
        let raw = (self.plan.raw && !self.has(ByHand::Pair))
            .then(|| left("raw".to_owned(), "this store has no such measure"));
        let rows = self.plan.left_out.iter();
        let rows = rows.map(|row| left(row.to_string(), self.plan.why_left_out));
        raw.into_iter().chain(rows).collect()
    }

    fn is_impossible(&self, row: Row) -> bool {
        let shared = self.target.store.config.url().scheme() != "memory";
        matches!(row, Row::HandOver { processes: 2.., .. } if !shared)
    }
}

/// Half of what so many tasks have reached at full speed.
fn half_of(tallies: &[RowTally], row: Row) -> Option<f64> {
    let Row::HalfLoad { tasks } = row else { return None };
    let full = tallies.iter().find(|tally| tally.row == Row::Pairs { tasks })?;
    Some((full.rates.last()? / 2.0).max(1.0))
}
