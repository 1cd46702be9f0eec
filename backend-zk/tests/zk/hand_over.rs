//! Whose turn it is, found out without the leader: when that is enough, and from when such a hold is counted.

use crate::kit::*;
use leasehold_core::{Attempt, Claim, DistributedLockExt, Grant};
use leasehold_zk::ZooKeeperBackend;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Between a look at what remains and one at the clock.
const SHORTLY: Duration = Duration::from_millis(200);

/// What the claim is granted, whose turn it is.
async fn grant(backend: &ZooKeeperBackend, claim: &Claim) -> Grant {
    changed(backend, claim).await;
    match answered(leasehold_core::LockBackend::try_acquire(backend, claim)).await.unwrap() {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// Whether a second one in line has the lock handed over, and the third, if each hold is over after so long.
async fn handed_over(url: &str, hold_for: Duration) -> [bool; 2] {
    let [one, other, another] = [(); 3].map(|()| backend(url));
    let [first, second, third] = [claim("job"), claim("job"), claim("job")];
    let mut last = hold(&one, &first).await;
    busy(&other, &second).await;
    busy(&another, &third).await;
    let mut seen = [false; 2];
    let turns = [((&one, &first), (&other, &second)), ((&other, &second), (&another, &third))];
    for (seen, (before, next)) in seen.iter_mut().zip(turns) {
        sleep(hold_for).await;
        release(before.0, before.1).await;
        let grant = grant(next.0, next.1).await;
        assert!(grant.token > last, "{:?} after {last:?}", grant.token);
        (*seen, last) = (grant.handed_over, grant.token);
    }
    seen
}

#[tokio::test]
async fn who_has_waited_for_a_moment_need_not_ask_the_leader() {
    let server = server();
    assert_eq!(handed_over(&server.url(), Duration::ZERO).await, [true, true]);
}

#[tokio::test]
async fn who_has_waited_for_long_asks_the_leader() {
    let server = server();
    // A third of three quarters of 4 s is a second.
    let url = format!("{}?session_timeout=4s", server.url());
    assert_eq!(handed_over(&url, Duration::from_millis(1100)).await, [false, false]);
}

/// The one in front has left without having held, so the line has to be looked at, and the leader is asked.
#[tokio::test]
async fn who_comes_second_after_all_is_not_granted() {
    let server = server();
    let [one, other, another] = [(); 3].map(|()| backend(&server.url()));
    let [holder, front, back] = [claim("job"), claim("job"), claim("job")];
    hold(&one, &holder).await;
    busy(&other, &front).await;
    busy(&another, &back).await;
    release(&other, &front).await;
    changed(&another, &back).await;
    busy(&another, &back).await;
    release(&one, &holder).await;
    assert!(grant(&another, &back).await.handed_over, "its second look was answered by the leader");
}

#[tokio::test]
async fn who_looked_in_vain_without_the_leader_asks_it_the_next_time() {
    let server = server();
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    let [holder, waiter] = [claim("job"), claim("job")];
    hold(&one, &holder).await;
    busy(&other, &waiter).await;
    // Nothing was heard: it only looks whether the one in front is still there, which any server answers.
    busy(&other, &waiter).await;
    release(&one, &holder).await;
    assert!(!grant(&other, &waiter).await.handed_over, "it would be counted from a look that proves nothing");
}

/// From the sending of the attempt in whose course the leader has answered, and not from the one that found the turn.
#[tokio::test]
async fn a_hold_is_counted_from_before_the_wait() {
    let server = server();
    let url = format!("{}?session_timeout=20s", server.url());
    let (one, other, look) = (client(&url), Arc::new(client(&url)), Look::at(&server).await);
    let guard = one.acquire("job").await.unwrap();
    let waiter = tokio::spawn({
        let other = Arc::clone(&other);
        async move { other.acquire("job").await }
    });
    eventually(async || (look.line("job").await.len() == 2).then_some(())).await;
    let waits = Instant::now();
    sleep(Duration::from_millis(900)).await;
    guard.release().await.unwrap();
    let guard = answered(waiter).await.unwrap().unwrap();
    let (remaining, waited) = (guard.remaining(), waits.elapsed());
    assert!(remaining + waited <= Duration::from_secs(15) + SHORTLY, "{remaining:?} after {waited:?}");
}
