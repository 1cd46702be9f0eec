//! Whose turn it is, for how long, and with which token.

use super::{A_WHILE, GRANTS, SECOND, client, client_of, guard, turn, waiting, waiting_with};
use crate::scripted::{Fate, Scripted, TTL, acquire, lock_name, options, settle};
use futures_util::future::join_all;
use leasehold_core::{
    DistributedLock, DistributedLockExt, ErrorKind, HolderInfo, LocalQueue, LockBackend, LockClient,
    RuntimeClock, Semantics,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What is left of a lease that is so old, as its holder believes.
fn left(age: Duration) -> Duration {
    TTL.mul_f64(0.99) - Duration::from_millis(2) - age
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_process_pass_the_hold_on_without_a_word_to_the_store() {
    let store = Scripted::new();
    let (mut holder, others) = turn(&client(&store), 4).await;
    let (asked, released) = (store.acquires.calls(), store.releases.calls());
    for waiting in others {
        let token = holder.token().unwrap();
        holder.release().await.unwrap();
        holder = guard(waiting).await;
        assert!(holder.token().unwrap() > token);
    }
    assert_eq!((store.acquires.calls(), store.releases.calls()), (asked, released));
    let last = holder.token().unwrap();
    holder.release().await.unwrap();
    assert!(store.is_clean("job").await);
    assert!(store.client().acquire("job").await.unwrap().token().unwrap() > last);
}

#[tokio::test(start_paused = true)]
async fn those_of_one_process_are_served_first_come_first_served() {
    let store = Scripted::new();
    let (holder, others) = turn(&client(&store), 5).await;
    holder.release().await.unwrap();
    let mut last = None;
    for waiting in others {
        let guard = guard(waiting).await;
        let token = guard.token().unwrap();
        assert!(last.replace(token).is_none_or(|last| last < token));
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_alone_asks_for_one_token_and_frees_the_lock() {
    let store = Scripted::new();
    let client = client(&store);
    let first = client.acquire("job").await.unwrap();
    let token = first.token().unwrap();
    first.release().await.unwrap();
    assert!(store.is_clean("job").await);
    let next = client.acquire("job").await.unwrap().token().unwrap();
    assert_eq!(next.get(), token.get() + 1, "on this clock, which stands still, tokens count by one");
}

#[tokio::test(start_paused = true)]
async fn after_so_many_grants_the_others_get_their_turn() {
    let store = Scripted::new();
    let (here, there) = (client(&store), store.client());
    let (mut holder, others) = turn(&here, 2 * GRANTS as usize).await;
    let stranger = waiting(&there).await;
    let mut served = 1;
    for waiting in others {
        holder.release().await.unwrap();
        // Both are woken by a release in the store. The stranger may or may not be the first.
        sleep(Duration::from_millis(1)).await;
        if stranger.is_finished() {
            break;
        }
        holder = guard(waiting).await;
        served += 1;
    }
    assert!(served <= GRANTS, "{served} grants, and {GRANTS} are allowed");
    assert_eq!(served, GRANTS, "the turn was cut short");
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_with_its_time() {
    let store = Scripted::new();
    let (holder, mut others) = turn(&client(&store), 2).await;
    let released = store.releases.calls();
    sleep(LocalQueue::LONGEST_TURN - Duration::from_millis(10)).await;
    holder.release().await.unwrap();
    let holder = guard(others.remove(0)).await;
    assert_eq!(store.releases.calls(), released);
    sleep(Duration::from_millis(10)).await;
    holder.release().await.unwrap();
    assert_eq!(store.releases.calls(), released + 1);
    guard(others.remove(0)).await.release().await.unwrap();
}

/// Whoever asks first has it, and this process asks in the moment in which it gives up.
#[tokio::test(start_paused = true)]
async fn who_has_had_it_for_a_while_lets_other_processes_come_before_it() {
    let millis = Duration::from_millis;
    for (hold, looks) in [(2, 50), (50, 50), (150, 50), (2, 250), (150, 250)] {
        for seed in 0..3 {
            // When waiters look is drawn, in the one thread of this runtime.
            fastrand::seed(seed);
            let (store, hold) = (looked_at(millis(looks)), millis(hold));
            let grants: Vec<usize> = join_all((0..2).map(|_| grants_of_three(client(&store), hold))).await;
            let (least, all) = (grants.iter().min().unwrap(), grants.iter().sum::<usize>());
            assert!(least * 4 >= all, "{hold:?}, {looks}: {grants:?}");
            let busy = hold * u32::try_from(all).unwrap();
            assert!(
                busy > WINDOW * 7 / 10,
                "{hold:?}, {looks}: {grants:?}, and the lock was free for too long"
            );
        }
    }
}

/// Nobody else wants it.
#[tokio::test(start_paused = true)]
async fn who_is_alone_stands_back_now_and_then() {
    let hold = Duration::from_millis(50);
    let grants = grants_of_three(client(&looked_at(Duration::from_millis(50))), hold).await;
    let busy = hold * u32::try_from(grants).unwrap();
    assert!(busy > WINDOW * 9 / 10, "{grants}");
}

const WINDOW: Duration = Duration::from_secs(40);

/// A store like a file: who waits looks now and then, this often at least.
fn looked_at(at_most: Duration) -> Arc<Scripted> {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    store.looked_at = Some(at_most);
    Arc::new(store)
}

/// How often three tasks of one process had the lock, that want it again and again.
async fn grants_of_three(client: LockClient, hold: Duration) -> usize {
    let end = Instant::now() + WINDOW;
    let one = || async {
        let mut grants = 0;
        while Instant::now() < end {
            let guard = acquire(&client, "job", options()).await.unwrap();
            sleep(hold).await;
            guard.release().await.unwrap();
            grants += 1;
        }
        grants
    };
    join_all((0..3).map(|_| one())).await.into_iter().sum()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_reserves_no_tokens_is_asked_for_each_of_them() {
    let store = Scripted::new();
    let client = client_of(Arc::clone(&store) as Arc<dyn LockBackend>, 1, Arc::default());
    let (mut holder, others) = turn(&client, 3).await;
    let (asked, start) = (store.acquires.calls(), Instant::now());
    for waiting in others {
        holder.release().await.unwrap();
        holder = guard(waiting).await;
    }
    assert_eq!(store.acquires.calls(), asked + 3);
    assert_eq!(start.elapsed(), Duration::ZERO, "the next asks as soon as it is free");
}

#[tokio::test(start_paused = true)]
async fn waiters_of_one_process_are_one_waiter_of_the_store() {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    store.queues = true;
    let store = Arc::new(store);
    let stranger = store.client().acquire("job").await.unwrap();
    let client = client(&store);
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(waiting(&client).await);
    }
    sleep(SECOND).await;
    assert_eq!(store.queued(), 1);
    stranger.release().await.unwrap();
    for task in tasks {
        guard(task).await.release().await.unwrap();
    }
    settle().await;
    assert!(store.is_clean("job").await);
}

/// The lease is that of the store, and began with the turn.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_passed_on_is_as_old_as_the_last_proof_of_it() {
    let store = Scripted::new();
    let (holder, mut others) = turn(&client(&store), 1).await;
    sleep(A_WHILE).await;
    holder.release().await.unwrap();
    let holder = guard(others.remove(0)).await;
    assert!(holder.remaining() <= left(A_WHILE), "{:?}", holder.remaining());
    assert!(holder.remaining() > left(2 * A_WHILE), "{:?}", holder.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_counts_for_whoever_comes_next() {
    let mut store = Scripted::on(Arc::new(RuntimeClock::new()));
    // A store that keeps it for so short a time that it is renewed within the turn.
    store.lease = Some(Duration::from_millis(90));
    let store = Arc::new(store);
    let (holder, mut others) = turn(&client(&store), 1).await;
    sleep(Duration::from_millis(70)).await;
    assert_eq!(store.renewals.calls(), 2);
    holder.release().await.unwrap();
    let holder = guard(others.remove(0)).await;
    assert_eq!(store.acquires.calls(), 2, "no question");
    // Renewed after 60 ms, and that is what counts.
    let remaining = holder.remaining();
    assert!(remaining > Duration::from_millis(60) && remaining < Duration::from_millis(90), "{remaining:?}");
}

#[tokio::test(start_paused = true)]
async fn who_was_given_the_hold_is_renewed_as_everybody_is() {
    let store = Scripted::new();
    let (holder, mut others) = turn(&client(&store), 1).await;
    holder.release().await.unwrap();
    let holder = guard(others.remove(0)).await;
    sleep(TTL * 5).await;
    assert!(holder.is_held());
    holder.release().await.unwrap();
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn who_wants_another_lease_begins_a_turn_of_its_own() {
    let store = Scripted::new();
    let client = client(&store);
    let (holder, mut others) = turn(&client, 1).await;
    let asked = store.acquires.calls();
    let longer = waiting_with(&client, options().with_ttl(TTL * 2)).await;
    holder.release().await.unwrap();
    guard(others.remove(0)).await.release().await.unwrap();
    let longer = guard(longer).await;
    assert_eq!(store.acquires.calls(), asked + 1);
    assert!(longer.remaining() > TTL);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_shows_is_true_of_whoever_holds() {
    let store = Scripted::new();
    let client = client(&store);
    let (holder, mut others) = turn(&client, 1).await;
    let other = HolderInfo::default().with_doing("the other job");
    let other = waiting_with(&client, options().with_holder(&other)).await;
    holder.release().await.unwrap();
    guard(others.remove(0)).await.release().await.unwrap();
    let _holder = guard(other).await;
    let status = store.admin().unwrap().inspect(&lock_name("job")).await.unwrap().unwrap();
    assert_eq!(status.holder.doing, "the other job");
}

#[tokio::test(start_paused = true)]
async fn what_is_to_be_kept_for_longer_is_kept_from_those_of_the_same_process_too() {
    let store = Scripted::new();
    let client = client(&store);
    let first = acquire(&client, "job", options()).await.unwrap();
    let lingering = waiting_with(&client, options().with_hold_at_least(SECOND)).await;
    let next = waiting(&client).await;
    first.release().await.unwrap();
    let (lingering, start) = (guard(lingering).await, Instant::now());
    lingering.release().await.unwrap();
    let _next = guard(next).await;
    assert!(start.elapsed() >= SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_holders_own_limit_is_counted_from_when_it_holds() {
    let store = Scripted::new();
    let client = client(&store);
    let first = acquire(&client, "job", options()).await.unwrap();
    let second = waiting(&client).await;
    let limited = waiting_with(&client, options().with_max_hold(SECOND)).await;
    first.release().await.unwrap();
    let second = guard(second).await;
    sleep(A_WHILE).await;
    second.release().await.unwrap();
    assert_eq!(guard(limited).await.remaining(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn one_attempt_at_what_is_held_here_asks_nobody() {
    let store = Scripted::new();
    let client = client(&store);
    let holder = client.acquire("job").await.unwrap();
    let asked = store.acquires.calls();
    assert!(client.try_acquire("job").await.unwrap().is_none());
    assert_eq!(store.acquires.calls(), asked);
    holder.release().await.unwrap();
    assert!(client.try_acquire("job").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn one_attempt_passes_by_nobody_who_waits_here() {
    let store = Scripted::new();
    let stranger = store.client().acquire("job").await.unwrap();
    let client = client(&store);
    let first = waiting(&client).await;
    stranger.release().await.unwrap();
    let error = acquire(&client, "job", options().with_wait(Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    guard(first).await.release().await.unwrap();
}

/// The holder hangs, the store is not reached, and the lease is over: then only the store knows.
#[tokio::test(start_paused = true)]
async fn when_the_lease_is_over_the_store_is_asked_though_the_holder_has_not_let_go() {
    for waits in [false, true] {
        let store = Scripted::new();
        let client = client(&store);
        let hanging = client.acquire("job").await.unwrap();
        let waiter = match waits {
            true => Some(waiting(&client).await),
            false => None,
        };
        store.renewals.ever_after(Some(Fate::RequestLost));
        sleep(TTL + SECOND).await;
        assert!(!hanging.is_held());
        let next = match waiter {
            Some(waiter) => guard(waiter).await,
            None => client.try_acquire("job").await.unwrap().unwrap(),
        };
        let held_by = store.owner("job").await;
        drop(hanging);
        settle().await;
        assert_eq!(store.owner("job").await, held_by, "a late release ended another's hold");
        assert!(next.is_held());
        next.release().await.unwrap();
        assert!(store.is_clean("job").await);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_declared() {
    let store = Scripted::new();
    let declared = |semantics: &Semantics| semantics.local_queue.map(LocalQueue::grants);
    assert_eq!(declared(client(&store).semantics()), Some(GRANTS));
    assert_eq!(declared(store.client().semantics()), None);
}
