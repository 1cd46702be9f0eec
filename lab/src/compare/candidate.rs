//! The stores that are compared.

use crate::args::CompareArgs;
use crate::conformance::{UserStore, root};
use crate::interrupt::{EarlyEnd, Interrupts};
use crate::measure::BenchStore;
use crate::report::{Declared, NotRun, StoreReport};
use crate::stores::{check_unnamed, private_stores};
use leasehold::admin::Finding;
use leasehold::{AcquireOptions, DistributedLockExt, Error, LockName, Wait};
use leasehold_conformance::{Stop, Store, Subject};
use leasehold_console::{Console, Failure, Invocation, in_one_line};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Timeout of the first lock of a store.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// One store, and what is known of it so far.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) subject: Arc<dyn Subject>,
    /// The store, if it is one of the user's.
    pub(super) user_store: Option<UserStore>,
    pub(super) report: StoreReport,
    /// The prefix of the names of its locks, except of those of the bench.
    pub(super) root: String,
}

/// The stores on the command line, or the configured one. All configurations are checked before any store is tried.
pub(super) async fn all(args: &CompareArgs, invocation: &Invocation) -> Result<Vec<Candidate>, Failure> {
    if args.preset.is_some() {
        check_unnamed(&invocation.store, "--preset")?;
        return private(&args.store);
    }
    let mut candidates = Vec::new();
    for store in UserStore::each(&args.stores, invocation)? {
        let config = store.invocation.load()?;
        store.invocation.open_backend(&config).await?;
        // Memory is no store of the user's: a private one stands in its place, and there is nothing to tidy up.
        let mut candidate = Candidate::new(store.subject(), (!store.is_memory()).then_some(store))?;
        candidate.report.url = candidate.user_store.is_some().then(|| config.url().to_string());
        candidates.push(candidate);
    }
    Ok(candidates)
}

fn private(wanted: &[String]) -> Result<Vec<Candidate>, Failure> {
    let all = private_stores();
    let names: Vec<String> = all.iter().map(|subject| subject.name().to_owned()).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let chosen = all.into_iter().filter(|subject| is_wanted(subject.name()));
    let chosen = chosen.map(|subject| Candidate::new(subject, None)).collect::<Result<Vec<_>, _>>()?;
    if chosen.is_empty() {
        let problem = format!("no store of this machine has a name with {:?}", wanted.join(" or "));
        return Err(Error::invalid("store", problem, format!("choose from: {}", names.join(", "))).into());
    }
    Ok(chosen)
}

impl Candidate {
    fn new(subject: Arc<dyn Subject>, user_store: Option<UserStore>) -> Result<Self, Error> {
        let report = StoreReport::named(subject.name());
        Ok(Self { subject, user_store, report, root: root()? })
    }

    /// Sees whether it is there, and what it declares. If not, the report says why, and nothing else is tried.
    pub(super) async fn meet(
        &mut self,
        interrupts: &mut Interrupts,
        console: Console,
    ) -> Result<(), EarlyEnd> {
        let first_lock = timeout(FIRST_ANSWER_TIMEOUT, self.first_lock());
        match interrupts.unless_ended(first_lock).await? {
            Ok(Ok((declared, findings))) => {
                self.report.declared = Some(declared);
                self.report.findings = findings;
            }
            Ok(Err(not_run)) => self.leave_out(not_run, console),
            Err(_) => {
                let why = format!("it did not answer within {FIRST_ANSWER_TIMEOUT:?}");
                // A server that this run starts is not wrong, but slow.
                self.leave_out(NotRun { why, is_late: self.user_store.is_none() }, console);
            }
        }
        Ok(())
    }

    /// Starts a store of its own, which ends when the value is dropped. On a thread where it may block.
    pub(super) async fn start(&self) -> Result<Box<dyn Store>, NotRun> {
        let (subject, runtime) = (Arc::clone(&self.subject), Handle::current());
        let started = tokio::task::spawn_blocking(move || runtime.block_on(subject.start())).await;
        let started = started.map_err(|error| NotRun { why: error.to_string(), is_late: false })?;
        started.map_err(|stop| NotRun { why: stop.to_string(), is_late: matches!(stop, Stop::NotJudged(_)) })
    }

    /// The way to it for the processes of the bench.
    pub(super) async fn target(
        &self,
        store: &dyn Store,
        invocation: &Invocation,
    ) -> Result<BenchStore, Failure> {
        match &self.user_store {
            Some(user_store) => BenchStore::configured(&user_store.invocation).await,
            None => BenchStore::private(&store.address(), invocation).await,
        }
    }

    /// Ends what the suite has left in a store of the user's, under these names and that of the first lock.
    pub(super) async fn clean_up(&self, names: &[LockName], interrupts: &mut Interrupts, console: Console) {
        let Some(user_store) = self.user_store.as_ref().filter(|_| self.is_there()) else { return };
        let names: Vec<LockName> = names.iter().cloned().chain(self.first_name()).collect();
        let cleaned = interrupts.unless_aborted(user_store.clean_up(&self.root, &names)).await;
        let why = cleaned.map(|cleaned| cleaned.err().map(|failure| failure.message()));
        if let Some(why) = why.unwrap_or_else(|| Some("interrupted".to_owned())) {
            console.warn(format_args!("not tidied up: {}: {why}", self.report.name), None);
        }
    }

    pub(super) fn is_there(&self) -> bool {
        self.report.not_run.is_none()
    }

    /// What it declares, and, of a store of the user's, what `config check` finds in it.
    async fn first_lock(&self) -> Result<(Declared, Vec<String>), NotRun> {
        let store = self.start().await?;
        let first = async {
            let locks = self.subject.connect(&store.address()).await?;
            let options = AcquireOptions::new().with_wait(Wait::No);
            locks.acquire_with(&self.first_name()?, &options).await?.release().await?;
            let declared = Declared::of(locks.semantics());
            let admin = locks.admin().filter(|_| self.user_store.is_some());
            let checked = async { Some(admin?.check().await.unwrap_or_default()) };
            let findings = checked.await.unwrap_or_default();
            let _ = locks.close().await;
            let line = |finding: &Finding| format!("{}: {}", finding.code, finding.message);
            Ok((declared, findings.iter().map(line).collect()))
        };
        let is_late = |error: &Error| self.user_store.is_none() && error.is_outage();
        let why = |error: &Error| format!("{}; {}", in_one_line(error), error.help().unwrap_or_default());
        first.await.map_err(|error: Error| NotRun { why: why(&error), is_late: is_late(&error) })
    }

    fn first_name(&self) -> Result<LockName, Error> {
        LockName::new(format!("{}first", self.root))
    }

    fn leave_out(&mut self, not_run: NotRun, console: Console) {
        let word = if not_run.is_late { "not judged" } else { "left out" };
        console.warn(format_args!("{} is {word}: {}", self.report.name, not_run.why), None);
        self.report.not_run = Some(not_run);
    }
}
