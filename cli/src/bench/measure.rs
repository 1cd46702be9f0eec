//! One store: its rows, in turns, so that what else the machine does falls on all of them alike.

use super::crew::Worker;
use super::job::{Counts, Done, Job, Moment, Way, Window, nanos};
use super::plan::{Plan, Row};
use super::report::{HeldReport, LeftOut};
use super::stats::Round;
use super::tally::Tally;
use super::target::Target;
use super::trouble::{Trouble, instead, out_of_turn};
use crate::report::{Failure, Progress};
use leasehold::LockName;
use leasehold::bench::{ByHand, Counters, Yardstick};
use std::sync::Arc;
use std::time::Duration;

/// From when a job is sent until it runs: a worker reads it, and a thousand tasks are started.
const HEAD_START: Duration = Duration::from_millis(50);

/// How long names are held at least.
const HOLD: Duration = Duration::from_secs(4);

/// One store, and who measures it.
pub(super) struct Measurement<'a> {
    pub(super) plan: &'a Plan,
    pub(super) target: &'a Target,
    pub(super) yardstick: Option<Arc<dyn Yardstick>>,
    /// What all names begin with.
    pub(super) seed: &'a str,
    pub(super) progress: &'a Progress,
    pub(super) workers: Vec<Worker>,
    /// Every name that was used.
    pub(super) names: Vec<LockName>,
}

/// One store, measured.
#[derive(Debug)]
pub(crate) struct Measured {
    /// What the server calls itself, if there is one and it tells.
    pub(crate) server: Option<String>,
    pub(crate) tallies: Vec<Tally>,
    pub(crate) left_out: Vec<LeftOut>,
}

