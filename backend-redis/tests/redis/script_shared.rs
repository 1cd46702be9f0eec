//! Shared locks, branch by branch.

use crate::kit::{
    HOLDER, Look, TTL, again_for, attempt_fails, backend, busy, claim, claim_for, handed_over, hold, keys,
    name, queue, release, renew, server, until, waiter,
};
use leasehold_core::{
    Attempt, Claim, ErrorKind, FencingToken, LockAdmin, LockBackend, LockMode, LossCause, Release, Renewal,
    Result,
};
use leasehold_test_stores::servers::RedisServer;
use std::time::Duration;

const GONE: Renewal = Renewal::Lost(LossCause::Gone);

fn reader(lock: &str) -> Claim {
    claim(lock).with_mode(LockMode::Shared)
}

fn waiting_reader(lock: &str) -> Claim {
    waiter(lock).with_mode(LockMode::Shared)
}

fn shared(lock: &str) -> String {
    format!("{{leasehold:{lock}}}:shared")
}

fn readers(server: &RedisServer, lock: &str) -> String {
    server.command(&["ZCARD", &shared(lock)]).unwrap()
}

#[tokio::test]
async fn readers_hold_together_with_a_token_each_and_the_lock_key_says_so() {
    let server = server();
    let backend = backend(&server.url());
    let (first, second) = (reader("job"), reader("job"));
    let token = hold(&backend, &first).await;
    assert!(hold(&backend, &second).await > token);
    let keys = keys("job");
    assert_eq!(server.get(&keys.lock).as_deref(), Some("shared"), "other programs find it taken");
    assert_eq!(server.get(&keys.holder), None);
    assert_eq!(readers(&server, "job"), ":2");
    for exclusive in [claim("job"), claim("job").with_mode(LockMode::Write)] {
        let ends_in = busy(&backend, &exclusive).await.unwrap();
        assert!(ends_in > Duration::from_secs(50) && ends_in <= TTL, "{ends_in:?}");
    }
    assert_eq!(release(&backend, &first).await, Release::Released);
    assert!(busy(&backend, &claim("job")).await.is_some(), "the second reads on");
    assert_eq!(release(&backend, &second).await, Release::Released);
    assert_eq!(server.keys(), [keys.token], "nothing is left");
}

#[tokio::test]
async fn reader_that_asks_again_gets_the_same_token_and_no_shorter_lease() {
    let server = server();
    let backend = backend(&server.url());
    let first = reader("job");
    let token = hold(&backend, &first).await;
    let shorter = again_for(&first, Duration::from_secs(1)).with_mode(LockMode::Shared);
    assert_eq!(hold(&backend, &shorter).await, token);
    assert!(server.pttl(&keys("job").lock) > 50_000);
    let longer = again_for(&first, TTL * 2).with_mode(LockMode::Shared);
    assert_eq!(hold(&backend, &longer).await, token);
    assert!(server.pttl(&keys("job").lock) > 110_000 && server.pttl(&shared("job")) > 110_000);
}

#[tokio::test]
async fn lock_key_lasts_as_long_as_the_last_reader() {
    let server = server();
    let backend = backend(&server.url());
    let (long, short) = (
        claim_for("job", TTL * 3).with_mode(LockMode::Shared),
        claim_for("job", TTL).with_mode(LockMode::Shared),
    );
    hold(&backend, &long).await;
    hold(&backend, &short).await;
    assert!(server.pttl(&keys("job").lock) > 170_000);
    release(&backend, &long).await;
    let left = server.pttl(&keys("job").lock);
    assert!((50_000..=60_001).contains(&left), "{left}: what the released reader had is no other's");
}

#[tokio::test]
async fn renewal_extends_one_reader_and_brings_no_ended_one_back() {
    let server = server();
    let backend = backend(&server.url());
    let (holds, ended) =
        (reader("job"), claim_for("job", Duration::from_millis(50)).with_mode(LockMode::Shared));
    hold(&backend, &holds).await;
    hold(&backend, &ended).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    let longer = again_for(&holds, TTL * 2).with_mode(LockMode::Shared);
    let exclusive = claim("other");
    hold(&backend, &exclusive).await;
    let renewals = backend.renew(&[longer, ended.clone(), exclusive]).await;
    let renewals: Vec<Renewal> = renewals.into_iter().map(Result::unwrap).collect();
    assert_eq!(renewals, [Renewal::Renewed, GONE, Renewal::Renewed], "of both modes, each with its answer");
    assert!(server.pttl(&keys("job").lock) > 110_000);
    assert_eq!(release(&backend, &ended).await, Release::NotHeld);
    assert_eq!(readers(&server, "job"), ":1");
}

