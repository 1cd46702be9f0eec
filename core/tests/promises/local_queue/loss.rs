//! A hold that was lost is lost for whoever has it, and nobody gets anything of it afterwards.

use super::{A_WHILE, GRANTS, SECOND, client, client_of, guard, turn, waiting};
use crate::handed_over::Queue;
use crate::scripted::{Events, Fate, Scripted, TTL, settle};
use leasehold_core::{DistributedLockExt, ErrorKind, LockBackend, LossCause};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_loss_that_a_renewal_finds_is_that_of_the_present_holder() {
    let store = Scripted::new();
    let (first, mut others) = turn(&client(&store), 1).await;
    first.release().await.unwrap();
    let holder = guard(others.remove(0)).await;
    store.delete("job").await;
    let start = Instant::now();
    assert_eq!(holder.lost().await.cause(), LossCause::Gone);
    assert!(start.elapsed() <= TTL / 3 + SECOND, "{:?}", start.elapsed());
    assert_eq!(holder.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

/// The answer to a renewal of the one comes when the other holds already.
#[tokio::test(start_paused = true)]
async fn a_loss_that_is_heard_after_the_hand_over_is_that_of_the_new_holder() {
    let store = Scripted::new();
    let events = Arc::<Events>::default();
    let backend = Arc::clone(&store) as Arc<dyn LockBackend>;
    let (first, mut others) = turn(&client_of(backend, GRANTS, Arc::clone(&events)), 2).await;
    let known = store.owner("job").await;
    store.delete("job").await;
    store.renewals.then(Fate::ReplyLate(A_WHILE));
    store.suspect(known);
    settle().await;
    assert_eq!(store.renewals.calls(), 1, "on its way");
    first.release().await.unwrap();
    let second = guard(others.remove(0)).await;
    assert!(second.is_held(), "nothing is known yet");

    let start = Instant::now();
    assert_eq!(second.lost().await.cause(), LossCause::Gone);
    assert!(start.elapsed() <= A_WHILE, "{:?}", start.elapsed());
    assert_eq!(store.renewals.calls(), 1, "no more need be asked");
    assert_eq!(events.count("lost Gone"), 1);

    // And the next in line has asked the store.
    let third = guard(others.remove(0)).await;
    assert!(third.token().unwrap().get() > 0 && third.is_held());
    drop(second);
    settle().await;
    assert!(third.is_held());
    third.release().await.unwrap();
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_a_grant_of_a_hold_that_was_lost() {
    let store = Scripted::new();
    let client = client(&store);
    let (holder, mut others) = turn(&client, 1).await;
    let lost = holder.token().unwrap();
    store.delete("job").await;
    let stranger = store.client().acquire("job").await.unwrap();
    assert!(holder.extend(TTL).await.is_err());
    assert_eq!(holder.loss().unwrap().cause(), LossCause::Taken);
    drop(holder);
    settle().await;
    assert!(!others[0].is_finished());
    assert!(!client.try_acquire("job").await.is_ok_and(|guard| guard.is_some()));
    let theirs = stranger.token().unwrap();
    stranger.release().await.unwrap();
    let next = guard(others.remove(0)).await.token().unwrap();
    assert!(next > theirs && theirs > lost);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_suspects_is_said_of_the_present_holder() {
    let store = Scripted::new();
    let (first, mut others) = turn(&client(&store), 1).await;
    let known = store.owner("job").await;
    first.release().await.unwrap();
    let holder = guard(others.remove(0)).await;
    store.delete("job").await;
    store.suspect(known);
    let start = Instant::now();
    holder.lost().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_was_extended_is_not_passed_on() {
    let store = Scripted::new();
    let (holder, mut others) = turn(&client(&store), 1).await;
    let released = store.releases.calls();
    holder.extend(TTL * 10).await.unwrap();
    holder.release().await.unwrap();
    assert_eq!(store.releases.calls(), released + 1, "who comes next asked for a shorter lease");
    assert!(guard(others.remove(0)).await.is_held());
}

/// Others wait, and ask every now and then whether the turn is over.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_extended_is_held_for_as_long_as_the_store_keeps_it() {
    for handed_over in [false, true] {
        let store = Scripted::new();
        let client = client(&store);
        let (mut holder, mut others) = turn(&client, 2).await;
        if handed_over {
            holder.release().await.unwrap();
            holder = guard(others.remove(0)).await;
        }
        let owner = store.owner("job").await;
        holder.extend(TTL * 10).await.unwrap();
        sleep(TTL * 40).await;
        assert!(holder.is_held(), "handed over: {handed_over}, {:?}", holder.loss());
        assert_eq!(store.owner("job").await, owner);
        assert!(!others[0].is_finished());
        holder.release().await.unwrap();
        assert!(guard(others.remove(0)).await.is_held());
    }
}

/// The lease began some time after the last answer of the *store* that the contender waits, whoever asked then.
#[tokio::test(start_paused = true)]
async fn a_hand_over_of_the_store_counts_from_its_own_last_answer() {
    let store = Arc::<Queue>::default();
    let client = client_of(Arc::clone(&store) as Arc<dyn LockBackend>, GRANTS, Arc::default());
    let first = waiting(&client).await;
    sleep(SECOND).await;
    let second = waiting(&client).await;
    sleep(SECOND).await;
    assert_eq!(store.asks(), 1, "the second was told to wait by the first");
    store.lose_the_next_answer();
    first.abort();
    settle().await;
    assert_eq!(store.asks(), 2, "the second asks, and hears nothing");
    store.hand_over();
    let guard = guard(second).await;
    let at_most = TTL.mul_f64(0.99) - 2 * SECOND;
    assert!(guard.remaining() <= at_most, "{:?}", guard.remaining());
}
