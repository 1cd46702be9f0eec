//! N1: `lost()` fires and `is_held()` turns false no later than the local deadline, whether or not any task runs.

use crate::scripted::{Events, Fate, Scripted, TTL, acquire, options, settle};
use leasehold_core::{
    Clock, DistributedLockExt, ErrorKind, Health, LossCause, Moment, RuntimeClock, Sleep, SystemClock,
};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The deadline of a lease that was granted at once: the ttl less 1 % and 2 ms.
const VALID: Duration = Duration::from_millis(9_898);

#[tokio::test(start_paused = true)]
async fn silence_from_the_store_is_a_loss_at_the_deadline() {
    let store = Scripted::new();
    store.renewals.ever_after(Some(Fate::Silent));
    let guard = store.client().acquire("job").await.unwrap();
    let start = Instant::now();

    let loss = guard.lost().await;

    assert!(start.elapsed() <= VALID, "announced after {:?}", start.elapsed());
    assert_eq!(loss.cause(), LossCause::Unreachable);
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_applied_but_answered_too_late_revives_nothing() {
    let store = Scripted::new();
    store.renewals.ever_after(Some(Fate::ReplyLate(TTL)));
    let guard = store.client().acquire("job").await.unwrap();

    guard.lost().await;
    sleep(TTL * 3).await;

    assert!(!guard.is_held());
    assert_eq!(guard.token().unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn errors_until_the_deadline_are_a_loss_with_the_error_as_cause() {
    let store = Scripted::new();
    let events = Arc::new(Events::default());
    store.renewals.ever_after(Some(Fate::Refused));
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    let start = Instant::now();

    let loss = guard.lost().await;

    assert!(start.elapsed() <= VALID);
    assert_eq!(loss.error().unwrap().kind(), ErrorKind::Unavailable);
    assert!(events.count("renewal trouble") >= 3, "several attempts fit into what is left of a lease");
    assert_eq!(events.count("lost Unreachable"), 1);
}

#[tokio::test(start_paused = true)]
async fn one_failed_renewal_puts_at_risk_and_the_next_takes_it_back() {
    let store = Scripted::new();
    store.renewals.then(Fate::ReplyLost);
    let guard = store.client().acquire("job").await.unwrap();

    sleep(TTL / 3 + Duration::from_millis(1)).await;
    assert_eq!(guard.health(), Health::AtRisk);
    assert!(guard.is_held());
    sleep(TTL / 10).await;
    assert_eq!(guard.health(), Health::Held);
    sleep(TTL * 5).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_lock_deleted_in_the_store_is_lost_with_the_next_renewal() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.delete("job").await;
    let start = Instant::now();

    assert_eq!(guard.lost().await.cause(), LossCause::Gone);
    assert!(start.elapsed() <= TTL / 3 + Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_another_owner_has_is_lost_as_taken() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.delete("job").await;
    let _other = store.client().acquire("job").await.unwrap();

    assert_eq!(guard.lost().await.cause(), LossCause::Taken);
}

/// A clock that jumps ahead of the runtime's timers, as after a suspend: no task has run meanwhile, no timer is due.
#[derive(Debug)]
struct Suspended {
    clock: RuntimeClock,
    ahead: AtomicU64,
}

impl Suspended {
    fn new() -> Arc<Self> {
        Arc::new(Self { clock: RuntimeClock::new(), ahead: AtomicU64::new(0) })
    }

    fn by(&self, seconds: u64) {
        self.ahead.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for Suspended {
    fn now(&self) -> Moment {
        self.clock.now().plus(Duration::from_secs(self.ahead.load(Ordering::SeqCst)))
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        let left = moment.since(self.now());
        Box::pin(sleep(left.min(Duration::from_secs(86_400))))
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_suspend_the_first_answer_is_that_the_lock_is_lost() {
    let clock = Suspended::new();
    let store = Scripted::new();
    let guard =
        store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default()).acquire("job").await.unwrap();
    assert!(guard.is_held());

    clock.by(60);

    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.loss().unwrap().cause(), LossCause::Expired);
    assert_eq!(guard.token().unwrap_err().kind(), ErrorKind::Lost);
    clock.by(0);
    assert!(!guard.is_held(), "a loss is sticky, even if the clock were to go back");
}

#[tokio::test(start_paused = true)]
async fn protected_work_is_not_polled_on_a_lease_that_is_over() {
    let clock = Suspended::new();
    let store = Scripted::new();
    let guard =
        store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default()).acquire("job").await.unwrap();
    let mut steps = 0;

    let outcome = guard
        .protect(async {
            loop {
                steps += 1;
                if steps == 3 {
                    // The suspend falls between two polls of the work.
                    clock.by(60);
                }
                tokio::task::yield_now().await;
            }
        })
        .await;

    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(steps, 3);
}

#[tokio::test(start_paused = true)]
async fn protect_stops_the_work_at_the_loss_and_passes_its_result_on_before() {
    let store = Scripted::new();
    store.renewals.ever_after(Some(Fate::Refused));
    let guard = store.client().acquire("job").await.unwrap();

    assert_eq!(guard.protect(async { 7 }).await.unwrap(), 7);
    let error = guard.protect(pending::<()>()).await.unwrap_err();
    assert_eq!(error.loss().unwrap().cause(), LossCause::Unreachable);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_after_the_loss_hears_of_it_at_once() {
    let store = Scripted::new();
    store.renewals.ever_after(Some(Fate::Refused));
    let guard = store.client().acquire("job").await.unwrap();
    sleep(TTL * 2).await;
    let start = Instant::now();

    guard.lost().await;
    guard.lease().lost().await;

    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn many_tasks_hear_of_one_loss_and_the_observer_once() {
    let store = Scripted::new();
    let events = Arc::new(Events::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let lease = guard.lease();
            tokio::spawn(async move { lease.lost().await.cause() })
        })
        .collect();
    settle().await;
    store.delete("job").await;

    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), LossCause::Gone);
    }
    assert_eq!(events.count("lost Gone"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deliberate_release_is_no_loss() {
    let store = Scripted::new();
    let events = Arc::new(Events::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    let lease = guard.lease();
    guard.release().await.unwrap();

    tokio::select! {
        biased;
        loss = lease.lost() => panic!("a released lock was reported lost: {loss}"),
        () = sleep(TTL * 3) => {}
    }
    assert_eq!(lease.health(), Health::Ended);
    assert_eq!(events.seen(), Vec::<String>::new());
}

/// The store starts its lease when it executes, the holder before it sends: however long the request takes, the holder
/// ends first.
#[tokio::test(start_paused = true)]
async fn validity_counts_from_before_the_send() {
    let store = Scripted::new();
    store.acquires.then(Fate::RequestLate(Duration::from_secs(4)));
    let guard = store.client().acquire("job").await.unwrap();

    assert_eq!(guard.remaining(), VALID - Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn the_validity_of_a_renewal_counts_from_before_its_send_too() {
    let store = Scripted::new();
    let slow = TTL / 5;
    store.renewals.then(Fate::ReplyLate(slow));
    let guard = store.client().acquire("job").await.unwrap();
    sleep(TTL / 3 + slow + Duration::from_millis(10)).await;

    assert_eq!(store.renewals.calls(), 1);
    assert!(guard.remaining() > VALID - TTL / 3, "it was confirmed");
    assert!(guard.remaining() <= VALID - slow, "{:?}", guard.remaining());
}

/// … but from the attempt that succeeded, not from the first of a long wait.
#[tokio::test(start_paused = true)]
async fn validity_counts_from_the_attempt_that_succeeded() {
    let store = Scripted::new();
    let holder = store.client().acquire("job").await.unwrap();
    let client = store.client();
    let waiter = tokio::spawn(async move { client.acquire("job").await.unwrap() });
    sleep(TTL * 3).await;
    holder.release().await.unwrap();

    assert_eq!(waiter.await.unwrap().remaining(), VALID);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_after_its_lease_is_refused_and_asked_for_again() {
    let store = Scripted::new();
    store.acquires.then(Fate::ReplyLate(TTL));
    let events = Arc::new(Events::default());
    let client = store.client_with(Arc::clone(&events));

    let once = acquire(&client, "job", options().with_wait(Duration::ZERO)).await.unwrap_err();
    assert_eq!(once.kind(), ErrorKind::Indeterminate);
    settle().await;
    assert!(store.is_clean("job").await, "what came too late was given back");

    store.acquires.then(Fate::ReplyLate(TTL));
    let guard = acquire(&client, "job", options()).await.unwrap();
    assert!(guard.remaining() > TTL / 2, "the second attempt counts from its own send");
}

/// No virtual time here: the executor is really blocked, and no task can run.
#[test]
fn a_starved_executor_does_not_hide_the_deadline() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(Scripted::on(Arc::new(SystemClock::new())));
        let client = store.client_on(Arc::new(SystemClock::new()), Arc::default());
        let ttl = Duration::from_millis(60);
        let guard = acquire(&client, "job", options().with_ttl(ttl)).await.unwrap();

        std::thread::sleep(ttl);

        assert!(!guard.is_held());
        assert_eq!(guard.lost().await.cause(), LossCause::Expired);
    });
}

/// The store's lease is a little longer than the holder's.
#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_between_the_holders_end_and_the_stores_is_given_back() {
    let store = Scripted::new();
    store.acquires.then(Fate::ReplyLate(TTL - Duration::from_millis(1)));
    let error = acquire(&store.client(), "job", options().with_wait(Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(store.holder("job").await.is_some());
    settle().await;
    assert!(store.is_clean("job").await);
}

/// The renewal came too late for the holder, and not for the store.
#[tokio::test(start_paused = true)]
async fn what_the_store_still_has_after_a_loss_is_given_back_with_the_guard() {
    for released in [true, false] {
        let store = Scripted::new();
        store.renewals.ever_after(Some(Fate::ReplyLate(TTL)));
        let guard = store.client().acquire("job").await.unwrap();
        guard.lost().await;
        assert!(store.holder("job").await.is_some(), "renewed without a word");

        if released {
            assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
        } else {
            drop(guard);
        }
        settle().await;
        assert!(store.is_clean("job").await, "released: {released}");
    }
}

#[tokio::test(start_paused = true)]
async fn protected_work_ends_with_a_release_by_another_hand() {
    let store = Scripted::new();
    let guard = store.client().acquire("job").await.unwrap();
    let lease = guard.lease();
    let work = tokio::spawn(async move { lease.protect(sleep(TTL / 5)).await });
    sleep(TTL / 10).await;
    guard.release().await.unwrap();
    assert_eq!(work.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
}