#[tokio::test]
async fn new_reader_waits_behind_a_writer_and_readers_in_a_row_are_let_in_together() {
    let server = server();
    let backend = backend(&server.url());
    let (first, writer) = (reader("job"), waiter("job"));
    let behind = [waiting_reader("job"), waiting_reader("job")];
    let last = waiter("job");
    hold(&backend, &first).await;
    queue(&backend, &writer).await;
    busy(&backend, &reader("job")).await;
    for reader in &behind {
        queue(&backend, reader).await;
    }
    queue(&backend, &last).await;
    release(&backend, &first).await;
    let token = handed_over(&backend, &writer).await;
    assert_eq!(server.get(&keys("job").lock), Some(writer.owner().to_hex()));
    release(&backend, &writer).await;
    let mut tokens = Vec::new();
    for reader in &behind {
        tokens.push(handed_over(&backend, reader).await);
    }
    assert!(token < tokens[0] && tokens[0] < tokens[1]);
    assert_eq!(server.queue("job"), [last.owner().to_hex()]);
    for reader in &behind {
        release(&backend, reader).await;
    }
    assert!(handed_over(&backend, &last).await > tokens[1]);
}

#[tokio::test]
async fn readers_behind_a_writer_that_leaves_are_let_in_at_once() {
    let server = server();
    let backend = backend(&server.url());
    let (first, writer, second) = (reader("job"), waiter("job"), waiting_reader("job"));
    hold(&backend, &first).await;
    queue(&backend, &writer).await;
    queue(&backend, &second).await;
    assert_eq!(release(&backend, &writer).await, Release::NotHeld);
    handed_over(&backend, &second).await;
    assert_eq!(readers(&server, "job"), ":2");
}

#[tokio::test]
async fn readers_whose_lock_key_vanished_keep_writers_out() {
    let server = server();
    let backend = backend(&server.url());
    let first = reader("job");
    hold(&backend, &first).await;
    server.del(&keys("job").lock);
    let ends_in = busy(&backend, &claim("job")).await.unwrap();
    assert!(ends_in > Duration::from_secs(50), "{ends_in:?}");
    assert_eq!(renew(&backend, &first).await.unwrap(), GONE);
    release(&backend, &first).await;
    hold(&backend, &claim("job")).await;
}

#[tokio::test]
async fn lingering_release_of_a_reader_keeps_writers_out_without_an_owner() {
    let server = server();
    let backend = backend(&server.url());
    let first = reader("job");
    let token = hold(&backend, &first).await;
    let linger = Duration::from_secs(20);
    assert_eq!(backend.release(&first, linger).await.unwrap(), Release::Released);
    assert!(busy(&backend, &claim("job")).await.unwrap() <= linger + Duration::from_millis(1));
    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert!(status.is_released() && status.token == Some(token), "{status:?}");
    assert_eq!(release(&backend, &first).await, Release::NotHeld);
    hold(&backend, &reader("job")).await;
}

#[tokio::test]
async fn every_reader_is_shown_and_ended_by_its_token() {
    let server = server();
    let backend = backend(&server.url());
    let (first, second) = (reader("job"), reader("job"));
    let tokens = [hold(&backend, &first).await, hold(&backend, &second).await];
    let holds = backend.inspect(&name("job")).await.unwrap();
    assert_eq!(holds.len(), 2);
    assert!(
        holds.iter().all(|hold| hold.mode == LockMode::Shared && hold.holder == crate::kit::holder_info())
    );
    assert_eq!(backend.list("").await.unwrap().len(), 2);
    let ended = backend.force_release(&name("job"), Some(tokens[0])).await.unwrap();
    assert_eq!((ended.len(), ended[0].owner), (1, Some(first.owner())));
    assert_eq!(renew(&backend, &first).await.unwrap(), GONE);
    assert_eq!(renew(&backend, &second).await.unwrap(), Renewal::Renewed);
    assert_eq!(backend.force_release(&name("job"), None).await.unwrap().len(), 1);
    assert_eq!(server.keys(), [keys("job").token]);
}

#[tokio::test]
async fn foreign_data_in_the_place_of_the_readers_is_named() {
    let server = server();
    let backend = backend(&server.url());
    server.set(&shared("job"), HOLDER);
    let (kind, told) = attempt_fails(&backend, &reader("job")).await;
    assert!(kind == ErrorKind::Misconfigured && told.contains(&shared("job")), "{told}");
    assert_eq!(server.get(&keys("job").lock), None);
}

#[tokio::test]
async fn value_shared_of_another_program_is_no_readers_hold() {
    let server = server();
    let backend = backend(&server.url());
    server.set(&keys("job").lock, "shared");
    for claim in [reader("job"), claim("job"), waiter("job")] {
        assert!(matches!(backend.try_acquire(&claim).await, Ok(Attempt::Busy(_))), "{claim:?}");
        assert_eq!(release(&backend, &claim).await, Release::NotHeld);
    }
    assert_eq!(server.get(&keys("job").lock).as_deref(), Some("shared"));
}

#[tokio::test]
async fn lock_key_stays_with_more_waiting_readers_than_one_release_serves() {
    let server = server();
    let backend = backend(&server.url());
    let writer = claim("job");
    hold(&backend, &writer).await;
    let waiting: Vec<Claim> = (0..300).map(|_| waiting_reader("job")).collect();
    for reader in &waiting {
        queue(&backend, reader).await;
    }
    // On a busy machine, it takes longer for the last to come than the first may be silent.
    queue(&backend, &waiting[0]).await;
    release(&backend, &writer).await;
    handed_over(&backend, &waiting[0]).await;
    assert_eq!(server.get(&keys("job").lock).as_deref(), Some("shared"));
    assert_eq!(renew(&backend, &waiting[0]).await.unwrap(), Renewal::Renewed);
}