impl Measurement<'_> {
    /// Measures all rows. What was used stays in `names` and `workers` also if it fails, or is dropped half-way.
    pub(super) async fn run(&mut self) -> Result<Measured, Failure> {
        self.crew(1).await.map_err(Trouble::of_all)?;
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
            let mut at = 0;
            while at < tallies.len() {
                let row = tallies[at].row;
                self.progress.step(format_args!("pass {}: {row}", pass + 1));
                let half = half_of(&tallies, row);
                match self.pass_with_room(&mut tallies[at], pass, half).await {
                    Ok(()) => at += 1,
                    Err(Trouble::OfRow(why)) if tallies.len() > 1 => {
                        left_out.push(LeftOut { row: row.to_string(), why });
                        tallies.remove(at);
                    }
                    Err(trouble) => return Err(trouble.of_all()),
                }
            }
        }
        Ok(Measured { server, tallies, left_out })
    }

    /// The row before may have left its processes with all connections that the store has: new ones begin with none.
    async fn pass_with_room(
        &mut self,
        tally: &mut Tally,
        pass: usize,
        half: Option<f64>,
    ) -> Result<(), Trouble> {
        match self.pass(tally, pass, half).await {
            Err(Trouble::OfRow(_)) => {
                for worker in std::mem::take(&mut self.workers) {
                    worker.end().await;
                }
                self.crew(1).await?;
                self.pass(tally, pass, half).await
            }
            passed => passed,
        }
    }

    async fn pass(&mut self, tally: &mut Tally, pass: usize, half: Option<f64>) -> Result<(), Trouble> {
        match tally.row {
            Row::Pairs { tasks } => {
                let mut ways = vec![Way::Leasehold];
                let by_hand = [(ByHand::Pair, Way::Raw), (ByHand::TokenlessPair, Way::Tokenless)];
                ways.extend(
                    by_hand.into_iter().filter(|(measure, _)| self.has(*measure)).map(|(_, way)| way),
                );
                // Each is first at times, so that none always has the warmer machine.
                let first = pass % ways.len();
                ways.rotate_left(first);
                for way in ways {
                    self.pairs(tally, way, tasks, None).await?;
                }
                Ok(())
            }
            Row::HalfLoad { .. } if half.is_none() => {
                Err(Trouble::OfRow("the row that it is the half of was not measured".to_owned()))
            }
            Row::HalfLoad { tasks } => self.pairs(tally, Way::Leasehold, tasks, half).await,
            Row::HandOver { waiters, processes } => {
                self.hand_over(tally, pass, waiters + 1, processes).await?;
                if self.has(ByHand::Notice) {
                    self.notices().await?.add_to(&mut tally.notices);
                }
                Ok(())
            }
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
    ) -> Result<(), Trouble> {
        let kind = match way {
            Way::Leasehold => "pairs",
            Way::Raw => "raw",
            Way::Tokenless => "tokenless",
        };
        let names = self.names(&format!("{kind}/{tasks}"), tasks)?;
        let window = self.window();
        let job = Job::Pairs { way, tasks, names, pairs_a_second, window };
        let (done, counted) = self.ask_counting(0, 1, vec![job], window).await?;
        for done in done {
            match done {
                Done::Pairs(pairs) => tally.add_pairs(way, &pairs, counted, window),
                other => return Err(instead(other)),
            }
        }
        Ok(())
    }

    async fn hand_over(
        &mut self,
        tally: &mut Tally,
        pass: usize,
        contenders: usize,
        processes: usize,
    ) -> Result<(), Trouble> {
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
            match done {
                Done::HandOver { turns: some, cpu: its } => {
                    turns.extend(some);
                    cpu += its;
                }
                other => return Err(instead(other)),
            }
        }
        tally.add_round(&Round::of(turns, contenders), cpu, counted, window);
        Ok(())
    }

    /// As long as one window, with nothing beside it.
    async fn notices(&mut self) -> Result<Counts, Trouble> {
        let (name, window) = (self.name("notice")?, self.window());
        match self.ask(0, Job::Notices { name, window }).await? {
            Done::Notices { times } => Ok(times),
            other => Err(instead(other)),
        }
    }

    /// In a process of its own, whose memory nothing else has grown.
    async fn held(&mut self, tally: &mut Tally, count: usize) -> Result<(), Trouble> {
        let at = self.workers.len();
        self.crew(at + 1).await?;
        let names = self.names(&format!("held/{count}"), count)?;
        // A ttl that has each of them renewed twice meanwhile, and that a busy machine can keep.
        let time =
            (self.plan.window * u32::try_from(self.plan.passes).unwrap_or(u32::MAX)).clamp(HOLD, HOLD * 5);
        let ttl = time * 3 / 2;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let job = Job::Hold { names, count, ttl_millis: millis(ttl), millis: millis(time) };
        let done = self.ask(at, job).await?;
        self.workers.remove(at).end().await;
        match done {
            Done::Held(held) => tally.held = Some(HeldReport::of(&held, millis(ttl), time.as_secs_f64())),
            other => return Err(instead(other)),
        }
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
        let asked = Moment::now();
        let before = self.counters().await?;
        let counted_from = asked.plus(Duration::from_nanos(Moment::now().nanos_since(asked) / 2));
        window.until.wait().await;
        let after = self.counters().await?;
        let mut done = Vec::new();
        for worker in self.workers.iter_mut().skip(first).take(count) {
            done.push(worker.answer().await?);
        }
        // A busy server tells its counters late: what it did before is not in them. After the window it does nothing more.
        let whole = window.share_after(counted_from).recip();
        let of_window =
            |after: u64, before: u64| (after.saturating_sub(before) as f64 * whole).round() as u64;
        let counted = before.zip(after).map(|(before, after)| Counters {
            commands: of_window(after.commands, before.commands),
            bytes: of_window(after.bytes, before.bytes),
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
    async fn crew(&mut self, count: usize) -> Result<(), Trouble> {
        while self.workers.len() < count {
            let at = self.workers.len();
            self.workers.push(Worker::start(self.target)?);
            let name = self.name(&format!("open/{at}"))?;
            // Without the first there is nothing to measure, and it says itself what is wrong.
            let opened = self.ask(at, Job::Open { name, for_all: at == 0 }).await?;
            if !matches!(opened, Done::Opened) {
                self.workers.remove(at).end().await;
                return Err(instead(opened));
            }
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

    fn has(&self, measure: ByHand) -> bool {
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
fn half_of(tallies: &[Tally], row: Row) -> Option<f64> {
    let Row::HalfLoad { tasks } = row else { return None };
    let full = tallies.iter().find(|tally| tally.row == Row::Pairs { tasks })?;
    Some((full.rates.last()? / 2.0).max(1.0))
}
