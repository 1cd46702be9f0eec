//! N1: `lost()` fires and `is_held()` turns false no later than the local deadline, also if no task runs.

use crate::faulty_store::{CallFault, EventLog, FaultyStore, TTL, acquire, options, run_ready_tasks};
use crate::n1_validity::VALID;
use leasehold_core::{
    Clock, DistributedLockExt, ErrorKind, Health, LossCause, Moment, RuntimeClock, Sleep, SystemClock,
};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn store_without_replies_is_a_loss_by_the_deadline() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::NoReply));
    let guard = store.client().acquire("job").await.unwrap();
    let start = Instant::now();

    let loss = guard.lost().await;

    assert!(start.elapsed() <= VALID, "announced after {:?}", start.elapsed());
    assert_eq!(loss.cause(), LossCause::Unreachable);
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn late_reply_to_a_renewal_revives_nothing() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::ReplyDelayed(TTL)));
    let guard = store.client().acquire("job").await.unwrap();

    guard.lost().await;
    sleep(TTL * 3).await;

    assert!(!guard.is_held());
    assert_eq!(guard.token().unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn errors_until_the_deadline_are_a_loss_with_the_error_as_source() {
    let store = FaultyStore::new();
    let events = Arc::new(EventLog::default());
    store.renewals.set_default(Some(CallFault::Unavailable));
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    let start = Instant::now();

    let loss = guard.lost().await;

    assert!(start.elapsed() <= VALID);
    assert_eq!(loss.error().unwrap().kind(), ErrorKind::Unavailable);
    assert!(events.count("renewal failed") >= 3, "too few attempts before the deadline");
    assert_eq!(events.count("lost Unreachable"), 1);
}

/// No task reads the lease: the keeper finds the end, and does so before its next renewal.
#[tokio::test(start_paused = true)]
async fn observer_gets_a_loss_at_the_deadline() {
    let store = FaultyStore::new();
    let events = Arc::new(EventLog::default());
    store.renewals.set_default(Some(CallFault::Unavailable));
    let _guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();

    sleep(VALID - Duration::from_millis(1)).await;
    assert_eq!(events.count("lost Unreachable"), 0);
    sleep(Duration::from_millis(2)).await;
    run_ready_tasks().await;

    assert_eq!(events.count("lost Unreachable"), 1);
    assert!(store.renewals.calls() < 20, "{} attempts in one lease", store.renewals.calls());
}

/// For a short and for a long lease: the slack of a batch grows with the lease, and must not swallow the pause.
#[tokio::test(start_paused = true)]
async fn failed_renewal_is_tried_again_after_a_pause() {
    for (ttl, at_most) in [(TTL, 20), (Duration::from_secs(3600), 1000)] {
        let store = FaultyStore::new();
        store.renewals.set_default(Some(CallFault::Unavailable));
        let guard = acquire(&store.client(), "job", options().with_ttl(ttl)).await.unwrap();

        guard.lost().await;

        let calls = store.renewals.calls();
        assert!((5..at_most).contains(&calls), "{calls} attempts in a lease of {ttl:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_renewal_puts_at_risk_until_the_next_is_confirmed() {
    let store = FaultyStore::new();
    store.renewals.push(CallFault::ReplyLost);
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
async fn deleted_lock_is_lost_with_the_next_renewal() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.delete("job").await;
    let start = Instant::now();

    assert_eq!(guard.lost().await.cause(), LossCause::Gone);
    assert!(start.elapsed() <= TTL / 3 + Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn lock_of_another_owner_is_lost_as_taken() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    store.delete("job").await;
    let _other = store.client().acquire("job").await.unwrap();

    assert_eq!(guard.lost().await.cause(), LossCause::Taken);
}

/// A clock that jumps ahead of the timers of the runtime, as after a suspend: no task has run and no timer is due.
#[derive(Debug)]
struct SuspendClock {
    clock: RuntimeClock,
    seconds_ahead: AtomicU64,
}

impl SuspendClock {
    fn new() -> Arc<Self> {
        Arc::new(Self { clock: RuntimeClock::new(), seconds_ahead: AtomicU64::new(0) })
    }

    fn jump(&self, seconds: u64) {
        self.seconds_ahead.store(seconds, Ordering::SeqCst);
    }
}

impl Clock for SuspendClock {
    fn now(&self) -> Moment {
        self.clock.now().plus(Duration::from_secs(self.seconds_ahead.load(Ordering::SeqCst)))
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        let left = moment.since(self.now());
        Box::pin(sleep(left.min(Duration::from_secs(86_400))))
    }
}

#[tokio::test(start_paused = true)]
async fn first_read_after_a_suspend_is_a_loss() {
    let clock = SuspendClock::new();
    let store = FaultyStore::new();
    let guard =
        store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default()).acquire("job").await.unwrap();
    assert!(guard.is_held());

    clock.jump(60);

    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.loss().unwrap().cause(), LossCause::Expired);
    assert_eq!(guard.token().unwrap_err().kind(), ErrorKind::Lost);
    clock.jump(0);
    assert!(!guard.is_held(), "held again after a step back of the clock");
}

/// The clock of a process that is stopped for a minute after this number of further reads.
#[derive(Debug)]
struct StopAfterReads {
    clock: RuntimeClock,
    reads_left: AtomicU64,
}

impl Clock for StopAfterReads {
    fn now(&self) -> Moment {
        let reads_left = self.reads_left.load(Ordering::SeqCst);
        self.reads_left.store(reads_left.saturating_sub(1), Ordering::SeqCst);
        self.clock.now().plus(Duration::from_secs(if reads_left == 0 { 60 } else { 0 }))
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        Box::pin(sleep(moment.since(self.now()).min(Duration::from_secs(86_400))))
    }
}

/// `lost()` must not sleep for the rest of a lease that it read before the stop.
#[tokio::test(start_paused = true)]
async fn stop_between_status_and_sleep_delays_no_loss() {
    let clock = Arc::new(StopAfterReads { clock: RuntimeClock::new(), reads_left: AtomicU64::new(u64::MAX) });
    let store = FaultyStore::new();
    let client = store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default());
    let guard = acquire(&client, "job", options().with_fixed_lease()).await.unwrap();
    run_ready_tasks().await;
    clock.reads_left.store(1, Ordering::SeqCst);
    let start = Instant::now();
    guard.lost().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn protected_work_is_not_polled_after_the_end_of_the_lease() {
    let clock = SuspendClock::new();
    let store = FaultyStore::new();
    let guard =
        store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default()).acquire("job").await.unwrap();
    let mut steps = 0;

    let outcome = guard
        .protect(async {
            loop {
                steps += 1;
                if steps == 3 {
                    // A suspend between two polls of the work.
                    clock.jump(60);
                }
                tokio::task::yield_now().await;
            }
        })
        .await;

    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(steps, 3);
}

/// As with work that does not await, or a process that is stopped within its last step.
#[tokio::test(start_paused = true)]
async fn protected_work_whose_last_step_outlasts_the_lease_is_lost() {
    let clock = SuspendClock::new();
    let store = FaultyStore::new();
    let guard =
        store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default()).acquire("job").await.unwrap();
    assert_eq!(guard.protect(async { 7 }).await.unwrap(), 7);
    let outcome = guard.protect(async { clock.jump(60) }).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn protect_returns_the_output_before_a_loss_and_stops_the_work_at_it() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::Unavailable));
    let guard = store.client().acquire("job").await.unwrap();

    assert_eq!(guard.protect(async { 7 }).await.unwrap(), 7);
    let error = guard.protect(pending::<()>()).await.unwrap_err();
    assert_eq!(error.loss().unwrap().cause(), LossCause::Unreachable);
}

