//! The matrix itself put to the test: stores that claim too much, faults that are not made, a lock that is none. Each must
//! turn its cell red, or the other cells mean nothing.

use crate::skips_missing;
use crate::tame::TameStore;
use async_trait::async_trait;
use leasehold_conformance::matrix::{Matrix, State};
use leasehold_conformance::{Stop, Store, Subject};
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, Attempt, Claim, DistributedLock, DistributedLockExt, Fault, FencingToken, Grant,
    LockAdmin, LockBackend, LockClient, LockGuard, LockName, Outcome, OwnerId, Promises, Release, Renewal,
    Result, Semantics,
};
use libtest_mimic::{Completion, Failed, Trial};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A cell that must be red, and how.
struct Control {
    what: &'static str,
    subject: Arc<dyn Subject>,
    fault: Fault,
    reader: bool,
    is_right: fn(&State) -> bool,
}

fn broken(state: &State) -> bool {
    matches!(state, State::Broken { .. })
}

fn void(state: &State) -> bool {
    matches!(state, State::Void { .. })
}

fn controls(all: &[Arc<dyn Subject>]) -> Vec<Control> {
    let honest = named("redis", all);
    let control = |what, subject, fault, is_right| Control { what, subject, fault, reader: false, is_right };
    let proud = proud(honest);
    let tame = |name, honest: &_| another(name, honest, |store| Box::new(TameStore(store)));
    let (tame_group, tame_quorum) =
        (tame("tame-group", named("redis-sentinel", all)), tame("tame-quorum", named("redlock", all)));
    let (tame_pooler, tame) = (tame("tame-pooler", &proud), tame("tame", honest));
    let untidy = another("untidy", honest, |store| Box::new(UntidyStore(store, AtomicUsize::new(0))));
    let blind = another("blind", honest, |store| Box::new(BlindStore(store, AtomicUsize::new(0))));
    let soon_blind = another("soon-blind", honest, |store| Box::new(BlindStore(store, AtomicUsize::new(1))));
    vec![
        control(
            "store_that_claims_to_survive_its_own_death",
            Arc::clone(&proud),
            Fault::StoreRestarted,
            broken,
        ),
        control("store_that_claims_to_survive_the_loss_of_its_data", proud, Fault::DataLost, broken),
        control("pause_that_stops_nothing", Arc::clone(&tame), Fault::StorePaused, void),
        control("loss_that_loses_nothing", Arc::clone(&tame), Fault::DataLost, void),
        control("crash_that_crashes_nothing", Arc::clone(&tame), Fault::StoreRestarted, void),
        control("loss_of_power_that_stops_nothing", Arc::clone(&tame), Fault::PowerLost, void),
        control("administrator_that_ends_no_connection", Arc::clone(&tame), Fault::ConnectionKilled, void),
        control("loss_of_all_servers_that_kills_none", tame, Fault::QuorumLost, broken),
        control("loss_of_some_servers_that_kills_none", tame_quorum, Fault::MinorityDown, broken),
        control("pooler_that_is_none", tame_pooler, Fault::Pooler, broken),
        control("fail_over_that_changes_nothing", Arc::clone(&tame_group), Fault::FailOver, void),
        control("primary_that_is_not_replaced", tame_group, Fault::SplitBrain, void),
        control("lock_that_leaves_records_behind", untidy, Fault::None, broken),
        control("store_whose_leftovers_cannot_be_counted", soon_blind, Fault::None, broken),
        control("store_whose_records_cannot_be_counted", blind, Fault::None, broken),
        control("lock_that_grants_every_request", open(), Fault::None, broken),
        Control {
            reader: true,
            ..control("lock_that_grants_every_request_beside_a_reader", open(), Fault::None, broken)
        },
    ]
}

/// Another subject, which claims to hold under everything.
pub(crate) fn proud(honest: &Arc<dyn Subject>) -> Arc<dyn Subject> {
    Arc::new(Proud(Arc::clone(honest)))
}

/// A subject whose lock grants every request.
pub(crate) fn open() -> Arc<dyn Subject> {
    Arc::new(Open)
}

/// A subject whose servers, once they stand still, are not to be moved.
pub(crate) fn clumsy(honest: &Arc<dyn Subject>) -> Arc<dyn Subject> {
    another("clumsy", honest, |store| Box::new(ClumsyStore(store)))
}

/// The subjects, which worker processes must know.
pub(crate) fn subjects(all: &[Arc<dyn Subject>]) -> Vec<Arc<dyn Subject>> {
    let clumsy = clumsy(named("redis", all));
    controls(all).into_iter().map(|control| control.subject).chain([clumsy]).collect()
}

/// A subject of this workspace.
pub(crate) fn named<'a>(name: &str, all: &'a [Arc<dyn Subject>]) -> &'a Arc<dyn Subject> {
    all.iter().find(|subject| subject.name() == name).unwrap()
}

