//! N1: `lost()` fires and `is_held()` turns false no later than the local deadline, whether or not any task runs.

use crate::n1_validity::VALID;
use crate::scripted::{Events, Fate, Scripted, TTL, acquire, options, settle};
use leasehold_core::{
    Clock, DistributedLockExt, ErrorKind, Health, LossCause, Moment, RuntimeClock, Sleep, SystemClock,
};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

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
    assert!(events.count("renewal failed") >= 3, "several attempts fit into what is left of a lease");
    assert_eq!(events.count("lost Unreachable"), 1);
}

/// Nobody asks and nobody waits: it is the keeper that finds the end, and not at its next attempt to renew.
#[tokio::test(start_paused = true)]
async fn the_observer_hears_of_a_loss_at_the_deadline() {
    let store = Scripted::new();
    let events = Arc::new(Events::default());
    store.renewals.ever_after(Some(Fate::Refused));
    let _guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();

    sleep(VALID - Duration::from_millis(1)).await;
    assert_eq!(events.count("lost Unreachable"), 0);
    sleep(Duration::from_millis(2)).await;
    settle().await;

    assert_eq!(events.count("lost Unreachable"), 1);
    assert!(store.renewals.calls() < 20, "{} attempts in one lease", store.renewals.calls());
}

/// However long the lease, and so the time within which renewals go together.
#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_asked_again_after_a_pause() {
    for (ttl, at_most) in [(TTL, 20), (Duration::from_secs(3600), 1000)] {
        let store = Scripted::new();
        store.renewals.ever_after(Some(Fate::Refused));
        let guard = acquire(&store.client(), "job", options().with_ttl(ttl)).await.unwrap();

        guard.lost().await;

        let calls = store.renewals.calls();
        assert!((5..at_most).contains(&calls), "{calls} attempts in a lease of {ttl:?}");
    }
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

/// The clock of a process that is stopped for a minute after so many more looks at it.
#[derive(Debug)]
struct StoppedAfterLooks {
    clock: RuntimeClock,
    looks_left: AtomicU64,
}

impl Clock for StoppedAfterLooks {
    fn now(&self) -> Moment {
        let looks_left = self.looks_left.load(Ordering::SeqCst);
        self.looks_left.store(looks_left.saturating_sub(1), Ordering::SeqCst);
        self.clock.now().plus(Duration::from_secs(if looks_left == 0 { 60 } else { 0 }))
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        Box::pin(sleep(moment.since(self.now()).min(Duration::from_secs(86_400))))
    }
}

/// What it has seen before is over: the loss comes when the process goes on, and not after as long as was left then.
#[tokio::test(start_paused = true)]
async fn a_stop_between_the_look_and_the_wait_delays_no_loss() {
    let clock =
        Arc::new(StoppedAfterLooks { clock: RuntimeClock::new(), looks_left: AtomicU64::new(u64::MAX) });
    let store = Scripted::new();
    let client = store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default());
    let guard = acquire(&client, "job", options().with_fixed_lease()).await.unwrap();
    settle().await;
    clock.looks_left.store(1, Ordering::SeqCst);
    let start = Instant::now();
    guard.lost().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
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

/// By work that does not await, or a process that is stopped in the middle of it.
#[tokio::test(start_paused = true)]
async fn work_whose_last_step_outlasted_the_lease_was_not_covered() {
    let clock = Suspended::new();
    let store = Scripted::new();
    let guard =
        store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default()).acquire("job").await.unwrap();
    assert_eq!(guard.protect(async { 7 }).await.unwrap(), 7);
    let outcome = guard.protect(async { clock.by(60) }).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost);
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
