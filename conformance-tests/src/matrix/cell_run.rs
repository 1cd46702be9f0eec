//! One fault under one store, played on real servers and written into a history.

use crate::checker::{CheckReport, Model};
use crate::context::Context;
use crate::expect::{eventually, first_use, optional};
use crate::fault_run::FaultRun;
use crate::faults::{ClientSetup, FaultSpec, Ground, Injection, Lasting, SideEffect, Time, Witness, spec_of};
use crate::history::{FencedCounter, History};
use crate::run_config::RunConfig;
use crate::running_client::Role;
use crate::stop::{Stop, Verdict};
use crate::subject::Subject;
use crate::time_scale::scaled;
use crate::worker::{Request, Worker};
use crate::workload::{PLAIN, Workload};
use leasehold_core::{AcquireOptions, Fault, HoldKind, LockName, Reach, Semantics};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is left of a run.
pub(super) struct Observation {
    pub(super) fault: FaultSpec,
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
    /// True if the lock could be had again when all was over.
    pub(super) recovered: bool,
    /// Records beyond those that a plain use leaves.
    pub(super) residue: u64,
}

struct CellRun {
    run: FaultRun,
    fault: FaultSpec,
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
/// Ends with [`Stop::Skipped`] if the fault cannot be made on this store, [`Stop::Failed`] if something of the run's own fails.
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
    let [name, free_name] = ["wanted", "free"].map(|name| cx.bare(&format!("matrix/{seed:x}/{name}")));
    let run = FaultRun::new(cx, semantics.clone(), name, &std::env::temp_dir())?;
    let fault = spec_of(fault, run.cx.store(), semantics)?;
    let injection = Injection::prepare(fault, run.cx.store(), fault.ttl).await?;
    // How it is made may have been found out only then.
    CellRun { run, fault: injection.spec, free_name, reader }.play(injection).await
}