/// The controls in which no fault is made, or the others.
pub(crate) fn trials(all: &[Arc<dyn Subject>], seed: u64, tame: bool) -> Vec<Trial> {
    let trial = |control: Control| {
        Trial::ignorable_test(format!("controls::{}", control.what), move || {
            let Control { subject, fault, reader, is_right, .. } = control;
            let matrix = Matrix::new(&[Arc::clone(&subject)], seed);
            // A machine that is late says nothing of the control.
            let mut tries = 5;
            let cell = loop {
                let cell = matrix.play(&subject, fault, reader).ok_or("it was interrupted")?;
                tries -= 1;
                if tries == 0 || !matches!(cell.state, State::NotJudged { .. }) {
                    break cell;
                }
            };
            match &cell.state {
                state if is_right(state) => Ok(Completion::Completed),
                State::NotRun { why } if skips_missing() => Ok(Completion::ignored_with(why.clone())),
                _ => Err(Failed::from(format!("it was taken for {:?}: {:?}", cell.state, cell.figures))),
            }
        })
    };
    let is_asked = |control: &Control| control.subject.name().starts_with("tame") == tame;
    controls(all).into_iter().filter(is_asked).map(trial).collect()
}

#[derive(Debug)]
struct Proud(Arc<dyn Subject>);

#[async_trait]
impl Subject for Proud {
    fn name(&self) -> &str {
        "proud"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        self.0.start().await
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        let lock = self.0.connect(address).await?;
        let mut semantics = lock.semantics().clone();
        semantics.promises = Promises::new(|_| Outcome::Holds);
        Ok(Arc::new(ProudLock { lock, semantics }))
    }
}

#[derive(Clone, Debug)]
struct ProudLock {
    lock: Arc<dyn DistributedLock>,
    semantics: Semantics,
}

#[async_trait]
impl DistributedLock for ProudLock {
    fn semantics(&self) -> &Semantics {
        &self.semantics
    }

    fn defaults(&self) -> &AcquireOptions {
        self.lock.defaults()
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        self.lock.acquire_with(name, options).await
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.lock.admin()
    }

    async fn close(&self) -> Result<()> {
        self.lock.close().await
    }
}

/// Another subject, whose store is not what it was.
#[derive(Debug)]
struct Another {
    name: &'static str,
    honest: Arc<dyn Subject>,
    alter: fn(Box<dyn Store>) -> Box<dyn Store>,
}

fn another(
    name: &'static str,
    honest: &Arc<dyn Subject>,
    alter: fn(Box<dyn Store>) -> Box<dyn Store>,
) -> Arc<dyn Subject> {
    Arc::new(Another { name, honest: Arc::clone(honest), alter })
}

#[async_trait]
impl Subject for Another {
    fn name(&self) -> &str {
        self.name
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        Ok((self.alter)(self.honest.start().await?))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        self.honest.connect(address).await
    }
}

/// More and more is found in it.
#[derive(Debug)]
struct UntidyStore(Box<dyn Store>, AtomicUsize);

#[async_trait]
impl Store for UntidyStore {
    fn address(&self) -> String {
        self.0.address()
    }

    async fn records(&self) -> std::result::Result<usize, Stop> {
        Ok(self.0.records().await? + self.1.fetch_add(1, Ordering::SeqCst))
    }
}

/// A store whose records can be counted only so many times.
#[derive(Debug)]
struct BlindStore(Box<dyn Store>, AtomicUsize);

#[async_trait]
impl Store for BlindStore {
    fn address(&self) -> String {
        self.0.address()
    }

    async fn records(&self) -> std::result::Result<usize, Stop> {
        let one_less = |left: usize| left.checked_sub(1);
        match self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Ok(_) => self.0.records().await,
            Err(_) => Err(Stop::failed("it is too dark")),
        }
    }
}

/// A store with a fault that is made and cannot be healed.
#[derive(Debug)]
struct ClumsyStore(Box<dyn Store>);

#[async_trait]
impl Store for ClumsyStore {
    fn address(&self) -> String {
        self.0.address()
    }

    async fn pause(&self) -> std::result::Result<(), Stop> {
        self.0.pause().await
    }

    async fn resume(&self) -> std::result::Result<(), Stop> {
        Err(Stop::skipped("its servers were dropped"))
    }
}

/// A lock that grants whatever it is asked.
#[derive(Debug)]
struct Open;

#[derive(Debug)]
struct OpenStore;

#[derive(Debug, Default)]
struct OpenBackend(MemoryBackend);

static TOKENS: AtomicU64 = AtomicU64::new(1);

#[async_trait]
impl Subject for Open {
    fn name(&self) -> &str {
        "open"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        Ok(Box::new(OpenStore))
    }

    async fn connect(&self, _: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(LockClient::new(Arc::new(OpenBackend::default()))))
    }
}

impl Store for OpenStore {
    fn address(&self) -> String {
        "nowhere".to_owned()
    }
}

#[async_trait]
impl LockBackend for OpenBackend {
    fn semantics(&self) -> Semantics {
        self.0.semantics()
    }

    async fn try_acquire(&self, _: &Claim) -> Result<Attempt> {
        let token = FencingToken::new(TOKENS.fetch_add(1, Ordering::SeqCst));
        Ok(Attempt::Granted(Grant::new(token)))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        claims.iter().map(|_| Ok(Renewal::Renewed)).collect()
    }

    async fn release(&self, _: &Claim, _: Duration) -> Result<Release> {
        Ok(Release::Released)
    }

    async fn changed(&self, _: &Claim) {
        std::future::pending::<()>().await;
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        None
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
