//! How each row is measured: which jobs its workers do, and what the server counts meanwhile.

use super::job::{HistogramCounts, Job, JobResult, LockMethod, MonotonicTime, Window};
use super::measure::Measurement;
use super::pass_error::{PassError, unexpected};
use super::plan::Row;
use super::stats::Rotation;
use super::tally::{HeldFigures, RowTally};
use crate::yardstick::{ByHand, ServerCounters};
use leasehold_console::Failure;
use std::time::Duration;

/// How long names are held at least.
const MIN_HOLD: Duration = Duration::from_secs(4);

impl Measurement<'_> {
    /// One pass of a row; `half` is how many pairs a second are half of what it could.
    pub(super) async fn pass(
        &mut self,
        tally: &mut RowTally,
        pass: usize,
        half: Option<f64>,
    ) -> Result<(), PassError> {
        match tally.row {
            Row::Pairs { tasks } => {
                let mut ways = vec![LockMethod::Leasehold];
                let by_hand =
                    [(ByHand::Pair, LockMethod::Raw), (ByHand::TokenlessPair, LockMethod::Tokenless)];
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
                Err(PassError::Row("the row that it is the half of was not measured".to_owned()))
            }
            Row::HalfLoad { tasks } => self.pairs(tally, LockMethod::Leasehold, tasks, half).await,
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
        tally: &mut RowTally,
        way: LockMethod,
        tasks: usize,
        pairs_a_second: Option<f64>,
    ) -> Result<(), PassError> {
        let kind = match way {
            LockMethod::Leasehold => "pairs",
            LockMethod::Raw => "raw",
            LockMethod::Tokenless => "tokenless",
        };
        let names = self.names(&format!("{kind}/{tasks}"), tasks)?;
        let window = self.window();
        let job = Job::Pairs { way, tasks, names, pairs_a_second, window };
        let (done, counted) = self.ask_counting(0, 1, vec![job], window).await?;
        for done in done {
            match done {
                JobResult::Pairs(pairs) => tally.add_pairs(way, &pairs, counted, window),
                other => return Err(unexpected(other)),
            }
        }
        Ok(())
    }

    async fn hand_over(
        &mut self,
        tally: &mut RowTally,
        pass: usize,
        contenders: usize,
        processes: usize,
    ) -> Result<(), PassError> {
        self.start_workers(processes).await?;
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
        let (mut turns, mut cpu, mut failed) = (Vec::new(), 0.0, None);
        for done in done {
            match done {
                JobResult::HandOver { turns: some, cpu: its } => {
                    turns.extend(some);
                    cpu += its;
                }
                other => failed = Some(other),
            }
        }
        let round = Rotation::of(turns, contenders, window);
        match failed {
            None => tally.add_rotation(&round, cpu, counted, window),
            Some(other) => {
                // What the others have seen counts, whatever has failed.
                tally.add_evidence(&round);
                return Err(unexpected(other));
            }
        }
        Ok(())
    }

    /// As long as one window, with nothing beside it.
    async fn notices(&mut self) -> Result<HistogramCounts, PassError> {
        let (name, window) = (self.name("notice")?, self.window());
        match self.ask(0, Job::Notices { name, window }).await? {
            JobResult::Notices { times } => Ok(times),
            other => Err(unexpected(other)),
        }
    }

    /// In a process of its own, whose memory nothing else has grown.
    async fn held(&mut self, tally: &mut RowTally, count: usize) -> Result<(), PassError> {
        let at = self.workers.len();
        self.start_workers(at + 1).await?;
        let names = self.names(&format!("held/{count}"), count)?;
        // A ttl that has each of them renewed twice meanwhile, and that a busy machine can keep.
        let time = (self.plan.window * u32::try_from(self.plan.passes).unwrap_or(u32::MAX))
            .clamp(MIN_HOLD, MIN_HOLD * 5);
        let ttl = time * 3 / 2;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let job = Job::Hold { names, count, ttl_millis: millis(ttl), millis: millis(time) };
        let done = self.ask(at, job).await?;
        self.workers.remove(at).end().await;
        match done {
            JobResult::Held(held) => {
                tally.held = Some(HeldFigures::of(&held, millis(ttl), time.as_secs_f64()));
            }
            other => return Err(unexpected(other)),
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
    ) -> Result<(Vec<JobResult>, Option<ServerCounters>), Failure> {
        let workers = self.workers.iter_mut().skip(first).take(count);
        for (worker, job) in workers.zip(&jobs) {
            worker.tell(job).await?;
        }
        window.from.wait().await;
        let asked = MonotonicTime::now();
        let before = self.counters().await?;
        let counted_from = asked.plus(Duration::from_nanos(MonotonicTime::now().nanos_since(asked) / 2));
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
        let counted = before.zip(after).map(|(before, after)| ServerCounters {
            commands: of_window(after.commands, before.commands),
            bytes: of_window(after.bytes, before.bytes),
        });
        Ok((done, counted))
    }
}
