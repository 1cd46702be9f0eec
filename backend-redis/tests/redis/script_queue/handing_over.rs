//! The lock goes to the first in the queue, in whatever way it was given up.

use super::setup;
use crate::kit::{
    HOLDER, Look, attempt_fails, busy, claim, claim_for, handed_over, hold, keys, name, queue, release,
};
use leasehold_core::{ErrorKind, FencingToken, LockAdmin, LockBackend, LockMode, Release};
use std::time::Duration;

#[tokio::test]
async fn release_hands_over_to_the_first_waiter_which_asks_no_more() {
    let setup = setup(3).await;
    assert_eq!(release(&setup.backend, &setup.holder).await, Release::Released);
    let owners = setup.owners();
    assert_eq!(setup.owner().as_ref(), Some(&owners[0]));
    assert_eq!(setup.server.queue("job"), owners[1..]);
    let (lock, holder) =
        (setup.server.pttl(&keys("job").lock), setup.server.get(&keys("job").holder).unwrap());
    assert!((50_000..=60_000).contains(&lock), "{lock}");

    let asked = setup.server.calls("evalsha");
    let token = handed_over(&setup.backend, &setup.waiters[0]).await;
    assert_eq!(setup.server.calls("evalsha"), asked, "no second round trip");
    assert!(token > setup.token);
    assert!(holder.starts_with(&format!("{} {token} ", owners[0])) && holder.ends_with(HOLDER), "{holder}");
    assert_eq!(setup.server.get(&keys("job").token), Some(token.to_string()));
}

#[tokio::test]
async fn last_waiter_of_a_queue_leaves_a_free_lock_and_nothing_else() {
    let setup = setup(2).await;
    let mut last = setup.token;
    release(&setup.backend, &setup.holder).await;
    for waiter in &setup.waiters {
        let token = handed_over(&setup.backend, waiter).await;
        assert!(token > last);
        last = token;
        assert_eq!(release(&setup.backend, waiter).await, Release::Released);
    }
    assert_eq!(setup.server.keys(), [keys("job").token]);
    assert!(hold(&setup.backend, &claim("job")).await > last);
}

#[tokio::test]
async fn waiter_that_finds_the_lock_free_gets_it_in_its_turn() {
    let setup = setup(2).await;
    setup.expire();
    // The second asks first: the first is told.
    queue(&setup.backend, &setup.waiters[1]).await;
    let token = handed_over(&setup.backend, &setup.waiters[0]).await;
    setup.expire();
    assert!(hold(&setup.backend, &setup.waiters[1]).await > token);
    assert!(setup.server.queue("job").is_empty());
}

#[tokio::test]
async fn lingering_release_keeps_the_queue_waiting() {
    let setup = setup(1).await;
    let linger = Duration::from_secs(20);
    assert_eq!(setup.backend.release(&setup.holder, linger).await.unwrap(), Release::Released);
    assert_eq!(setup.server.get(&keys("job").lock).as_deref(), Some("released"));
    assert!(busy(&setup.backend, &setup.waiters[0]).await.unwrap() <= linger);
    setup.expire();
    hold(&setup.backend, &setup.waiters[0]).await;
}

#[tokio::test]
async fn vanished_lock_is_kept_for_its_holder_and_then_handed_over() {
    let setup = setup(2).await;
    setup.server.del(&keys("job").lock);
    assert!(busy(&setup.backend, &setup.waiters[1]).await.unwrap() > Duration::from_secs(50));
    assert_eq!(setup.owner(), None);
    assert_eq!(release(&setup.backend, &setup.holder).await, Release::NotHeld);
    queue(&setup.backend, &setup.waiters[1]).await;
    handed_over(&setup.backend, &setup.waiters[0]).await;
}

#[tokio::test]
async fn handing_over_keeps_tokens_growing_when_the_clock_goes_back() {
    let setup = setup(1).await;
    let ahead = setup.token.get() + 10 * 86_400_000_000;
    setup.server.set(&keys("job").token, &ahead.to_string());
    release(&setup.backend, &setup.holder).await;
    assert_eq!(handed_over(&setup.backend, &setup.waiters[0]).await.get(), ahead + 1);
    let days = setup.server.pttl(&keys("job").token) as f64 / 86_400_000.0;
    assert!((10.9..=11.05).contains(&days), "{days}");
}

