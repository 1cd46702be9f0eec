//! One fault under one store, played on real servers and written into a history.

use crate::checker::{CheckReport, Model};
use crate::context::Context;
use crate::expect::{eventually, optional};
use crate::fault_run::{FaultRun, PreparedFault};
use crate::faults::{ClientSetup, FaultTiming, Ground, Lasting, SideEffect, Time, Witness};
use crate::history::{FencedCounter, History};
use crate::run_config::RunConfig;
use crate::running_client::Role;
use crate::stop::{Stop, Verdict};
use crate::subject::Subject;
use crate::time_scale::scaled;
use crate::worker::{ClientRequest, Worker};
use crate::workload::{PLAIN, Workload};
use leasehold_core::{AcquireOptions, DistributedLockExt, Fault, HoldKind, LockName, Reach, Semantics};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is left of a run.
pub(super) struct Observation {
    pub(super) fault: Fault,
    pub(super) words: &'static str,
    pub(super) timing: FaultTiming,
    /// True if another server took over that knows nothing of the hold.
    pub(super) replaced: bool,
    /// How many connections the store has ended of a client that did nothing; `None` where no client could see that, or the
    /// fault need not end any.
    pub(super) ended: Option<u64>,
    pub(super) hold: HoldKind,
    pub(super) name: LockName,
    pub(super) history: History,
    pub(super) report: CheckReport,
    /// The process of the holder.
    pub(super) holder: u32,
    /// Just before the fault was made, just after; just before it was healed. In the time of the history.
    pub(super) injected: u64,
    pub(super) struck: u64,
    pub(super) healing: u64,
    /// How long it took until the lock could be had again when all was over, if it ever could.
    pub(super) recovered: Option<Duration>,
    /// Records beyond those that a plain use leaves.
    pub(super) residue: u64,
}

struct CellRun {
    run: FaultRun,
    timing: FaultTiming,
    free_name: LockName,
    reader: bool,
}

/// The processes of a run.
struct Workers {
    holder: Worker,
    /// The process of the other clients; `None` where they must be in the holder's.
    others: Option<Worker>,
}

/// How long others may take until they have had a first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(3);
/// Limit for the first use of a server that has just started.
const FIRST_USE: Duration = Duration::from_secs(60);
/// How long a lock may take to be had again when all is over, beyond the lease and the interval of questions.
const AFTERWARDS: Duration = Duration::from_secs(8);

/// Plays it. The holder is a reader if that is wanted; the others take the lock for themselves.
///
/// # Errors
///
/// [`Stop::Skipped`] if the fault cannot be made on this store, [`Stop::Failed`] if something of the run's own fails.
pub(super) async fn play(
    subject: &Arc<dyn Subject>,
    semantics: &Semantics,
    fault: Fault,
    seed: u64,
    reader: bool,
) -> Result<Observation, Stop> {
    let config = RunConfig { seed, ..RunConfig::from_environment() };
    let cx = Context::start(Arc::clone(subject), "matrix", config).await?;
    // By the seed: on a store of several primaries, the name decides which of them has the lock.
    let (name, free_name) =
        (cx.bare(&format!("matrix/{seed:x}/wanted")), cx.bare(&format!("matrix/{seed:x}/free")));
    let run = FaultRun::new(cx, semantics.clone(), name, &std::env::temp_dir())?;
    let fault = run.prepare(fault, None).await?;
    CellRun { run, timing: fault.timing, free_name, reader }.play(fault).await
}

impl CellRun {
    async fn play(self, mut fault: PreparedFault) -> Result<Observation, Stop> {
        let (run, cx) = (&self.run, &self.run.cx);
        let declared = self.plain_use().await?;
        let mut workers = self.workers(&fault.setup).await?;
        let holder = workers.holder.process();
        let mut witness = None;
        let (sees, replaced) =
            (fault.injection.ends_connections(), fault.injection.side_effect() == SideEffect::Primary);
        if sees && replaced {
            // Another name may have another primary; and of a use after it was cut off, the replica would not know.
            witness = Witness::connect(cx.subject(), cx.store(), &run.name).await?;
        }
        fault.injection.before_the_hold(&mut workers.ground(run)).await?;
        if sees && !replaced {
            witness = Witness::connect(cx.subject(), cx.store(), &self.free_name).await?;
        }

        let mut injected = run.recorder.now();
        if self.timing.from_the_start {
            fault.inject(&mut workers.ground(run)).await?;
            workers.holder.order(ClientRequest::Start(Role::Holder, self.workload_of_holder())).await?;
            let other = cx.subject().connect(&cx.store().address_for_holds_of(self.timing.ttl)).await?;
            fault.injection.has_struck(&*other, &run.name).await?;
            self.begin_others(workers.others()).await?;
        } else {
            workers.holder.order(ClientRequest::Start(Role::Holder, self.workload_of_holder())).await?;
            workers.holder.held().await?;
            self.begin_others(workers.others()).await?;
            injected = run.recorder.now();
            fault.inject(&mut workers.ground(run)).await?;
        }
        let struck = run.recorder.now();
        if let Lasting::Spell(time) | Lasting::State(time) = self.timing.lasts {
            run.watch(time).await?;
        }
        let healing = run.recorder.now();
        fault.heal(&mut workers.ground(run)).await?;
        if let Some(address) = &fault.setup.healed {
            workers.others = Some(run.worker(address, &fault.setup.others_environment).await?);
            self.begin_others(workers.others()).await?;
        }
        run.watch(self.aftermath(workers.holder.is_alive())).await?;
        let ended = witness.as_ref().map(Witness::ended);
        let recovered = self.recover(&mut workers).await?;
        drop((workers, witness));
        let residue = self.residue(declared).await?;
        let model = Model::from_semantics(&run.semantics, self.timing.ttl, scaled(AFTERWARDS));
        let (history, report) = run.check(&model)?;
        Ok(Observation {
            fault: fault.fault,
            words: fault.injection.words(),
            timing: self.timing,
            replaced,
            ended,
            hold: run.semantics.hold,
            name: run.name.clone(),
            history,
            report,
            holder,
            injected,
            struck,
            healing,
            recovered,
            residue,
        })
    }

