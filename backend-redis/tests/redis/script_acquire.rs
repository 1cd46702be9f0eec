//! `acquire.lua`, branch by branch.

use crate::batch::among_others;
use crate::kit::{
    HOLDER, LockKeys, Look, MICROS_OF_AN_HOUR, TTL, again_for, attempt_fails, backend, busy, claim,
    claim_for, hold, keys, micros_within_an_hour, name, release, server, told,
};
use leasehold_core::{Attempt, ErrorKind, FencingToken, LockAdmin, Result};
use std::time::{Duration, SystemTime};

fn micros_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

#[tokio::test]
async fn free_name_is_granted_in_the_common_layout_with_record_and_token() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    let before = micros_now();
    let token = hold(&backend, &claim).await;

    let keys = keys("job");
    assert!((before..=micros_now()).contains(&token.get()), "{token} is the server's clock");
    assert_eq!(server.get(&keys.lock), Some(claim.owner().to_hex()));
    assert_eq!(server.get(&keys.token), Some(token.to_string()));
    let record = server.get(&keys.holder).unwrap();
    assert_eq!(record, format!("{} {token} {token} {HOLDER}", claim.owner().to_hex()));
    let (lock, last) = (server.pttl(&keys.lock), server.pttl(&keys.token));
    assert!((50_000..=60_000).contains(&lock), "{lock}");
    assert!(server.end_together(&keys.lock, &keys.holder));
    assert!((89_990_000..=90_000_000).contains(&last), "{last}");
}

#[tokio::test]
async fn token_has_all_its_digits_at_the_beginning_of_a_second_too() {
    let server = server();
    let backend = backend(&server.url());
    // The clock tells its microseconds without leading zeros.
    let beginning = loop {
        let now = micros_now();
        if (1_000..90_000).contains(&(now % 1_000_000)) {
            break now;
        }
        tokio::task::yield_now().await;
    };
    let token = hold(&backend, &claim("job")).await.get();
    assert!((beginning..=micros_now()).contains(&token), "{beginning} {token}");
}

#[tokio::test]
async fn free_name_costs_five_commands_and_one_more_once_an_hour() {
    let server = server();
    let backend = backend(&server.url());
    hold(&backend, &claim("warm")).await;
    let of_this_hour = micros_within_an_hour().await;
    for (last, expected) in [
        (of_this_hour, [3, 1, 1, 0, 0, 0, 0]),
        (of_this_hour - MICROS_OF_AN_HOUR, [4, 1, 1, 0, 0, 0, 0]),
        (0, [4, 1, 1, 0, 0, 0, 0]),
    ] {
        let name = format!("job/{last}");
        if last > 0 {
            server.set(&keys(&name).token, &last.to_string());
        }
        let calls = || {
            ["set", "time", "exists", "pexpire", "get", "pttl", "del"].map(|command| server.calls(command))
        };
        let before = calls();
        hold(&backend, &claim(&name)).await;
        let mut spent = calls();
        spent.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
        assert_eq!(spent, expected, "{last}");
    }
}

#[tokio::test]
async fn last_token_is_kept_for_a_day_at_least_and_its_end_set_once_an_hour() {
    let server = server();
    let backend = backend(&server.url());
    let (of_this_hour, token) = (micros_within_an_hour().await, keys("job").token);
    for (last, end, kept) in [
        (of_this_hour, "88000000", 87_000_000..=88_000_000),
        (of_this_hour - MICROS_OF_AN_HOUR, "5000", 89_000_000..=90_000_000),
    ] {
        for alone in [true, false] {
            server.set(&token, &last.to_string());
            server.command(&["PEXPIRE", &token, end]).unwrap();
            let claim = claim("job");
            if alone {
                hold(&backend, &claim).await;
            } else {
                assert!(matches!(among_others(&backend, &claim).await, Ok(Attempt::Granted(_))));
            }
            let ends_in = server.pttl(&token);
            assert!(kept.contains(&ends_in), "{last} alone: {alone}, {ends_in}");
            release(&backend, &claim).await;
        }
    }
}

