//! One fault under one store, played on real servers and written into a history.

use crate::case::Stop;
use crate::checker::{Model, Report, check};
use crate::context::eventually;
use crate::faults::{Claim, Ground, Injection, Lasting, Schedule, Setting, Time, Witness, injection, scaled};
use crate::history::{FencedCounter, History, PlainCounter, Recorder, read};
use crate::running_client::Role;
use crate::subject::{Store, Subject};
use crate::worker::Worker;
use crate::workload::Workload;
use leasehold_core::{AcquireOptions, DistributedLockExt, Fault, HoldKind, LockName, Reach, Semantics};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What is left of a run.
pub(super) struct Seen {
    pub(super) fault: Fault,
    pub(super) words: &'static str,
    pub(super) schedule: Schedule,
    /// True if another server took over that knows nothing of the hold.
    pub(super) replaced: bool,
    /// How many connections the store has ended that somebody had who did nothing; `None` where nobody could see that, or
    /// the fault need not end any.
    pub(super) ended: Option<u64>,
    pub(super) hold: HoldKind,
    pub(super) name: LockName,
    pub(super) history: History,
    pub(super) report: Report,
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

struct FaultRun {
    subject: Arc<dyn Subject>,
    store: Box<dyn Store>,
    fault: Fault,
    schedule: Schedule,
    semantics: Semantics,
    seed: u64,
    reader: bool,
    name: LockName,
    free_name: LockName,
    directory: TempDir,
    recorder: Recorder,
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
) -> Result<Seen, Stop> {
    let store = subject.start().await.map_err(|cannot| Stop::missing(&cannot.to_string()))?;
    let injection = injection(fault, &*store, semantics)?;
    let directory = tempfile::tempdir()?;
    let recorder = Recorder::create(directory.path())?;
    let run = FaultRun {
        subject: Arc::clone(subject),
        store,
        fault,
        schedule: injection.schedule(),
        semantics: semantics.clone(),
        seed,
        reader,
        name: LockName::new(format!("matrix/{seed:x}/wanted"))?,
        free_name: LockName::new(format!("matrix/{seed:x}/free"))?,
        directory,
        recorder,
    };
    run.run(injection).await
}

impl FaultRun {
    async fn run(self, mut injection: Box<dyn Injection>) -> Result<Seen, Stop> {
        let setting = injection.prepare(&*self.store, &self.schedule).await?;
        let declared = self.plain_use().await?;
        let mut workers = self.workers(&setting).await?;
        let pid = workers.holder.process();
        let mut witness = None;
        let (sees, replaced) = (injection.ends_connections(), injection.claim() == Claim::Primary);
        if sees && replaced {
            // Another name may have another primary; and of a use after it was cut off, the replica would not know.
            witness = Witness::of(&*self.subject, &*self.store, &self.name).await?;
        }
        injection.before_the_hold(&mut self.ground(&mut workers)).await?;
        if sees && !replaced {
            witness = Witness::of(&*self.subject, &*self.store, &self.free_name).await?;
        }

        let injected;
        if self.schedule.from_the_start {
            injected = self.recorder.now();
            self.inject(&mut *injection, &mut workers).await?;
            workers.holder.start_client(Role::Holder, &self.workload_of_holder()).await?;
            let other = self.subject.connect(&self.store.address_for_holds_of(self.schedule.ttl)).await?;
            injection.has_struck(&*other, &self.name).await?;
            self.begin_others(workers.others()).await?;
        } else {
            workers.holder.start_client(Role::Holder, &self.workload_of_holder()).await?;
            workers.holder.held().await?;
            self.begin_others(workers.others()).await?;
            injected = self.recorder.now();
            self.inject(&mut *injection, &mut workers).await?;
        }
        let struck = self.recorder.now();
        if let Lasting::Spell(time) | Lasting::State(time) = self.schedule.lasts {
            self.watch(time).await?;
        }
        let healing = self.recorder.now();
        self.heal(&mut *injection, &mut workers).await?;
        if let Some(address) = &setting.healed {
            workers.others = Some(self.worker(address, &setting.others_environment).await?);
            self.begin_others(workers.others()).await?;
        }
        self.watch(self.aftermath(workers.holder.is_alive())).await?;
        let ended = witness.as_ref().map(Witness::ended);
        let recovered = self.recover(&mut workers).await?;
        drop((workers, witness));
        let residue = self.residue(declared).await?;
        let (history, report) = self.report()?;
        Ok(Seen {
            fault: self.fault,
            words: injection.words(),
            schedule: self.schedule,
            replaced,
            ended,
            hold: self.semantics.hold,
            name: self.name,
            history,
            report,
            holder: pid,
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
        if self.semantics.reach == Reach::Process {
            return Ok(None);
        }
        let (address, start) = (self.store.address_for_holds_of(self.schedule.ttl), Instant::now());
        while let Err(error) = self.use_each_once(&address).await {
            if start.elapsed() > scaled(FIRST_USE) {
                return Err(Stop::Failed(format!("no plain use before the fault: {error}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        match self.store.records().await {
            Err(cannot) if !cannot.was_tried() => Ok(None),
            counted => Ok(Some(counted?)),
        }
    }

    async fn use_each_once(&self, address: &str) -> leasehold_core::Result<()> {
        let client = self.subject.connect(address).await?;
        let options = AcquireOptions::new().with_ttl(self.schedule.ttl).with_wait(scaled(FIRST_ANSWER));
        for name in [&self.name, &self.free_name] {
            client.acquire_with(name, &options).await?.release().await?;
        }
        client.close().await
    }

    async fn workers(&self, setting: &Setting) -> Result<Workers, Stop> {
        let holder = self.worker(&setting.holder, &setting.holder_environment).await?;
        let others = match self.semantics.reach {
            Reach::Process => None,
            _ => Some(self.worker(&setting.others, &setting.others_environment).await?),
        };
        Ok(Workers { holder, others })
    }

    async fn worker(&self, address: &str, environment: &[(String, String)]) -> Result<Worker, Stop> {
        Worker::start(self.subject.name(), address, environment).await
    }

    /// All others want the lock from now on, and each has been told once that it is held.
    async fn begin_others(&self, worker: &mut Worker) -> Result<(), Stop> {
        worker.start_client(Role::Passer, &self.workload(&self.free_name)).await?;
        worker.start_client(Role::Prober, &self.workload(&self.name)).await?;
        worker.start_client(Role::Waiter, &self.workload(&self.name)).await?;
        worker.answered(scaled(FIRST_ANSWER)).await
    }

    fn workload(&self, name: &LockName) -> Workload {
        Workload {
            directory: self.directory.path().to_owned(),
            name: name.clone(),
            seed: self.seed,
            ttl: self.schedule.ttl,
            lasts: Duration::ZERO,
            readers: 0,
        }
    }

    fn workload_of_holder(&self) -> Workload {
        Workload { readers: if self.reader { 100 } else { 0 }, ..self.workload(&self.name) }
    }

    fn ground<'a>(&'a self, workers: &'a mut Workers) -> Ground<'a> {
        Ground {
            store: &*self.store,
            holder: &mut workers.holder,
            others: workers.others.as_mut(),
            name: &self.name,
            recorder: &self.recorder,
        }
    }

    fn target(&self, workers: &Workers) -> Option<u32> {
        self.schedule.hits_holder.then(|| workers.holder.process())
    }

    async fn inject(&self, injection: &mut dyn Injection, workers: &mut Workers) -> Result<(), Stop> {
        self.recorder.injected(self.fault, self.target(workers))?;
        injection.inject(&mut self.ground(workers)).await
    }

    async fn heal(&self, injection: &mut dyn Injection, workers: &mut Workers) -> Result<(), Stop> {
        injection.heal(&mut self.ground(workers)).await?;
        // The dead stay dead.
        if self.fault == Fault::HolderKilled {
            return Ok(());
        }
        Ok(self.recorder.healed(self.fault, self.target(workers))?)
    }

    /// Waits for so long, and then until somebody else has had the lock.
    async fn watch(&self, time: Time) -> Result<(), Stop> {
        let mut counter = FencedCounter::open(&self.file("fenced"))?;
        let (start, before) = (Instant::now(), counter.highest()?);
        while start.elapsed() < time.least || (start.elapsed() < time.most && counter.highest()? <= before) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// What comes of a moment is seen within a lease; a dead holder is replaced after it.
    fn aftermath(&self, holder_lives: bool) -> Time {
        let ttl = self.schedule.ttl;
        match (self.schedule.lasts, holder_lives) {
            (Lasting::Moment, true) => Time { least: ttl / 2, most: ttl * 6 / 5 },
            (Lasting::Moment, false) => Time { least: Duration::ZERO, most: ttl + scaled(AFTERWARDS) },
            _ => Time { least: ttl / 4, most: ttl / 4 },
        }
    }

    /// The holder gives back what it has, and the others go on. How long it takes until one of them has the lock.
    async fn recover(&self, workers: &mut Workers) -> Result<Option<Duration>, Stop> {
        let mut counter = PlainCounter::open(&self.file("plain"))?;
        if workers.holder.is_alive() {
            workers.holder.leave(Some(Role::Holder)).await?;
        }
        let (start, before) = (Instant::now(), counter.read()?);
        let bound = self.schedule.ttl + self.semantics.wake_up.bound() + scaled(AFTERWARDS);
        // The first may have begun before.
        let free = eventually(bound, || counter.read().is_ok_and(|now| now >= before + 2)).await;
        let took = start.elapsed();
        workers.others().leave(None).await?;
        Ok(free.then_some(took))
    }

    /// What is left when everybody has gone, once leases have had time to end.
    async fn residue(&self, declared: Option<usize>) -> Result<u64, Stop> {
        let Some(declared) = declared else { return Ok(0) };
        // A session may be longer than the lease that was asked for, by a third.
        let (start, bound) = (Instant::now(), self.schedule.ttl * 4 / 3 + scaled(AFTERWARDS / 4));
        loop {
            let left = self.store.records().await.map(|records| records.saturating_sub(declared) as u64);
            if matches!(left, Ok(0)) || start.elapsed() > bound {
                return left.map_err(|why| Stop::Failed(format!("what is left cannot be counted: {why}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn report(&self) -> Result<(History, Report), Stop> {
        let model = Model::of(&self.semantics, self.schedule.ttl, scaled(AFTERWARDS));
        let history = History::from_events(read(self.directory.path())?)
            .map_err(|error| Stop::Failed(format!("the history is none: {error}")))?;
        let report = check(&history, &model);
        Ok((history, report))
    }

    fn file(&self, counter: &str) -> PathBuf {
        self.directory.path().join(counter)
    }
}

impl Workers {
    fn others(&mut self) -> &mut Worker {
        self.others.as_mut().unwrap_or(&mut self.holder)
    }
}
