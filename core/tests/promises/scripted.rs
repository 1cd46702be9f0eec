//! A store that does as it is told: the memory backend behind a network that loses and delays on command.

use async_trait::async_trait;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, Attempt, Claim, Clock, DistributedLockExt, Error, ErrorKind, Event, HoldKind, LockAdmin,
    LockBackend, LockClient, LockGuard, LockName, Observer, OwnerId, Release, Renewal, Result, RuntimeClock,
    Semantics, WakeUp,
};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

pub(crate) const TTL: Duration = Duration::from_secs(10);
/// How often a waiter asks that is not told.
pub(crate) const FALLBACK: Duration = Duration::from_millis(250);

/// What happens to one call on its way.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// Request lost: nothing is done, and the caller does not know.
    RequestLost,
    /// Applied, and the reply lost.
    ReplyLost,
    /// Applied at once, the reply so much later.
    ReplyLate(Duration),
    /// Applied so much later, and answered then.
    RequestLate(Duration),
    /// Certainly not done.
    Refused,
    /// Done, and never answered.
    Silent,
    /// Done, and then the backend panics.
    Panicked,
    /// Answered with an error of this kind that is no outage.
    Rejected(ErrorKind),
}

/// The store, what is to happen to the next calls, and what did happen.
#[derive(Debug)]
pub(crate) struct Scripted {
    store: MemoryBackend,
    pub(crate) acquires: Script,
    pub(crate) renewals: Script,
    pub(crate) releases: Script,
    /// Leaves a place in a queue with every busy answer, as a queueing store does.
    pub(crate) queues: bool,
    /// Hints all the time that asking again may help, as a store with many names on one channel does.
    pub(crate) chatters: bool,
    /// Wakes no waiter: they poll, at this interval at most.
    pub(crate) polled: Option<Duration>,
    /// True if it panics when it is asked for suspects.
    pub(crate) panics: bool,
    /// How long it takes to give its connections back.
    pub(crate) closes_in: Duration,
    queue: Mutex<HashSet<u128>>,
    freed: Notify,
    /// What a hold is here. A session ends no hold by itself.
    pub(crate) hold: HoldKind,
    /// How long the store keeps a grant, if it says so.
    pub(crate) lease: Option<Duration>,
    suspects: Mutex<Vec<OwnerId>>,
    suspected: Notify,
    pub(crate) closed: AtomicBool,
}

/// The fates of the calls to come; after the last, all goes well, or goes on as `ever_after` says.
#[derive(Debug, Default)]
pub(crate) struct Script {
    next: Mutex<VecDeque<Fate>>,
    ever_after: Mutex<Option<Fate>>,
    calls: Mutex<Vec<usize>>,
}

impl Script {
    pub(crate) fn then(&self, fate: Fate) {
        self.next.lock().unwrap().push_back(fate);
    }

    pub(crate) fn ever_after(&self, fate: Option<Fate>) {
        *self.ever_after.lock().unwrap() = fate;
    }

    /// How many calls there were.
    pub(crate) fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// How many claims each call had.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.calls.lock().unwrap().clone()
    }

    fn next(&self, size: usize) -> Option<Fate> {
        self.calls.lock().unwrap().push(size);
        self.next.lock().unwrap().pop_front().or_else(|| self.ever_after.lock().unwrap().clone())
    }

    async fn run<T>(&self, size: usize, apply: impl AsyncFnOnce() -> Result<T>) -> Result<T> {
        // Two await points of its own, before and after, so that a drop can fall on either side of the effect.
        tokio::task::yield_now().await;
        let answer = match self.next(size) {
            None => apply().await,
            Some(Fate::RequestLost) => Err(lost()),
            Some(Fate::ReplyLost) => apply().await.and(Err(lost())),
            Some(Fate::ReplyLate(late)) => {
                let answer = apply().await;
                tokio::time::sleep(late).await;
                answer
            }
            Some(Fate::RequestLate(late)) => {
                tokio::time::sleep(late).await;
                apply().await
            }
            Some(Fate::Refused) => Err(Error::new(ErrorKind::Unavailable, "scripted: refused")),
            Some(Fate::Rejected(kind)) => Err(Error::new(kind, "scripted: rejected")),
            Some(Fate::Panicked) => {
                drop(apply().await);
                panic!("as this test wants it")
            }
            Some(Fate::Silent) => {
                drop(apply().await);
                std::future::pending().await
            }
        };
        tokio::task::yield_now().await;
        answer
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Indeterminate, "scripted: no reply")
}

