//! The memory backend behind a network whose faults the test chooses.

use async_trait::async_trait;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, Attempt, Claim, Clock, DistributedLockExt, Error, ErrorKind, Event, Fairness, HoldKind,
    KnownServers, LockAdmin, LockBackend, LockClient, LockGuard, LockName, LockStatus, Observer, OwnerId,
    Release, Renewal, Result, RuntimeClock, Semantics, WakeUp,
};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

pub(crate) const TTL: Duration = Duration::from_secs(10);
/// The fallback interval of a waiter.
pub(crate) const FALLBACK: Duration = Duration::from_millis(250);

/// The fault of one call.
#[derive(Clone, Debug)]
pub(crate) enum CallFault {
    /// The request is lost and not applied. The caller gets `Indeterminate`.
    RequestLost,
    /// The request is applied and the reply is lost. The caller gets `Indeterminate`.
    ReplyLost,
    /// The request is applied at once, and the reply comes after this time.
    ReplyDelayed(Duration),
    /// The request is applied after this time, and answered then.
    RequestDelayed(Duration),
    /// The request is not applied. The caller gets `Unavailable`.
    Unavailable,
    /// The request is applied, and no reply ever comes.
    NoReply,
    /// The request is applied, and then the backend panics.
    Panic,
    /// The request is not applied. The caller gets an error of this kind, which is no outage.
    Error(ErrorKind),
}

/// The store, the faults of its next calls, and a count of the calls.
#[derive(Debug)]
pub(crate) struct FaultyStore {
    store: MemoryBackend,
    pub(crate) acquires: FaultScript,
    pub(crate) renewals: FaultScript,
    pub(crate) releases: FaultScript,
    /// Every busy answer leaves an entry in a queue, as on a store with a queue of waiters.
    pub(crate) has_queue: bool,
    /// `changed` is ready all the time, as on a store with many names on one channel.
    pub(crate) hints_always: bool,
    /// The store wakes no waiter. Waiters poll, at this interval at most.
    pub(crate) polling_interval: Option<Duration>,
    /// `suspects` panics.
    pub(crate) suspects_panics: bool,
    /// The time that `close` takes.
    pub(crate) close_delay: Duration,
    queue: Mutex<HashSet<u128>>,
    freed: Notify,
    /// The kind of hold. A hold of a session does not end with a time.
    pub(crate) hold: HoldKind,
    /// The lease of each grant, if it is not the ttl of the claim.
    pub(crate) lease: Option<Duration>,
    /// True if each grant wants to be renewed soon.
    pub(crate) renewed_soon: bool,
    suspects: Mutex<Vec<OwnerId>>,
    suspected: Notify,
    pub(crate) servers: KnownServers,
    pub(crate) closed: AtomicBool,
}

/// The faults of the next calls, one after the other. Later calls have the default fault, or none.
#[derive(Debug, Default)]
pub(crate) struct FaultScript {
    next: Mutex<VecDeque<CallFault>>,
    default: Mutex<Option<CallFault>>,
    calls: Mutex<Vec<usize>>,
}

impl FaultScript {
    pub(crate) fn push(&self, fault: CallFault) {
        self.next.lock().unwrap().push_back(fault);
    }

    pub(crate) fn set_default(&self, fault: Option<CallFault>) {
        *self.default.lock().unwrap() = fault;
    }

    /// The number of calls.
    pub(crate) fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// The number of claims in each call.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.calls.lock().unwrap().clone()
    }

    fn next(&self, size: usize) -> Option<CallFault> {
        self.calls.lock().unwrap().push(size);
        self.next.lock().unwrap().pop_front().or_else(|| self.default.lock().unwrap().clone())
    }

    async fn run<T>(&self, size: usize, apply: impl AsyncFnOnce() -> Result<T>) -> Result<T> {
        // An await point before the effect and one after it, so that a drop can fall on either side.
        tokio::task::yield_now().await;
        let answer = match self.next(size) {
            None => apply().await,
            Some(CallFault::RequestLost) => Err(no_reply()),
            Some(CallFault::ReplyLost) => apply().await.and(Err(no_reply())),
            Some(CallFault::ReplyDelayed(delay)) => {
                let answer = apply().await;
                tokio::time::sleep(delay).await;
                answer
            }
            Some(CallFault::RequestDelayed(delay)) => {
                tokio::time::sleep(delay).await;
                apply().await
            }
            Some(CallFault::Unavailable) => {
                Err(Error::new(ErrorKind::Unavailable, "injected fault: unavailable"))
            }
            Some(CallFault::Error(kind)) => Err(Error::new(kind, "injected fault")),
            Some(CallFault::Panic) => {
                drop(apply().await);
                panic!("injected panic")
            }
            Some(CallFault::NoReply) => {
                drop(apply().await);
                std::future::pending().await
            }
        };
        tokio::task::yield_now().await;
        answer
    }
}

fn no_reply() -> Error {
    Error::new(ErrorKind::Indeterminate, "injected fault: no reply")
}

impl FaultyStore {
    pub(crate) fn on(clock: Arc<dyn Clock>) -> Self {
        Self {
            store: MemoryBackend::with_clock(clock),
            acquires: FaultScript::default(),
            renewals: FaultScript::default(),
            releases: FaultScript::default(),
            has_queue: false,
            hints_always: false,
            polling_interval: None,
            suspects_panics: false,
            close_delay: Duration::ZERO,
            queue: Mutex::default(),
            freed: Notify::new(),
            hold: HoldKind::Lease,
            lease: None,
            renewed_soon: false,
            suspects: Mutex::default(),
            suspected: Notify::new(),
            servers: KnownServers::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::on(Arc::new(RuntimeClock::new())))
    }

