//! Grants that the store made by itself: their lease is counted from before the last answer that the claim waits.

use crate::scripted::{TTL, acquire, options};
use async_trait::async_trait;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, LockAdmin, LockBackend,
    LockClient, LockGuard, LossCause, OwnerId, Release, Renewal, Result, RuntimeClock, Semantics, WakeUp,
    renew_each,
};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;

/// The interval at which a waiter asks though it was not told anything: jittered down to a quarter of it, which no test here
/// waits for.
const FALLBACK: Duration = Duration::from_secs(120);
const SECOND: Duration = Duration::from_secs(1);

/// A store that says "wait" until the test hands the lock over.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    handed_over: bool,
    told: bool,
    /// The next answers are lost, so many.
    lost: u32,
    /// How long it keeps a lock, if not for the ttl.
    lease: Option<Duration>,
    asks: u32,
}

impl Queue {
    fn client(self: &Arc<Self>) -> LockClient {
        let backend = Arc::clone(self) as Arc<dyn LockBackend>;
        LockClient::builder(backend).with_clock(Arc::new(RuntimeClock::new())).build()
    }

    pub(crate) fn asks(&self) -> u32 {
        self.state.lock().unwrap().asks
    }

    pub(crate) fn hand_over(&self) {
        self.state.lock().unwrap().handed_over = true;
        self.news.notify_one();
    }
}

#[async_trait]
impl LockBackend for Queue {
    fn semantics(&self) -> Semantics {
        let mut semantics = MemoryBackend::new().semantics();
        semantics.wake_up = WakeUp::Push { fallback: FALLBACK };
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        assert!(claim.waits());
        let mut state = self.state.lock().unwrap();
        state.asks += 1;
        if state.lost > 0 {
            state.lost -= 1;
            return Err(Error::new(ErrorKind::Indeterminate, "no reply"));
        }
        let grant = Grant::new(FencingToken::new(7)).with_lease(state.lease.unwrap_or(claim.ttl()));
        let (handed_over, told) = (state.handed_over, state.told);
        state.told = handed_over;
        Ok(match (handed_over, told) {
            (false, _) => Attempt::Busy(Busy::new().with_place_in_queue()),
            (true, false) => Attempt::Granted(grant.from_hand_over()),
            (true, true) => Attempt::Granted(grant),
        })
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renew_each(claims, async |_| Ok(Renewal::Renewed)).await
    }

    async fn release(&self, _claim: &Claim, _linger: Duration) -> Result<Release> {
        Ok(Release::Released)
    }

    async fn changed(&self, _claim: &Claim) {
        self.news.notified().await;
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

/// What is left of a lease that is so old, as its holder believes.
fn left(age: Duration) -> Duration {
    TTL.mul_f64(0.99) - Duration::from_millis(2) - age
}

/// Acquires with these options from a store that hands over after so long.
async fn handed_over_after(age: Duration, options: AcquireOptions) -> (Arc<Queue>, LockGuard) {
    let store = Arc::<Queue>::default();
    let guard = handed_over_by(&store, age, options).await;
    (store, guard)
}

async fn handed_over_by(store: &Arc<Queue>, age: Duration, options: AcquireOptions) -> LockGuard {
    let client = store.client();
    let waiter = tokio::spawn(async move { acquire(&client, "job", options).await });
    tokio::time::sleep(age).await;
    store.hand_over();
    waiter.await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_as_old_as_the_last_answer_that_it_waits() {
    let (store, guard) = handed_over_after(2 * SECOND, options()).await;
    let remaining = guard.remaining();
    assert!(remaining <= left(2 * SECOND) && remaining > left(3 * SECOND), "{remaining:?}");
    assert_eq!(store.asks(), 2, "and no further question");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_makes_no_lease_younger() {
    let store = Arc::<Queue>::default();
    let client = store.client();
    let waiter = tokio::spawn(async move { acquire(&client, "job", options()).await });
    tokio::time::sleep(SECOND).await;
    store.state.lock().unwrap().lost = 1;
    store.news.notify_one();
    tokio::time::sleep(SECOND).await;
    assert_eq!(store.asks(), 2);
    store.hand_over();
    let guard = waiter.await.unwrap().unwrap();
    assert!(guard.remaining() <= left(2 * SECOND), "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn an_old_lease_is_asked_for_again_and_whole_then() {
    for options in [options(), options().with_fixed_lease()] {
        let (store, guard) = handed_over_after(TTL / 3 + SECOND, options).await;
        assert_eq!(store.asks(), 3);
        assert!(guard.remaining() > left(SECOND), "{:?}", guard.remaining());
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_over_when_it_is_heard_of_is_never_believed() {
    let (store, guard) = handed_over_after(TTL * 2, options()).await;
    assert_eq!(store.asks(), 3);
    assert!(guard.is_held() && guard.remaining() > left(SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_is_kept_up_ends_one_ttl_after_that_answer() {
    let store = Arc::<Queue>::default();
    store.state.lock().unwrap().lease = Some(TTL.mul_f64(0.8));
    let guard = handed_over_by(&store, 2 * SECOND, options().with_fixed_lease()).await;
    let start = tokio::time::Instant::now();

    assert_eq!(guard.lost().await.cause(), LossCause::Expired);

    let took = start.elapsed();
    assert!(took <= left(2 * SECOND) && took > left(3 * SECOND), "over after {took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_holders_own_limit_is_counted_from_when_it_holds() {
    let (_store, guard) = handed_over_after(2 * SECOND, options().with_max_hold(SECOND)).await;
    assert!(guard.remaining() > SECOND / 2, "{:?}", guard.remaining());
}