#[tokio::test]
async fn held_name_is_busy_until_its_lease_ends_and_is_not_changed() {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    let token = hold(&backend, &holder).await;
    let ends_in = busy(&backend, &claim_for("job", TTL * 10)).await.unwrap();

    assert!(ends_in > Duration::from_secs(59) && ends_in <= TTL, "{ends_in:?}");
    let keys = keys("job");
    assert_eq!(server.get(&keys.lock), Some(holder.owner().to_hex()));
    assert_eq!(server.get(&keys.token), Some(token.to_string()));
    assert!(server.pttl(&keys.lock) <= 60_000);
}

#[tokio::test]
async fn holder_that_asks_again_gets_the_same_token_and_no_shorter_lease() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    let token = hold(&backend, &claim).await;
    let keys = keys("job");

    assert_eq!(hold(&backend, &again_for(&claim, Duration::from_secs(1))).await, token);
    assert!(server.pttl(&keys.lock) > 50_000, "a shorter lease shortens nothing");
    assert_eq!(hold(&backend, &again_for(&claim, TTL * 2)).await, token);
    assert!(server.pttl(&keys.lock) > 110_000 && server.pttl(&keys.holder) > 110_000);
}

#[tokio::test]
async fn holder_with_an_evicted_record_gets_a_new_token_and_record() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    let token = hold(&backend, &claim).await;
    server.del(&keys("job").holder);

    let later = hold(&backend, &claim).await;
    assert!(later > token);
    assert!(server.get(&keys("job").holder).unwrap().contains(&later.to_string()));
}

#[tokio::test]
async fn holder_with_a_vanished_key_is_granted_again() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    let token = hold(&backend, &claim).await;
    server.del(&keys("job").lock);

    let later = hold(&backend, &claim).await;
    assert!(later > token);
    assert_eq!(server.get(&keys("job").lock), Some(claim.owner().to_hex()));
}

#[tokio::test]
async fn tokens_grow_when_the_servers_clock_goes_back() {
    let server = server();
    let backend = backend(&server.url());
    // What a grant leaves behind that was made before the clock was set back, by ten days.
    let ahead = micros_now() + 10 * 86_400_000_000;
    server.set(&keys("job").token, &ahead.to_string());

    assert_eq!(hold(&backend, &claim("job")).await, FencingToken::new(ahead + 1));
    assert_eq!(server.get(&keys("job").token), Some((ahead + 1).to_string()));
    // Forgotten when the clock is past it, and not before.
    let days = server.pttl(&keys("job").token) as f64 / 86_400_000.0;
    assert!((10.9..=11.05).contains(&days), "{days}");
}

#[tokio::test]
async fn tokens_are_exact_up_to_the_largest_and_then_refused() {
    let server = server();
    let backend = backend(&server.url());
    let last = FencingToken::MAX_COUNTED - 1;
    server.set(&keys("job").token, &last.to_string());

    let claim = claim("job");
    assert_eq!(hold(&backend, &claim).await.get(), FencingToken::MAX_COUNTED);
    release(&backend, &claim).await;

    let (kind, told) = attempt_fails(&backend, &claim).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
    assert!(told.contains("the fencing tokens of this name are used up"), "{told}");
    assert_eq!(server.get(&keys("job").lock), None, "a refused grant leaves no lock");
    assert_eq!(server.get(&keys("job").token), Some(FencingToken::MAX_COUNTED.to_string()));

    for nonsense in ["1e300", "inf", "99999999999999999999999"] {
        server.set(&keys("job").token, nonsense);
        assert_eq!(attempt_fails(&backend, &claim).await.0, ErrorKind::Misconfigured);
        assert_eq!(server.get(&keys("job").lock), None, "{nonsense}");
    }
    server.set(&keys("job").token, "no number");
    hold(&backend, &claim).await;
}

