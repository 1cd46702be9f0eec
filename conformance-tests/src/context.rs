//! What a case has at hand: a store of its own, clients, unique names, and worker processes.

use crate::expect::{Client, ClientExt, eventually, first_use, last_answer_within};
use crate::kinds::Kinds;
use crate::proxy::{Proxy, Traffic};
use crate::run_config::RunConfig;
use crate::stop::{Stop, Verdict, ensure, ensure_came, ensure_met, require};
use crate::subject::{Store, Subject};
use crate::time_scale::{SLACK, time_scale};
use crate::worker::{Environment, Worker};
use leasehold_core::{
    AcquireOptions, Event, HoldKind, LockGuard, LockMode, LockName, Observer, Reach, Semantics, Wait,
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A running store and its subject, for one case.
#[derive(Debug)]
pub(crate) struct Context {
    subject: Arc<dyn Subject>,
    store: Box<dyn Store>,
    /// Makes the names of this case and run its own.
    mark: String,
    config: RunConfig,
    /// By how much everything takes longer: the same for the whole case, also while another one is run again on a late machine.
    time_scale: f64,
    /// The declared end of sessions that are silent, once a client was made; zero for any other hold.
    session_timeout: OnceLock<Duration>,
    /// Empty: exclusive.
    mode: OnceLock<LockMode>,
}

/// The lease of cases that wait for one to end.
const TTL: Duration = Duration::from_millis(900);
/// How long anything may take that must happen at all. Far beyond every bound that is asserted.
const PATIENCE: Duration = Duration::from_secs(20);

impl Context {
    /// Starts a store of the subject for one case, as one of many in a run.
    pub(crate) async fn start(
        subject: Arc<dyn Subject>,
        case: &str,
        config: RunConfig,
    ) -> Result<Self, Stop> {
        let store = subject.start().await?;
        // The seed is no part of it: a second run with one seed meets none of the names that the first has left in a store.
        let mark = format!("{}{case}-{:08x}", config.root, fastrand::u32(..));
        let (time_scale, session_timeout, mode) = (time_scale(), OnceLock::new(), OnceLock::new());
        Ok(Self { subject, store, mark, config, time_scale, session_timeout, mode })
    }

    /// What the random choices of a case are made from.
    pub(crate) fn seed(&self) -> u64 {
        self.config.seed
    }

    pub(crate) fn subject(&self) -> &Arc<dyn Subject> {
        &self.subject
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The kinds of lock of the subject.
    pub(crate) fn kinds(&self) -> &dyn Kinds {
        self.subject.kinds()
    }

    /// A client with connections of its own.
    pub(crate) async fn client(&self) -> Result<Client, Stop> {
        self.client_at(&self.store.address()).await
    }

    pub(crate) async fn client_at(&self, address: &str) -> Result<Client, Stop> {
        let client = self.subject.connect(address).await?;
        self.session_timeout.get_or_init(|| client.semantics().session_timeout.unwrap_or_default());
        let (bound, limit) = (client.semantics().wake_up.bound(), self.patience() / 2);
        ensure!(
            bound <= limit,
            "by its `wake_up`, a waiter may ask again only after {bound:?}; the suite waits that long in many cases, and \
             for {limit:?} at most. Declare a shorter interval"
        );
        Ok(client)
    }

    pub(crate) async fn observed_client(&self) -> Result<(Client, Waits), Stop> {
        let observer = WaitObserver::default();
        let waits = Waits(observer.0.subscribe());
        let client = self.subject.connect_observed(&self.store.address(), Arc::new(observer)).await?;
        Ok((client, waits))
    }

    /// A client behind a proxy, with its connections. It takes a request for lost after `patience`, and after a minute at the latest:
    /// clients limit what can be asked for.
    pub(crate) async fn client_behind_proxy(&self, patience: Duration) -> Result<(Proxy, Client), Stop> {
        let (proxy, client) = self.new_client_behind_proxy(patience).await?;
        self.warm_up(&client).await?;
        Ok((proxy, client))
    }

    /// The same, without a connection yet.
    pub(crate) async fn new_client_behind_proxy(&self, patience: Duration) -> Result<(Proxy, Client), Stop> {
        let (proxy, address) = self.store.proxied(patience.min(Duration::from_secs(60))).await?;
        let client = self.client_at(&address).await?;
        Ok((proxy, client))
    }

    /// Another process of this program, with a client of its own.
    pub(crate) async fn worker(&self) -> Result<Worker, Stop> {
        self.worker_at(&self.store.address(), &Vec::new()).await
    }

    pub(crate) async fn worker_at(&self, address: &str, environment: &Environment) -> Result<Worker, Stop> {
        self.reaches_other_processes().await?;
        let mut worker = Worker::start(self.subject.name(), address, environment).await?;
        worker.patience = worker.patience.max(self.patience() * 2);
        worker.mode = self.mode();
        Ok(worker)
    }

    pub(crate) async fn semantics(&self) -> Result<Semantics, Stop> {
        Ok(self.client().await?.semantics().clone())
    }

    /// Skips a case of several processes, where the lock excludes within one only.
    pub(crate) async fn reaches_other_processes(&self) -> Verdict {
        let is_inside = self.semantics().await?.reach == Reach::Process;
        require!(!is_inside, "the lock excludes within one process only");
        Ok(())
    }

    /// A lock name that nobody else uses.
    pub(crate) fn name(&self) -> LockName {
        self.named("lock")
    }

    pub(crate) fn named(&self, name: &str) -> LockName {
        self.noted(format!("{}/{name}", self.mark))
    }

    /// The name as it is, for a case that makes it unique by itself; only a [root](crate::Run::harmless_below) stands before it.
    pub(crate) fn bare(&self, name: &str) -> LockName {
        self.noted(format!("{}{name}", self.config.root))
    }

    pub(crate) fn config(&self) -> &RunConfig {
        &self.config
    }

    fn noted(&self, name: String) -> LockName {
        // The mark is short and plain, and the cases' own names fit beside it; a name that does not is the case's bug.
        let name = LockName::new(name).unwrap_or_else(|error| unreachable!("{error}"));
        self.config.note(&name);
        name
    }

    /// The names of the locks that a semaphore is made of, for the look at what is left in a store.
    pub(crate) fn note_semaphore(&self, name: &LockName, permits: u32) {
        let slots = (0..permits).map(|slot| format!("{name}::slot:{slot}"));
        let parts = slots.chain([format!("{name}::gate")]);
        parts.filter_map(|part| LockName::from_store(part).ok()).for_each(|part| self.config.note(&part));
    }

    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Makes the client's connections and whatever else comes with a first use, so that what follows is one request. A
    /// client of little patience may need several attempts for that, on a busy machine.
    pub(crate) async fn warm_up(&self, client: &Client) -> Verdict {
        let options = AcquireOptions::new().with_wait(Wait::No);
        first_use(client, &self.named("warm-up"), &options, self.patience()).await
    }

    /// Lets go of a guard that is lost by its own limit. A lease ends by itself, and the guard goes on to be looked at;
    /// any other hold is the store's business for as long as the session or connection lives, until it is given back.
    pub(crate) fn let_go_unless_lease(client: &Client, guard: LockGuard) -> Option<LockGuard> {
        (client.semantics().hold == HoldKind::Lease).then_some(guard)
    }

    /// The lease of cases that wait for one to end: one that the store keeps exactly, if it keeps so short a one.
    pub(crate) fn ttl(&self) -> Duration {
        let ttl = TTL.mul_f64(self.time_scale);
        let kept = self.subject.lease(ttl);
        let is_exact = self.subject.lease(kept) == kept && kept <= ttl * 3;
        if is_exact { kept } else { ttl }
    }

    /// The longest for which the store may keep a lease of this ttl: as its subject says, and in whole seconds, which it need not say.
    pub(crate) fn lease(&self, ttl: Duration) -> Duration {
        self.subject.lease(ttl).max(Duration::from_secs(ttl.as_secs_f64().ceil() as u64))
    }

    /// What a busy machine may add to a bound.
    pub(crate) fn slack(&self) -> Duration {
        SLACK.mul_f64(self.time_scale)
    }

    /// A renewed lease, and a wait that ends long after anything should have happened.
    pub(crate) fn options(&self) -> AcquireOptions {
        self.long_lease().with_ttl(self.ttl()).with_wait(self.patience())
    }

    /// A lease that is much longer than a case.
    pub(crate) fn long_lease(&self) -> AcquireOptions {
        AcquireOptions::new().with_mode(self.mode())
    }

    /// The modes of holders that keep a waiter of this case out: a writer waits for readers too.
    pub(crate) fn modes_in_front(&self) -> &'static [LockMode] {
        let is_writer = self.mode() == LockMode::Write;
        if is_writer { &[LockMode::Exclusive, LockMode::Shared] } else { &[LockMode::Exclusive] }
    }

    fn mode(&self) -> LockMode {
        self.mode.get().copied().unwrap_or_default()
    }

    /// From now on, those who hold do so in this mode, and not exclusively. Attempts that find out whether a lock is held stay exclusive.
    pub(crate) fn hold_in(&self, mode: LockMode) {
        let _ = self.mode.set(mode);
    }

    /// The same, but nobody renews it.
    pub(crate) fn fixed(&self) -> AcquireOptions {
        self.options().with_fixed_lease()
    }

    /// How long anything may take that must happen at all.
    pub(crate) fn patience(&self) -> Duration {
        PATIENCE.mul_f64(self.time_scale).max(self.session_timeout() * 2)
    }

    /// Void if a client that is silent since then may have lost its session. Its last ping is up to a third of a session older.
    pub(crate) fn ensure_session(&self, silent_since: Instant) -> Verdict {
        let (silent, session) = (silent_since.elapsed(), self.session_timeout());
        let is_alive = session.is_zero() || silent <= session * 2 / 3;
        ensure_met!(is_alive, "it was silent for {silent:?} of its session of {session:?}");
        Ok(())
    }

    /// The declared end of sessions that are silent; zero for any other hold.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.session_timeout.get().copied().unwrap_or_default()
    }
}