    /// Takes and gives back both locks, where that can be done from here, whatever stands between the store and others; how
    /// many records that leaves, where there is a way to count them.
    async fn plain_use(&self) -> Result<Option<usize>, Stop> {
        if self.run.semantics.reach == Reach::Process {
            return Ok(None);
        }
        let start = Instant::now();
        while let Err(error) = self.use_each_once().await {
            if start.elapsed() > scaled(FIRST_USE) {
                return Err(Stop::Failed(format!("no plain use before the fault: {error}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        optional(self.run.cx.store().records().await)
    }

    async fn use_each_once(&self) -> leasehold_core::Result<()> {
        let (cx, ttl) = (&self.run.cx, self.timing.ttl);
        let client = cx.subject().connect(&cx.store().address_for_holds_of(ttl)).await?;
        let options = AcquireOptions::new().with_ttl(ttl).with_wait(scaled(FIRST_ANSWER));
        for name in [&self.run.name, &self.free_name] {
            client.acquire_with(name, &options).await?.release().await?;
        }
        client.close().await
    }

    async fn workers(&self, setup: &ClientSetup) -> Result<Workers, Stop> {
        let holder = self.run.worker(&setup.holder, &setup.holder_environment).await?;
        let others = match self.run.semantics.reach {
            Reach::Process => None,
            _ => Some(self.run.worker(&setup.others, &setup.others_environment).await?),
        };
        Ok(Workers { holder, others })
    }

    /// All others want the lock from now on, and each has been told once that it is held.
    async fn begin_others(&self, worker: &mut Worker) -> Verdict {
        worker.order(ClientRequest::Start(Role::Passer, self.workload(&self.free_name))).await?;
        worker.order(ClientRequest::Start(Role::Prober, self.workload(&self.run.name))).await?;
        worker.order(ClientRequest::Start(Role::Waiter, self.workload(&self.run.name))).await?;
        worker.order(ClientRequest::Answered(scaled(FIRST_ANSWER))).await
    }

    fn workload(&self, name: &LockName) -> Workload {
        self.run.workload(name, self.run.cx.seed(), self.timing.ttl)
    }

    fn workload_of_holder(&self) -> Workload {
        Workload { readers: if self.reader { 100 } else { 0 }, ..self.workload(&self.run.name) }
    }

    /// What comes of a moment is seen within a lease; a dead holder is replaced after it.
    fn aftermath(&self, holder_lives: bool) -> Time {
        let ttl = self.timing.ttl;
        match (self.timing.lasts, holder_lives) {
            (Lasting::Moment, true) => Time { least: ttl / 2, most: ttl * 6 / 5 },
            (Lasting::Moment, false) => Time { least: Duration::ZERO, most: ttl + scaled(AFTERWARDS) },
            _ => Time::exactly(ttl / 4),
        }
    }

    /// The holder gives back what it has, and the others go on. How long it takes until one of them has the lock.
    async fn recover(&self, workers: &mut Workers) -> Result<Option<Duration>, Stop> {
        let mut counter = FencedCounter::open(&self.run.directory.path().join(PLAIN))?;
        if workers.holder.is_alive() {
            workers.holder.order(ClientRequest::Leave(Some(Role::Holder))).await?;
        }
        let (start, before) = (Instant::now(), counter.number()?);
        let bound = self.timing.ttl + self.run.semantics.wake_up.bound() + scaled(AFTERWARDS);
        // The first may have begun before.
        let free = eventually(bound, || counter.number().is_ok_and(|now| now >= before + 2)).await;
        let took = start.elapsed();
        workers.others().order(ClientRequest::Leave(None)).await?;
        Ok(free.then_some(took))
    }

    /// What is left when all clients have gone, once leases have had time to end.
    async fn residue(&self, declared: Option<usize>) -> Result<u64, Stop> {
        let Some(declared) = declared else { return Ok(0) };
        // A session may be longer than the lease that was asked for, by a third.
        let (start, bound) = (Instant::now(), self.timing.ttl * 4 / 3 + scaled(AFTERWARDS / 4));
        loop {
            let records = self.run.cx.store().records().await;
            let left = records.map(|records| records.saturating_sub(declared) as u64);
            if matches!(left, Ok(0)) || start.elapsed() > bound {
                return left.map_err(|why| Stop::Failed(format!("what is left cannot be counted: {why}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Workers {
    fn others(&mut self) -> &mut Worker {
        self.others.as_mut().unwrap_or(&mut self.holder)
    }

    fn ground<'a>(&'a mut self, run: &'a FaultRun) -> Ground<'a> {
        run.ground(&mut self.holder, self.others.as_mut())
    }
}