#[tokio::test]
async fn tokens_outlive_the_loss_of_all_data() {
    let server = server();
    let backend = backend(&server.url());
    let token = hold(&backend, &claim("job")).await;
    server.command(&["FLUSHALL"]).unwrap();
    assert!(hold(&backend, &claim("job")).await > token);
}

#[tokio::test]
async fn foreign_data_under_the_lock_is_named_and_left_alone() {
    let server = server();
    let backend = backend(&server.url());
    server.command(&["HSET", "leasehold:job", "0a1b:1", "1"]).unwrap();
    let (kind, told) = attempt_fails(&backend, &claim("job")).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
    assert!(
        told.contains("the key \"leasehold:job\" holds a hash, not a lock: Redisson owns this name"),
        "{told}"
    );

    server.command(&["RPUSH", "leasehold:list", "x"]).unwrap();
    let (_, told) = attempt_fails(&backend, &claim("list")).await;
    assert!(told.contains("the key \"leasehold:list\" holds a list, not a lock"), "{told}");
    assert_eq!(server.keys(), ["leasehold:job", "leasehold:list"]);
}

#[tokio::test]
async fn foreign_data_beside_the_lock_is_named_and_no_lock_is_left() {
    let server = server();
    let backend = backend(&server.url());
    for key in [keys("job").token, keys("job").holder] {
        server.command(&["FLUSHALL"]).unwrap();
        server.command(&["RPUSH", &key, "x"]).unwrap();
        let (kind, told) = attempt_fails(&backend, &claim("job")).await;
        assert_eq!(kind, ErrorKind::Misconfigured);
        assert!(told.contains(&format!("the key {key:?} holds a list")), "{told}");
        assert_eq!(server.get(&keys("job").lock), None);
    }
}

/// Redisson keeps its lock in a hash at the lock key, and has nothing beside it.
#[tokio::test]
async fn hash_beside_the_lock_is_not_called_redissons() {
    let server = server();
    let backend = backend(&server.url());
    let key = keys("job").holder;
    server.command(&["HSET", &key, "owner", "x"]).unwrap();
    let (looked, forced) =
        (backend.inspect(&name("job")).await, backend.force_release(&name("job"), None).await);
    for error in [attempt_fails(&backend, &claim("job")).await, failed(looked), failed(forced)] {
        let (kind, told) = error;
        assert_eq!(kind, ErrorKind::Misconfigured);
        assert!(told.contains(&format!("the key {key:?} holds a hash")), "{told}");
        assert!(told.contains("look who writes it") && !told.contains("Redisson"), "{told}");
    }
}

fn failed<T: std::fmt::Debug>(answer: Result<T>) -> (ErrorKind, String) {
    let error = answer.unwrap_err();
    (error.kind(), told(&error))
}

#[tokio::test]
async fn lock_made_by_hand_without_an_end_is_busy_without_a_hint() {
    let server = server();
    let backend = backend(&server.url());
    server.set("leasehold:job", "by hand");
    assert_eq!(busy(&backend, &claim("job")).await, None);
    assert_eq!(server.pttl("leasehold:job"), -1);
}

#[tokio::test]
async fn free_name_that_two_owners_want_in_one_call_is_granted_once() {
    let server = server();
    let LockKeys { lock, holder, token, waiters: owners, .. } = keys("job");
    let names = [&lock, &lock, &holder, &holder, &owners, &owners, &token, &token].map(String::as_str);
    let script = include_str!("../../src/scripts/acquire.lua");
    let call = [["EVAL", script, "8"].as_slice(), &names, &["60000", HOLDER, "first", "second"]].concat();
    server.command(&call).unwrap();
    assert_eq!(server.get(&lock).as_deref(), Some("first"));
    assert!(server.get(&holder).unwrap().starts_with("first "));
}
