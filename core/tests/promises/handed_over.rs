//! Hand-overs by the store: the lease is counted from before the last attempt that was answered `Busy`.

use crate::faulty_store::{TTL, acquire, options};
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

/// The fallback interval of waiters. Even jittered down to a quarter, it is longer than every test.
const FALLBACK: Duration = Duration::from_secs(120);
const SECOND: Duration = Duration::from_secs(1);

/// A store that answers `Busy` until the test hands the lock over.
#[derive(Debug, Default)]
struct HandOverStore {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    is_handed_over: bool,
    is_grant_reported: bool,
    /// The number of next answers that are lost.
    lost_answers: u32,
    /// The lease of a grant, if it is not the ttl.
    lease: Option<Duration>,
    attempts: u32,
}

impl HandOverStore {
    fn client(self: &Arc<Self>) -> LockClient {
        let backend = Arc::clone(self) as Arc<dyn LockBackend>;
        LockClient::builder(backend).with_clock(Arc::new(RuntimeClock::new())).build()
    }

    fn attempts(&self) -> u32 {
        self.state.lock().unwrap().attempts
    }

    fn hand_over(&self) {
        self.state.lock().unwrap().is_handed_over = true;
        self.changed.notify_one();
    }
}

#[async_trait]
impl LockBackend for HandOverStore {
    fn semantics(&self) -> Semantics {
        let mut semantics = MemoryBackend::new().semantics();
        semantics.wake_up = WakeUp::Push { fallback: FALLBACK };
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        assert!(claim.waits());
        let mut state = self.state.lock().unwrap();
        state.attempts += 1;
        if state.lost_answers > 0 {
            state.lost_answers -= 1;
            return Err(Error::new(ErrorKind::Indeterminate, "no reply"));
        }
        let grant = Grant::new(FencingToken::new(7)).with_lease(state.lease.unwrap_or(claim.ttl()));
        let was_reported = state.is_grant_reported;
        state.is_grant_reported = state.is_handed_over;
        Ok(match (state.is_handed_over, was_reported) {
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
        self.changed.notified().await;
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

/// The rest of a lease of this age, by the holder's clock.
fn remaining_at(age: Duration) -> Duration {
    TTL.mul_f64(0.99) - Duration::from_millis(2) - age
}

/// Acquires from a store that hands over after this time.
async fn acquire_handed_over(age: Duration, options: AcquireOptions) -> (Arc<HandOverStore>, LockGuard) {
    let store = Arc::<HandOverStore>::default();
    let guard = acquire_handed_over_by(&store, age, options).await;
    (store, guard)
}

async fn acquire_handed_over_by(
    store: &Arc<HandOverStore>,
    age: Duration,
    options: AcquireOptions,
) -> LockGuard {
    let client = store.client();
    let waiter = tokio::spawn(async move { acquire(&client, "job", options).await });
    tokio::time::sleep(age).await;
    store.hand_over();
    waiter.await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_hand_over_counts_from_the_last_busy_attempt() {
    let (store, guard) = acquire_handed_over(2 * SECOND, options()).await;
    let remaining = guard.remaining();
    assert!(remaining <= remaining_at(2 * SECOND) && remaining > remaining_at(3 * SECOND), "{remaining:?}");
    assert_eq!(store.attempts(), 2, "a young lease was asked for again");
}

#[tokio::test(start_paused = true)]
async fn attempt_without_answer_does_not_move_the_start_of_the_lease() {
    let store = Arc::<HandOverStore>::default();
    let client = store.client();
    let waiter = tokio::spawn(async move { acquire(&client, "job", options()).await });
    tokio::time::sleep(SECOND).await;
    store.state.lock().unwrap().lost_answers = 1;
    store.changed.notify_one();
    tokio::time::sleep(SECOND).await;
    assert_eq!(store.attempts(), 2);
    store.hand_over();
    let guard = waiter.await.unwrap().unwrap();
    assert!(guard.remaining() <= remaining_at(2 * SECOND), "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn old_lease_of_a_hand_over_is_asked_for_again_and_made_whole() {
    for options in [options(), options().with_fixed_lease()] {
        let (store, guard) = acquire_handed_over(TTL / 3 + SECOND, options).await;
        assert_eq!(store.attempts(), 3);
        assert!(guard.remaining() > remaining_at(SECOND), "{:?}", guard.remaining());
    }
}

#[tokio::test(start_paused = true)]
async fn ended_lease_of_a_hand_over_is_asked_for_again() {
    let (store, guard) = acquire_handed_over(TTL * 2, options()).await;
    assert_eq!(store.attempts(), 3);
    assert!(guard.is_held() && guard.remaining() > remaining_at(SECOND));
}

#[tokio::test(start_paused = true)]
async fn fixed_lease_of_a_hand_over_ends_one_ttl_after_the_last_busy_attempt() {
    let store = Arc::<HandOverStore>::default();
    store.state.lock().unwrap().lease = Some(TTL.mul_f64(0.8));
    let guard = acquire_handed_over_by(&store, 2 * SECOND, options().with_fixed_lease()).await;
    let start = tokio::time::Instant::now();

    assert_eq!(guard.lost().await.cause(), LossCause::Expired);

    let took = start.elapsed();
    assert!(took <= remaining_at(2 * SECOND) && took > remaining_at(3 * SECOND), "ended after {took:?}");
}

#[tokio::test(start_paused = true)]
async fn max_hold_counts_from_the_answer_that_reports_the_hand_over() {
    let (_store, guard) = acquire_handed_over(2 * SECOND, options().with_max_hold(SECOND)).await;
    assert!(guard.remaining() > SECOND / 2, "{:?}", guard.remaining());
}