impl CellRun {
    async fn play(self, mut injection: Injection) -> Result<Observation, Stop> {
        let (run, cx, fault) = (&self.run, &self.run.cx, self.fault);
        let declared = self.plain_use().await?;
        let mut workers = self.workers(&injection.setup).await?;
        let holder = workers.holder.process();
        let mut witness = None;
        let replaced = fault.side_effect() == SideEffect::Primary;
        if fault.ends_connections() && replaced {
            // Another name may have another primary; and of a use after it was cut off, the replica would not know.
            witness = Witness::connect(&**cx.subject(), cx.store(), &run.name).await?;
        }
        injection.before_the_hold(&mut workers.ground(run)).await?;
        if fault.ends_connections() && !replaced {
            witness = Witness::connect(&**cx.subject(), cx.store(), &self.free_name).await?;
        }

        let mut injected = run.recorder.now();
        if fault.is_from_the_start() {
            injection.inject(&mut workers.ground(run)).await?;
            workers.holder.order(Request::Start(Role::Holder, self.workload_of_holder())).await?;
            let other = cx.subject().connect(&cx.store().address_for_holds_of(fault.ttl)).await?;
            injection.has_struck(&*other, &run.name).await?;
            self.begin_others(workers.others()).await?;
        } else {
            workers.holder.order(Request::Start(Role::Holder, self.workload_of_holder())).await?;
            workers.holder.held().await?;
            self.begin_others(workers.others()).await?;
            injected = run.recorder.now();
            injection.inject(&mut workers.ground(run)).await?;
        }
        let struck = run.recorder.now();
        if let Lasting::Spell(time) | Lasting::State(time) = fault.lasts {
            run.watch(time).await?;
        }
        let healing = run.recorder.now();
        injection.heal(&mut workers.ground(run)).await?;
        if let Some(address) = &injection.setup.healed {
            workers.others = Some(run.worker(address, &injection.setup.others_environment).await?);
            self.begin_others(workers.others()).await?;
        }
        run.watch(self.aftermath(workers.holder.is_alive())).await?;
        let ended = witness.as_ref().map(Witness::ended);
        let recovered = self.recover(&mut workers).await?;
        drop((workers, witness));
        let residue = self.residue(declared).await?;
        let model = Model::from_semantics(&run.semantics, fault.ttl, scaled(AFTERWARDS));
        let (history, report) = run.check(&model)?;
        let (hold, name) = (run.semantics.hold, run.name.clone());
        Ok(Observation {
            fault,
            ended,
            hold,
            name,
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
        let (cx, ttl) = (&self.run.cx, self.fault.ttl);
        let client = cx.subject().connect(&cx.store().address_for_holds_of(ttl)).await?;
        let options = AcquireOptions::new().with_ttl(ttl).with_wait(scaled(FIRST_ANSWER));
        for name in [&self.run.name, &self.free_name] {
            let used = first_use(&client, name, &options, scaled(FIRST_USE)).await;
            let told = |why| format!("no plain use before the fault: {why}");
            used.map_err(|stop| match stop {
                Stop::Late(why, _) | Stop::Away(why) => Stop::NotJudged(told(why)),
                stop => stop.map(told),
            })?;
        }
        client.close().await?;
        optional(cx.store().records().await)
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
        worker.order(Request::Start(Role::Passer, self.workload(&self.free_name))).await?;
        worker.order(Request::Start(Role::Prober, self.workload(&self.run.name))).await?;
        worker.order(Request::Start(Role::Waiter, self.workload(&self.run.name))).await?;
        worker.order(Request::Answered(scaled(FIRST_ANSWER))).await
    }

    fn workload(&self, name: &LockName) -> Workload {
        self.run.workload(name, self.run.cx.seed(), self.fault.ttl)
    }

    fn workload_of_holder(&self) -> Workload {
        Workload { readers: if self.reader { 100 } else { 0 }, ..self.workload(&self.run.name) }
    }

    /// What comes of a moment is seen within a lease; a dead holder is replaced after it.
    fn aftermath(&self, holder_lives: bool) -> Time {
        let ttl = self.fault.ttl;
        match (self.fault.lasts, holder_lives) {
            (Lasting::Moment, true) => Time { least: ttl / 2, most: ttl * 6 / 5 },
            (Lasting::Moment, false) => {
                Time { least: Duration::ZERO, most: self.longest_hold() + scaled(AFTERWARDS) }
            }
            _ => Time::exactly(ttl / 4),
        }
    }

    /// The holder gives back what it has, and the others go on. True if one of them has the lock in time.
    async fn recover(&self, workers: &mut Workers) -> Result<bool, Stop> {
        let mut counter = FencedCounter::open(&self.run.directory.path().join(PLAIN))?;
        if workers.holder.is_alive() {
            workers.holder.order(Request::Leave(Some(Role::Holder))).await?;
        }
        let before = counter.number()?;
        let bound = self.longest_hold() + self.run.semantics.wake_up.bound() + scaled(AFTERWARDS);
        // The first may have begun before.
        let free = eventually(bound, || counter.number().is_ok_and(|now| now >= before + 2)).await;
        workers.others().order(Request::Leave(None)).await?;
        Ok(free)
    }

    /// How long the store keeps a hold of which it hears nothing.
    fn longest_hold(&self) -> Duration {
        self.fault.ttl.max(self.run.semantics.session_timeout.unwrap_or_default())
    }

    /// What is left when all clients have gone, once leases have had time to end.
    async fn residue(&self, declared: Option<usize>) -> Result<u64, Stop> {
        let Some(declared) = declared else { return Ok(0) };
        // A session may be longer than the lease that was asked for, by a third.
        let (start, bound) = (Instant::now(), self.longest_hold() * 4 / 3 + scaled(AFTERWARDS / 4));
        loop {
            let records = self.run.cx.store().records().await;
            let left = records.map(|records| records.saturating_sub(declared) as u64);
            if matches!(left, Ok(0)) || start.elapsed() > bound {
                return left.map_err(|stop| stop.map(|why| format!("what is left cannot be counted: {why}")));
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
