//! Several names at once: all or none, whatever the store does and wherever the caller stops.

use crate::faulty_store::{CallFault, FaultyStore, TTL, options, run_ready_tasks};
use futures_util::FutureExt;
use leasehold_core::{
    DistributedLockExt, ErrorKind, Event, Health, LockClient, LockMode, LockSetGuard, LossCause, Observer,
    Wait,
};
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, advance, sleep};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Enough for a release and its repetitions.
const RELEASE_TIME: Duration = Duration::from_millis(200);

async fn assert_clean(store: &FaultyStore, names: &[&str], when: &str) {
    for name in names {
        assert!(store.is_clean(name).await, "{name} is left {when}");
    }
}

#[tokio::test(start_paused = true)]
async fn free_set_takes_one_attempt_for_each_name() {
    let store = FaultyStore::new();
    let set = store.client().acquire_all(["c", "a", "b", "a"]).await.unwrap();
    assert_eq!(store.acquires.calls(), 3);
    assert_eq!(set.names().map(|name| name.as_str()).collect::<Vec<_>>(), NAMES);
    assert_eq!(set.tokens().unwrap().map(|(_, token)| token).collect::<Vec<_>>().len(), 3);
    assert_eq!(set.token("d").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!((set.is_held(), set.health(), set.loss().is_none()), (true, Health::Held, true));
    assert!(set.remaining() > TTL / 2);
    assert_eq!(format!("{set:?}"), r#"{"a", "b", "c"}"#);
    set.release().await.unwrap();
    assert_eq!(store.releases.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn bad_set_is_refused_before_any_request() {
    let store = FaultyStore::new();
    let client = store.client();
    let many: Vec<String> = (0..=LockSetGuard::MAX_NAMES).map(|at| format!("name-{at}")).collect();
    let lingering = options().with_hold_at_least(TTL);
    let short = options().with_ttl(Duration::ZERO);
    let refused = [
        (client.acquire_all([""; 0]).await, "invalid set of locks: it has no name"),
        (client.acquire_all(many).await, "invalid set of locks: 65 names, limit 64"),
        (client.acquire_all(["a", "b\n"]).await, "invalid lock name: control character U+000A at byte 1"),
        (
            client.acquire_all_with(NAMES, &lingering).await,
            "invalid hold_at_least: a set of locks cannot have it",
        ),
        (client.acquire_all_with(NAMES, &short).await, "invalid ttl: 0ns, at least 50ms"),
    ];
    for (outcome, message) in refused {
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, message));
    }
    assert_eq!(store.acquires.calls(), 0);
}

#[test]
fn set_outside_a_runtime_is_misconfigured() {
    let store = FaultyStore::new();
    let client = store.client();
    for wait in [Wait::No, Wait::UpTo(TTL), Wait::Forever] {
        let options = options().with_wait(wait);
        let outcome = client.acquire_all_with(NAMES, &options).now_or_never();
        assert_eq!(outcome.unwrap().unwrap_err().kind(), ErrorKind::Misconfigured);
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_on_a_busy_set_gives_everything_back_and_names_the_holder() {
    let store = FaultyStore::new();
    let _held = store.client().acquire("b").await.unwrap();
    let client = store.client();
    assert!(client.try_acquire_all(NAMES).await.unwrap().is_none());
    sleep(RELEASE_TIME).await;
    let error = client.acquire_all_with(NAMES, &options().with_wait(Wait::No)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Busy, r#"lock "b" is held by another owner"#)
    );
    sleep(RELEASE_TIME).await;
    assert_clean(&store, &["a", "c"], "after a refused attempt").await;
}

/// While the set waits for a name, the names in front of it are held, and those behind it are free.
#[tokio::test(start_paused = true)]
async fn waiting_set_holds_only_the_names_in_front() {
    let store = FaultyStore::new();
    let held = store.client().acquire("b").await.unwrap();
    let client = store.client();
    let waiting = tokio::spawn(async move { client.acquire_all(NAMES).await });
    sleep(RELEASE_TIME).await;
    assert!(store.holder("a").await.is_some());
    assert!(store.holder("c").await.is_none());
    held.release().await.unwrap();
    let set = waiting.await.unwrap().unwrap();
    assert!(store.holder("c").await.is_some() && set.is_held());
    set.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn set_dropped_at_any_await_leaves_nothing() {
    for busy in [None, Some("a"), Some("b"), Some("c")] {
        for polls in 1.. {
            let store = FaultyStore::new();
            let held = match busy {
                Some(name) => Some(store.client().acquire(name).await.unwrap()),
                None => None,
            };
            let client = store.client();
            let forever = options().with_ttl(TTL * 100);
            let (mut acquiring, mut polled) = (Box::pin(client.acquire_all_with(NAMES, &forever)), 0);
            let is_ready = poll_fn(|cx| {
                polled += 1;
                match acquiring.as_mut().poll(cx) {
                    Poll::Ready(set) => {
                        drop(set.unwrap());
                        Poll::Ready(true)
                    }
                    Poll::Pending if polled == polls => Poll::Ready(false),
                    Poll::Pending => Poll::Pending,
                }
            });
            // A set that waits is polled no more by itself.
            let is_over = tokio::time::timeout(TTL, is_ready).await != Ok(false);
            drop(acquiring);
            drop(held);
            sleep(RELEASE_TIME).await;
            run_ready_tasks().await;
            assert_clean(&store, &NAMES, &format!("after {polls} polls, with {busy:?} held")).await;
            if is_over {
                assert!(polls >= 3, "only {polls} await points");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn set_outlasts_an_outage_within_its_wait() {
    for fault in [CallFault::Unavailable, CallFault::RequestLost, CallFault::ReplyLost] {
        let store = FaultyStore::new();
        store.acquires.push(fault);
        let set = store.client().acquire_all_with(NAMES, &options().with_wait(TTL)).await.unwrap();
        set.release().await.unwrap();
        sleep(RELEASE_TIME).await;
        assert_clean(&store, &NAMES, "after the release").await;
    }
}

#[tokio::test(start_paused = true)]
async fn set_that_was_answered_waits_out_a_refusal() {
    let store = FaultyStore::new();
    let holder = store.client().acquire("b").await.unwrap();
    let client = store.client();
    let waiter = tokio::spawn(async move { client.acquire_all(NAMES).await });
    sleep(TTL).await;
    store.acquires.set_default(Some(CallFault::Error(ErrorKind::Denied)));
    holder.release().await.unwrap();
    sleep(TTL).await;
    assert!(!waiter.is_finished(), "a refusal ended the wait");
    store.acquires.set_default(None);
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn set_whose_name_fails_gives_the_others_back_and_names_it() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::Error(ErrorKind::Denied));
    let error = store.client().acquire_all_with(NAMES, &options().with_wait(TTL)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Denied, r#"lock "a" of a set: injected fault"#)
    );
    sleep(RELEASE_TIME).await;
    assert_clean(&store, &NAMES, "after a failure").await;
}

#[tokio::test(start_paused = true)]
async fn set_on_a_silent_store_ends_at_its_deadline() {
    let store = FaultyStore::new();
    store.acquires.push(CallFault::NoReply);
    let (start, wait) = (Instant::now(), Duration::from_secs(1));
    let error = store.client().acquire_all_with(NAMES, &options().with_wait(wait)).await.unwrap_err();
    assert_eq!((error.kind(), start.elapsed()), (ErrorKind::Indeterminate, wait));
    sleep(RELEASE_TIME).await;
    assert_clean(&store, &["b", "c"], "after the deadline").await;
}

#[tokio::test(start_paused = true)]
async fn deadline_covers_all_names_together() {
    let store = FaultyStore::new();
    let other = store.client();
    let held = other.acquire_all(NAMES).await.unwrap();
    let wait = Duration::from_secs(1);
    let client = store.client();
    let start = Instant::now();
    let waiting =
        tokio::spawn(async move { client.acquire_all_with(NAMES, &options().with_wait(wait)).await });
    sleep(wait * 3 / 4).await;
    store.delete("a").await;
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), start.elapsed()), (ErrorKind::TimedOut, wait));
    assert!(error.to_string().starts_with(r#"lock "b" was held by others"#), "{error}");
    drop(held);
}

/// The lock in front is lost while the set waits for the one behind.
#[tokio::test(start_paused = true)]
async fn lock_lost_while_the_set_waits_is_acquired_again() {
    let store = FaultyStore::new();
    let held = store.client().acquire("b").await.unwrap();
    let client = store.client();
    let waiting = tokio::spawn(async move { client.acquire_all(NAMES).await });
    sleep(RELEASE_TIME).await;
    let before = store.holder("a").await;
    store.delete("a").await;
    sleep(TTL).await;
    held.release().await.unwrap();
    let set = waiting.await.unwrap().unwrap();
    assert!(set.is_held());
    assert!(store.holder("a").await.is_some_and(|owner| Some(owner) != before), "the lost lock is not held");
}

#[tokio::test(start_paused = true)]
async fn loss_of_one_lock_ends_the_set_and_keeps_the_others_until_its_release() {
    let store = FaultyStore::new();
    let set = store.client().acquire_all(NAMES).await.unwrap();
    let token = set.cancellation_token();
    store.delete("b").await;
    let work = set.protect(std::future::pending::<()>());
    let error = work.await.unwrap_err();
    assert_eq!((error.kind(), error.loss().unwrap().cause()), (ErrorKind::Lost, LossCause::Gone));
    assert!(error.to_string().starts_with(r#"lock "b" of a set was lost: "#), "{error}");
    assert!(!set.is_held() && set.remaining().is_zero() && set.health() == Health::Ended);
    assert_eq!(set.loss().unwrap().lock().unwrap(), "b");
    assert_eq!(set.lost().await.lock().unwrap(), "b");
    for name in NAMES {
        assert_eq!(set.token(name).unwrap_err().kind(), ErrorKind::Lost);
    }
    sleep(RELEASE_TIME).await;
    assert!(token.is_cancelled());
    assert!(store.holder("a").await.is_some() && store.holder("c").await.is_some(), "the holder cleans up");
    let error = set.release().await.unwrap_err();
    assert_eq!((error.kind(), error.loss().unwrap().cause()), (ErrorKind::Lost, LossCause::Gone));
    sleep(RELEASE_TIME).await;
    assert_clean(&store, &NAMES, "after the release").await;
    assert_eq!(store.releases.calls(), 3, "each lock is released once");
}

/// The store may have granted the second lock: that is not the same as a lock that another owner holds.
#[tokio::test(start_paused = true)]
async fn unknown_outcome_of_one_lock_is_not_hidden_behind_another_that_is_held() {
    let store = FaultyStore::new();
    let _held = store.client().acquire("a").await.unwrap();
    store.acquires.push(CallFault::ReplyDelayed(Duration::ZERO));
    store.acquires.push(CallFault::ReplyLost);
    let error = store.client().try_acquire_all(["a", "b"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
}

#[tokio::test(start_paused = true)]
async fn set_of_one_name_asks_at_least_once() {
    let (locks, options) = (LockClient::in_memory(), options().with_wait(Wait::UpTo(Duration::ZERO)));
    locks.acquire_all_with(["a"], &options).await.unwrap().release().await.unwrap();
    locks.scope().acquire_with("a", &options).await.unwrap().release().await.unwrap();
}

/// The other locks are being released: an extension after that could keep one of them.
#[tokio::test(start_paused = true)]
async fn extension_of_a_lost_set_is_lost_and_sends_nothing() {
    let store = FaultyStore::new();
    let set = store.client().acquire_all(NAMES).await.unwrap();
    store.delete("b").await;
    set.lost().await;
    sleep(RELEASE_TIME).await;
    let renewals = store.renewals.calls();
    let error = set.extend(TTL * 2).await.unwrap_err();
    assert_eq!((error.kind(), error.loss().unwrap().lock().unwrap().as_str()), (ErrorKind::Lost, "b"));
    assert_eq!(store.renewals.calls(), renewals);
}

/// Belief ends by the clock, though no task has run since.
#[tokio::test(start_paused = true)]
async fn set_is_over_at_its_first_deadline_without_any_task() {
    let store = FaultyStore::new();
    let set = store.client().acquire_all_with(NAMES, &options().with_fixed_lease()).await.unwrap();
    assert!(advance(TTL).now_or_never().is_none(), "a task may have run");
    assert!(!set.is_held());
    assert_eq!(set.loss().unwrap().cause(), LossCause::Expired);
}

#[tokio::test(start_paused = true)]
async fn extension_reaches_every_lock() {
    let store = FaultyStore::new();
    let set = store.client().acquire_all_with(NAMES, &options().with_fixed_lease()).await.unwrap();
    set.extend(TTL * 3).await.unwrap();
    sleep(TTL * 2).await;
    assert!(set.is_held());
    store.renewals.push(CallFault::Error(ErrorKind::Denied));
    let error = set.extend(TTL * 5).await.unwrap_err();
    assert_eq!(error.to_string(), r#"lock "a" of a set: injected fault"#);
    set.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn locks_are_released_in_reverse_order() {
    #[derive(Debug, Default)]
    struct Released(Mutex<Vec<String>>);
    impl Observer for Released {
        fn event(&self, event: &Event<'_>) {
            if let Event::Released { name, .. } = event {
                self.0.lock().unwrap().push(name.to_string());
            }
        }
    }
    for drops in [false, true] {
        let (store, released) = (FaultyStore::new(), Arc::new(Released::default()));
        let backend = Arc::clone(&store) as Arc<dyn leasehold_core::LockBackend>;
        let client = LockClient::builder(backend).with_observer(Arc::clone(&released) as _).build();
        let set = client.acquire_all(NAMES).await.unwrap();
        match drops {
            true => drop(set),
            false => set.release().await.unwrap(),
        }
        assert_eq!(*released.0.lock().unwrap(), ["c", "b", "a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_release_names_its_lock_and_a_loss_comes_first() {
    let store = FaultyStore::new();
    let set = store.client().acquire_all(NAMES).await.unwrap();
    store.releases.set_default(Some(CallFault::Unavailable));
    let error = set.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().starts_with(r#"lock "c" of a set"#), "{error}");
    store.releases.set_default(None);
    sleep(TTL).await;
    let set = store.client().acquire_all(NAMES).await.unwrap();
    store.delete("a").await;
    store.releases.push(CallFault::Unavailable);
    let error = set.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().starts_with(r#"lock "a" of a set"#), "{error}");
}

#[tokio::test(start_paused = true)]
async fn readers_hold_a_set_together() {
    let store = FaultyStore::new();
    let shared = options().with_mode(LockMode::Shared);
    let one = store.client().acquire_all_with(NAMES, &shared).await.unwrap();
    let two = store.client().acquire_all_with(["b", "c"], &shared).await.unwrap();
    assert!(one.is_held() && two.is_held());
    assert!(store.client().try_acquire_all(["a", "b"]).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn set_of_a_scope_shares_the_holds_of_the_scope() {
    let store = FaultyStore::new();
    let scope = store.client().scope();
    let outer = scope.acquire("b").await.unwrap();
    let set = scope.acquire_all(NAMES).await.unwrap();
    assert_eq!(set.token("b").unwrap(), outer.token().unwrap());
    assert_eq!(store.acquires.calls(), 3);
    set.release().await.unwrap();
    assert!(outer.is_held() && store.holder("b").await.is_some());
    assert_clean(&store, &["a", "c"], "after the release of the set").await;
}

#[tokio::test(start_paused = true)]
async fn closed_client_ends_the_set() {
    let store = FaultyStore::new();
    let client = store.client();
    let set = client.acquire_all(NAMES).await.unwrap();
    leasehold_core::DistributedLock::close(&client).await.unwrap();
    assert_eq!(set.loss().unwrap().cause(), LossCause::Closed);
    assert_eq!(client.acquire_all(NAMES).await.unwrap_err().kind(), ErrorKind::Closed);
}