#[tokio::test]
async fn release_without_tokens_left_frees_the_lock_and_the_waiter_gets_the_reason() {
    let setup = setup(1).await;
    setup.server.set(&keys("job").token, &FencingToken::MAX_COUNTED.to_string());
    assert_eq!(release(&setup.backend, &setup.holder).await, Release::Released);
    assert_eq!(setup.owner(), None);
    let (kind, told) = attempt_fails(&setup.backend, &setup.waiters[0]).await;
    assert!(kind == ErrorKind::Misconfigured && told.contains("tokens of this name are used up"), "{told}");
    assert_eq!(setup.owner(), None);
}

#[tokio::test]
async fn foreign_data_in_the_place_of_the_queue_is_named_and_stops_no_release() {
    let setup = setup(1).await;
    let wrong = keys("job").queue;
    setup.server.del(&wrong);
    setup.server.set(&wrong, "x");
    let (kind, told) = attempt_fails(&setup.backend, &setup.waiters[0]).await;
    assert!(kind == ErrorKind::Misconfigured && told.contains(&wrong), "{told}");
    assert_eq!(release(&setup.backend, &setup.holder).await, Release::Released);
    assert_eq!(setup.owner(), None);
    let (kind, _) = attempt_fails(&setup.backend, &claim("job")).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
    assert_eq!(setup.owner(), None, "an error leaves no lock");
    assert_eq!(setup.server.get(&wrong).as_deref(), Some("x"));
}

#[tokio::test]
async fn forced_release_hands_over_to_the_first_waiter() {
    let setup = setup(1).await;
    let before = setup.backend.force_release(&name("job"), Some(setup.token)).await.unwrap().remove(0);
    assert_eq!((before.owner, before.token), (Some(setup.holder.owner()), Some(setup.token)));
    handed_over(&setup.backend, &setup.waiters[0]).await;
    assert!(!setup.backend.force_release(&name("job"), None).await.unwrap().is_empty());
    assert_eq!(setup.server.keys(), [keys("job").token]);
}

#[tokio::test]
async fn hand_over_costs_the_same_with_any_number_of_waiters() {
    let mut costs = Vec::new();
    for waiting in [1, 50, 500] {
        let setup = setup(waiting).await;
        // On a busy machine, it takes longer for the last to come than the first may be silent.
        queue(&setup.backend, &setup.waiters[0]).await;
        let processed = || -> u64 {
            let stats = setup.server.command(&["INFO", "stats"]).unwrap();
            let line = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
            line.unwrap().trim().parse().unwrap()
        };
        let before = processed();
        release(&setup.backend, &setup.holder).await;
        handed_over(&setup.backend, &setup.waiters[0]).await;
        costs.push(processed() - before);
    }
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
}

/// The reply was lost, and the holder's record was evicted since. An owner that asks once more still wants the lock.
#[tokio::test]
async fn holder_that_asks_again_without_its_record_is_served_before_the_queue() {
    let setup = setup(1).await;
    setup.server.del(&keys("job").holder);
    assert!(hold(&setup.backend, &setup.holder).await > setup.token);
    assert_eq!(setup.owner(), Some(setup.holder.owner().to_hex()));
    assert_eq!(setup.server.queue("job"), setup.owners());
    release(&setup.backend, &setup.holder).await;
    handed_over(&setup.backend, &setup.waiters[0]).await;
}

/// Else a program that knows the lock key alone could take it beside a reader.
#[tokio::test]
async fn lock_key_handed_over_to_readers_lasts_as_long_as_the_longest_lease() {
    let setup = setup(0).await;
    for seconds in [50, 5, 5] {
        let reader = claim_for("job", Duration::from_secs(seconds)).with_waiting(true);
        queue(&setup.backend, &reader.with_mode(LockMode::Shared)).await;
    }
    assert_eq!(release(&setup.backend, &setup.holder).await, Release::Released);
    assert_eq!(setup.owner().as_deref(), Some("shared"));
    assert!(setup.server.pttl(&keys("job").lock) > 40_000);
}