#[tokio::test(start_paused = true)]
async fn lost_is_ready_at_once_after_the_loss() {
    let store = FaultyStore::new();
    store.renewals.set_default(Some(CallFault::Unavailable));
    let guard = store.client().acquire("job").await.unwrap();
    sleep(TTL * 2).await;
    let start = Instant::now();

    guard.lost().await;
    guard.lease().lost().await;

    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn loss_reaches_many_tasks_and_the_observer_once() {
    let store = FaultyStore::new();
    let events = Arc::new(EventLog::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let lease = guard.lease();
            tokio::spawn(async move { lease.lost().await.cause() })
        })
        .collect();
    run_ready_tasks().await;
    store.delete("job").await;

    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), LossCause::Gone);
    }
    assert_eq!(events.count("lost Gone"), 1);
}

#[tokio::test(start_paused = true)]
async fn release_is_no_loss() {
    let store = FaultyStore::new();
    let events = Arc::new(EventLog::default());
    let guard = store.client_with(Arc::clone(&events)).acquire("job").await.unwrap();
    let lease = guard.lease();
    guard.release().await.unwrap();

    tokio::select! {
        biased;
        loss = lease.lost() => panic!("a released lock was reported lost: {loss}"),
        () = sleep(TTL * 3) => {}
    }
    assert_eq!(lease.health(), Health::Ended);
    assert_eq!(events.entries(), Vec::<String>::new());
}

/// On real time: the executor is blocked, and no task can run.
#[test]
fn blocked_executor_does_not_hide_the_deadline() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(FaultyStore::on(Arc::new(SystemClock::new())));
        let client = store.client_on(Arc::new(SystemClock::new()), Arc::default());
        let ttl = Duration::from_millis(60);
        let guard = acquire(&client, "job", options().with_ttl(ttl)).await.unwrap();

        std::thread::sleep(ttl);

        assert!(!guard.is_held());
        assert_eq!(guard.lost().await.cause(), LossCause::Expired);
    });
}

/// The store applied a renewal that came too late for the holder.
#[tokio::test(start_paused = true)]
async fn lock_left_in_the_store_after_a_loss_is_released_with_the_guard() {
    for is_released in [true, false] {
        let store = FaultyStore::new();
        store.renewals.set_default(Some(CallFault::ReplyDelayed(TTL)));
        let guard = store.client().acquire("job").await.unwrap();
        guard.lost().await;
        assert!(store.holder("job").await.is_some(), "the renewal was not applied");

        if is_released {
            assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
        } else {
            drop(guard);
        }
        run_ready_tasks().await;
        assert!(store.is_clean("job").await, "is_released: {is_released}");
    }
}

#[tokio::test(start_paused = true)]
async fn protected_work_that_is_sleeping_ends_with_a_release() {
    let store = FaultyStore::new();
    let guard = store.client().acquire("job").await.unwrap();
    let lease = guard.lease();
    let work = tokio::spawn(async move { lease.protect(sleep(TTL / 5)).await });
    sleep(TTL / 10).await;
    guard.release().await.unwrap();
    assert_eq!(work.await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
}