/// Counts for [`Waits`].
#[derive(Debug, Default)]
struct WaitObserver(watch::Sender<usize>);

impl Observer for WaitObserver {
    fn event(&self, event: &Event<'_>) {
        if matches!(event, Event::Waiting { .. }) {
            self.0.send_modify(|waits| *waits += 1);
        }
    }
}

/// The number of acquisitions of a client that the store has refused, or that stand behind others of the client.
pub(crate) struct Waits(pub(crate) watch::Receiver<usize>);

impl Waits {
    pub(crate) async fn reach(&mut self, cx: &Context, count: usize) -> Verdict {
        let reached = self.0.wait_for(|waits| *waits >= count);
        let is_reached = matches!(tokio::time::timeout(cx.patience(), reached).await, Ok(Ok(_)));
        ensure_came!(is_reached, "{} of {count} acquisitions of a held lock wait", *self.0.borrow());
        Ok(())
    }
}

/// Starts a request through a proxy, and returns when the store has answered its first part. The proxy holds the answer.
pub(crate) async fn until_answer_is_held<T: Send + 'static>(
    cx: &Context,
    proxy: &Proxy,
    request: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, Stop> {
    let before = proxy.reply_bytes();
    proxy.set(Traffic::HoldReplies);
    let request = tokio::spawn(request);
    let is_answered = eventually(cx.patience(), || proxy.reply_bytes() > before).await;
    ensure_came!(is_answered, "the store did not answer the request whose reply is held");
    Ok(request)
}

/// Waits until so many stand in the queue of a lock. For a store that knows who waits.
pub(crate) async fn until_queued(cx: &Context, client: &Client, name: &LockName, waiters: usize) -> Verdict {
    // A long queue is a long answer.
    let pause = Duration::from_millis(2) + Duration::from_micros(20) * waiters as u32;
    let ask = || async { Ok(client.looking()?.waiters(name).await?.len()) };
    let queued = last_answer_within(cx.patience(), pause, ask, |queued| *queued >= waiters).await?;
    ensure_came!(queued >= waiters, "of {waiters} waiters, `LockAdmin::waiters` shows {queued}");
    Ok(())
}

/// Waits until the store has no more records than before.
pub(crate) async fn until_records_gone(cx: &Context, before: usize, bound: Duration, when: &str) -> Verdict {
    let (pause, ask) = (Duration::from_millis(20), || async { cx.store().records().await });
    let after = last_answer_within(bound, pause, ask, |after| *after <= before).await?;
    ensure_came!(after <= before, "{before} records before, {after} after {when}");
    Ok(())
}