#[tokio::test]
async fn readers_whose_ends_vanished_keep_writers_out() {
    let server = server();
    let backend = backend(&server.url());
    let (first, writer) = (reader("job"), waiter("job"));
    hold(&backend, &first).await;
    server.del(&shared("job"));
    let ends_in = busy(&backend, &claim("job")).await.unwrap();
    assert!(ends_in > Duration::from_secs(50), "{ends_in:?}");
    queue(&backend, &writer).await;
    assert_eq!(release(&backend, &writer).await, Release::NotHeld);
    assert_eq!(server.get(&keys("job").lock).as_deref(), Some("shared"), "it is no hold of the writer's");
    assert_eq!(renew(&backend, &first).await.unwrap(), GONE);
    assert_eq!(backend.force_release(&name("job"), None).await.unwrap().len(), 1);
    hold(&backend, &claim("job")).await;
}

#[tokio::test]
async fn lingering_release_of_a_reader_whose_record_vanished_keeps_writers_out() {
    let server = server();
    let backend = backend(&server.url());
    let first = reader("job");
    hold(&backend, &first).await;
    server.del(&keys("job").waiters);
    backend.release(&first, Duration::from_secs(20)).await.unwrap();
    assert!(busy(&backend, &claim("job")).await.is_some());
}

#[tokio::test]
async fn lingering_release_of_a_reader_keeps_writers_out_although_memory_is_full() {
    let server = server();
    let backend = backend(&server.url());
    let first = reader("job");
    hold(&backend, &first).await;
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap(), "+OK");
    backend.release(&first, Duration::from_secs(20)).await.unwrap();
    let left = server.pttl(&keys("job").lock);
    assert!((10_000..=20_001).contains(&left), "{left}");
}

#[tokio::test]
async fn entry_of_an_ended_reader_does_not_outlive_the_holds_of_the_name() {
    let server = server();
    let backend = backend(&server.url());
    let (first, writer) = (reader("job"), waiter("job"));
    hold(&backend, &first).await;
    queue(&backend, &writer).await;
    backend.release(&first, Duration::from_millis(20)).await.unwrap();
    until(|| server.get(&keys("job").lock).is_none() && readers(&server, "job") == ":0").await;
    hold(&backend, &writer).await;
    release(&backend, &writer).await;
    assert_eq!(server.keys(), [keys("job").token], "nothing is left");
}

#[tokio::test]
async fn reader_with_the_last_token_gets_no_error_of_the_next_in_the_queue() {
    let server = server();
    let backend = backend(&server.url());
    let writer = claim("job");
    hold(&backend, &writer).await;
    let waiting = [waiting_reader("job"), waiting_reader("job")];
    for reader in &waiting {
        queue(&backend, reader).await;
    }
    server.set(&keys("job").token, &(FencingToken::MAX_COUNTED - 1).to_string());
    server.command(&["DEL", &keys("job").lock, &keys("job").holder]).unwrap();
    assert_eq!(hold(&backend, &waiting[0]).await.get(), FencingToken::MAX_COUNTED);
    assert_eq!(server.get(&keys("job").lock).as_deref(), Some("shared"));
}

#[tokio::test]
async fn forced_release_of_a_reader_leaves_the_lock_that_another_program_took() {
    let server = server();
    let backend = backend(&server.url());
    let first = reader("job");
    let token = hold(&backend, &first).await;
    server.set(&keys("job").lock, "theirs");
    assert_eq!(backend.force_release(&name("job"), Some(token)).await.unwrap().len(), 1);
    assert_eq!(server.get(&keys("job").lock).as_deref(), Some("theirs"));
}

/// As redis-py and every other program that uses `SET key value NX PX`.
#[tokio::test]
async fn readers_and_the_lock_of_another_program_exclude_each_other() {
    let server = server();
    let backend = backend(&server.url());
    let lock = keys("job").lock;
    let set = || server.command(&["SET", &lock, "theirs", "NX", "PX", "60000"]).unwrap();
    let first = reader("job");
    hold(&backend, &first).await;
    assert_eq!(set(), "$-1", "readers hold");
    release(&backend, &first).await;
    assert_eq!(set(), "+OK");
    assert!(busy(&backend, &reader("job")).await.is_some());
    assert_eq!(renew(&backend, &first).await.unwrap(), Renewal::Lost(LossCause::Taken));
    server.del(&lock);
    hold(&backend, &reader("job")).await;
}

#[tokio::test]
async fn waiter_from_before_the_clock_went_back_keeps_no_reader_out() {
    let server = server();
    let backend = backend(&server.url());
    let (first, writer) = (reader("job"), waiter("job"));
    hold(&backend, &first).await;
    queue(&backend, &writer).await;
    let long_ahead = "9000000000000000 30000 - exclusive {}";
    server.command(&["HSET", &keys("job").waiters, &writer.owner().to_hex(), long_ahead]).unwrap();
    hold(&backend, &reader("job")).await;
}