impl Scripted {
    pub(crate) fn on(clock: Arc<dyn Clock>) -> Self {
        Self {
            store: MemoryBackend::with_clock(clock),
            acquires: Script::default(),
            renewals: Script::default(),
            releases: Script::default(),
            queues: false,
            chatters: false,
            polled: None,
            panics: false,
            closes_in: Duration::ZERO,
            queue: Mutex::default(),
            freed: Notify::new(),
            hold: HoldKind::Lease,
            lease: None,
            suspects: Mutex::default(),
            suspected: Notify::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::on(Arc::new(RuntimeClock::new())))
    }

    /// A client of its own on this store.
    pub(crate) fn client(self: &Arc<Self>) -> LockClient {
        self.client_with(Arc::new(Events::default()))
    }

    pub(crate) fn client_with(self: &Arc<Self>, events: Arc<Events>) -> LockClient {
        self.client_on(Arc::new(RuntimeClock::new()), events)
    }

    pub(crate) fn client_on(self: &Arc<Self>, clock: Arc<dyn Clock>, events: Arc<Events>) -> LockClient {
        let backend = Arc::clone(self) as Arc<dyn LockBackend>;
        LockClient::builder(backend)
            .with_clock(clock)
            .with_observer(events)
            .with_defaults(AcquireOptions::new().with_ttl(TTL))
            .build()
    }

    /// True if nobody holds the name and nobody stands in its queue.
    pub(crate) async fn is_clean(&self, name: &str) -> bool {
        self.holder(name).await.is_none() && self.queue.lock().unwrap().is_empty()
    }

    pub(crate) async fn holder(&self, name: &str) -> Option<String> {
        let status = self.store.inspect(&lock_name(name)).await.unwrap();
        status.and_then(|status| status.owner).map(|owner| owner.to_hex())
    }

    /// Deletes the lock behind its holder's back.
    pub(crate) async fn delete(&self, name: &str) {
        self.store.force_release(&lock_name(name), None).await.unwrap();
        self.freed.notify_waiters();
    }

    /// Tells the client that the hold of this owner may be over.
    pub(crate) fn suspect(&self, owner: OwnerId) {
        self.suspects.lock().unwrap().push(owner);
        self.suspected.notify_one();
    }

    pub(crate) async fn owner(&self, name: &str) -> OwnerId {
        self.store.inspect(&lock_name(name)).await.unwrap().and_then(|status| status.owner).unwrap()
    }
}

#[async_trait]
impl LockBackend for Scripted {
    fn semantics(&self) -> Semantics {
        let mut semantics = self.store.semantics();
        semantics.hold = self.hold;
        semantics.wake_up = match self.polled {
            Some(at_most) => WakeUp::Poll { at_most },
            None => WakeUp::Push { fallback: FALLBACK },
        };
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let apply = async || {
            let mut attempt = self.store.try_acquire(claim).await?;
            if let (Attempt::Granted(grant), Some(lease)) = (&mut attempt, self.lease) {
                *grant = grant.clone().with_lease(lease);
            }
            if let Attempt::Busy(busy) = &mut attempt
                && self.queues
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
        if self.polled.is_some() {
            std::future::pending::<()>().await;
        }
        // Made before the look: it is told of every release from here on.
        let freed = self.freed.notified();
        if !self.chatters && self.holder(claim.name().as_str()).await.is_some() {
            freed.await;
        }
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        assert!(!self.panics, "as this test wants it");
        loop {
            let suspects = std::mem::take(&mut *self.suspects.lock().unwrap());
            if !suspects.is_empty() {
                return suspects;
            }
            self.suspected.notified().await;
        }
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.store.admin()
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        tokio::time::sleep(self.closes_in).await;
        Ok(())
    }
}

/// Remembers what happened in the background, a word an event.
#[derive(Debug, Default)]
pub(crate) struct Events(Mutex<Vec<String>>);

impl Events {
    pub(crate) fn seen(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, word: &str) -> usize {
        self.seen().iter().filter(|seen| *seen == word).count()
    }
}

impl Observer for Events {
    fn event(&self, event: &Event<'_>) {
        let word = match event {
            Event::Lost { loss, .. } => format!("lost {:?}", loss.cause()),
            Event::RenewalFailed { .. } => "renewal failed".to_owned(),
            Event::LateGrant { .. } => "late grant".to_owned(),
            Event::ReleaseUnconfirmed { .. } => "release unconfirmed".to_owned(),
            Event::WaitFailed { .. } => "wait failed".to_owned(),
            // Events of calls that have a caller: see `observer.rs`.
            _ => return,
        };
        self.0.lock().unwrap().push(word);
    }
}

pub(crate) fn lock_name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// Acquires with these options, by the long form.
pub(crate) async fn acquire(client: &LockClient, name: &str, options: AcquireOptions) -> Result<LockGuard> {
    client.acquire_with(name, &options).await
}

/// The options of most cases: the scripted ttl.
pub(crate) fn options() -> AcquireOptions {
    AcquireOptions::new().with_ttl(TTL)
}

/// Lets everything run that can run without time passing.
pub(crate) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