    /// A new client on this store.
    pub(crate) fn client(self: &Arc<Self>) -> LockClient {
        self.client_with(Arc::new(EventLog::default()))
    }

    pub(crate) fn client_with(self: &Arc<Self>, events: Arc<EventLog>) -> LockClient {
        self.client_on(Arc::new(RuntimeClock::new()), events)
    }

    pub(crate) fn client_on(self: &Arc<Self>, clock: Arc<dyn Clock>, events: Arc<EventLog>) -> LockClient {
        let backend = Arc::clone(self) as Arc<dyn LockBackend>;
        LockClient::builder(backend)
            .with_clock(clock)
            .with_observer(events)
            .with_defaults(AcquireOptions::new().with_ttl(TTL))
            .build()
    }

    /// True if the name has no holder and the queue has no entry.
    pub(crate) async fn is_clean(&self, name: &str) -> bool {
        self.holder(name).await.is_none() && self.queue.lock().unwrap().is_empty()
    }

    /// The only hold of a name.
    pub(crate) async fn status(&self, name: &str) -> LockStatus {
        self.store.inspect(&lock_name(name)).await.unwrap().pop().unwrap()
    }

    pub(crate) async fn holder(&self, name: &str) -> Option<String> {
        let status = self.store.inspect(&lock_name(name)).await.unwrap();
        status.first().and_then(|status| status.owner).map(|owner| owner.to_hex())
    }

    /// Deletes the lock of the holder in the store.
    pub(crate) async fn delete(&self, name: &str) {
        self.store.force_release(&lock_name(name), None).await.unwrap();
        self.freed.notify_waiters();
    }

    /// Reports to the client that the hold of this owner may be over.
    pub(crate) fn suspect(&self, owner: OwnerId) {
        self.suspects.lock().unwrap().push(owner);
        self.suspected.notify_one();
    }

    pub(crate) async fn owner(&self, name: &str) -> OwnerId {
        self.status(name).await.owner.unwrap()
    }
}

#[async_trait]
impl LockBackend for FaultyStore {
    fn semantics(&self) -> Semantics {
        let mut semantics = self.store.semantics();
        semantics.hold = self.hold;
        if self.has_queue {
            semantics.fairness = Fairness::Fifo;
        }
        semantics.wake_up = match self.polling_interval {
            Some(at_most) => WakeUp::Poll { at_most },
            None => WakeUp::Push { fallback: FALLBACK },
        };
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let apply = async || {
            let mut attempt = self.store.try_acquire(claim).await?;
            if let Attempt::Granted(grant) = &mut attempt {
                (grant.lease, grant.renewed_soon) = (self.lease, self.renewed_soon);
            }
            if let Attempt::Busy(busy) = &mut attempt
                && self.has_queue
            {
                busy.queued = true;
                self.queue.lock().unwrap().insert(claim.owner().as_u128());
            } else {
                self.queue.lock().unwrap().remove(&claim.owner().as_u128());
            }
            Ok(attempt)
        };
        self.acquires.run(1, apply).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let answer = self.renewals.run(claims.len(), async || Ok(self.store.renew(claims).await)).await;
        answer.unwrap_or_else(|error| vec![Err(error); claims.len()])
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        let apply = async || {
            self.queue.lock().unwrap().remove(&claim.owner().as_u128());
            let answer = self.store.release(claim, linger).await;
            self.freed.notify_waiters();
            answer
        };
        self.releases.run(1, apply).await
    }

    async fn changed(&self, claim: &Claim) {
        if self.polling_interval.is_some() {
            std::future::pending::<()>().await;
        }
        // Made before the check: a release between the two notifies it.
        let freed = self.freed.notified();
        if !self.hints_always && self.holder(claim.name().as_str()).await.is_some() {
            freed.await;
        }
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        assert!(!self.suspects_panics, "injected panic");
        loop {
            let suspects = std::mem::take(&mut *self.suspects.lock().unwrap());
            if !suspects.is_empty() {
                return suspects;
            }
            self.suspected.notified().await;
        }
    }

    fn servers(&self) -> Option<&KnownServers> {
        Some(&self.servers)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.store.admin()
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        tokio::time::sleep(self.close_delay).await;
        Ok(())
    }
}

/// Records the events that have no caller, each as a short text.
#[derive(Debug, Default)]
pub(crate) struct EventLog(Mutex<Vec<String>>);

impl EventLog {
    pub(crate) fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        self.entries().iter().filter(|entry| *entry == text).count()
    }
}

impl Observer for EventLog {
    fn event(&self, event: &Event<'_>) {
        let text = match event {
            Event::Lost { loss, .. } => format!("lost {:?}", loss.cause()),
            Event::RenewalFailed { .. } => "renewal failed".to_owned(),
            Event::LateGrant { .. } => "late grant".to_owned(),
            Event::ReleaseUnconfirmed { .. } => "release unconfirmed".to_owned(),
            Event::WaitFailed { .. } => "wait failed".to_owned(),
            // `observer.rs` tests the events of calls that have a caller.
            _ => return,
        };
        self.0.lock().unwrap().push(text);
    }
}

pub(crate) fn lock_name(name: &str) -> LockName {
    LockName::from_store(name).unwrap()
}

/// Acquires with these options.
pub(crate) async fn acquire(client: &LockClient, name: &str, options: AcquireOptions) -> Result<LockGuard> {
    client.acquire_with(name, &options).await
}

/// The options of most tests, with [`TTL`].
pub(crate) fn options() -> AcquireOptions {
    AcquireOptions::new().with_ttl(TTL)
}

/// Runs all tasks that can run while time stands still.
pub(crate) async fn run_ready_tasks() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
