//! The user with the fewest rights: all works under it, and what is missing is named.

use crate::kit::{
    Look, TTL, again_for, attempt_fails, backend, busy, claim, claim_for, hold, keys, name, release, renew,
    server, told, waiter,
};
use leasehold_core::{
    DistributedLock, DistributedLockExt, ErrorKind, LockAdmin, LockBackend, LockClient, Release, Renewal,
    Severity,
};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisServer;
use std::sync::Arc;
use std::time::Duration;

/// The line that the documentation of the crate gives to administrators.
const LINE: &str = "ACL SETUSER locker on >PASSWORD resetkeys ~leasehold:* ~{leasehold:* resetchannels &leasehold:* -@all \
                    +eval +evalsha +set +get +exists +del +pexpire +pttl +time +ping +scan +type \
                    +zadd +zscore +zrange +zrem +hset +hget +hdel +publish +subscribe";

fn login(server: &RedisServer) -> String {
    format!("redis://locker:PASSWORD@127.0.0.1:{}", server.port())
}

/// A server that has been given these lines.
fn server_with(lines: &[&str]) -> RedisServer {
    let server = server();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(server.command(&words).unwrap(), "+OK", "{line}");
    }
    server
}

pub(crate) fn restricted_without(command: &str) -> (RedisServer, Arc<RedisBackend>) {
    let without = format!("ACL SETUSER locker -{command}");
    let server = server_with(&[LINE, &without]);
    let backend = backend(&login(&server));
    (server, backend)
}

#[test]
fn documented_acl_line_is_the_tested_one() {
    let documentation = include_str!("../../../docs/redis.md").replace("\\\n", "");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&documentation).contains(&words(LINE)));
}

/// What a check finds of rights: how bad, and what to do about it.
async fn lacks(backend: &RedisBackend) -> Vec<(Severity, &'static str, String)> {
    let findings = backend.check().await.unwrap();
    let of_rights =
        findings.into_iter().filter(|found| ["E_DENIED", "W_DENIED", "W_UNHEARD"].contains(&found.code));
    of_rights.map(|found| (found.severity, found.code, found.help)).collect()
}

#[tokio::test]
async fn check_names_each_missing_command_and_changes_nothing() {
    let commands: Vec<&str> = LINE.split_whitespace().filter_map(|word| word.strip_prefix('+')).collect();
    assert_eq!(commands.len(), 21);
    for command in commands {
        let (server, backend) = restricted_without(command);
        let expected = match command {
            "publish" | "subscribe" => (Severity::Warning, "W_UNHEARD"),
            "scan" | "type" | "ping" => (Severity::Warning, "W_DENIED"),
            _ => (Severity::Error, "E_DENIED"),
        };
        let lacks = lacks(&backend).await;
        assert!(
            matches!(&*lacks, [(severity, code, help)] if (*severity, *code) == expected
            && help.contains(&format!("+{command}"))),
            "{command}: {lacks:?}"
        );
        assert!(server.keys().is_empty(), "{command}");
    }
    let server = server_with(&[LINE]);
    assert_eq!(lacks(&backend(&login(&server))).await, []);
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn check_names_missing_keys_and_channels() {
    for keys in ["~leasehold:*", "~{leasehold:*"] {
        let server = server_with(&[LINE, &format!("ACL SETUSER locker resetkeys {keys}")]);
        let lacks = lacks(&backend(&login(&server))).await;
        assert!(lacks.len() <= 2 && lacks[0].1 == "E_DENIED", "{lacks:?}");
        assert!(lacks.iter().all(|lack| lack.2.contains("~leasehold:* ~{leasehold:*")), "{lacks:?}");
    }
    let server = server_with(&[LINE, "ACL SETUSER locker resetchannels"]);
    let lacks = lacks(&backend(&login(&server))).await;
    assert_eq!(lacks.len(), 1, "to tell, and to hear: {lacks:?}");
    assert!(lacks.iter().all(|lack| lack.1 == "W_UNHEARD" && lack.2.contains("&leasehold:*")), "{lacks:?}");
}

/// All that a user can do with a lock and two waiters; returns the reasons of the refusals.
async fn work_through(backend: &RedisBackend) -> Vec<String> {
    let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
    let mut refused = Vec::new();
    let mut note = |error: Option<leasehold_core::Error>| refused.extend(error.map(|error| told(&error)));
    note(backend.try_acquire(&holder).await.err());
    note(renew(backend, &holder).await.err());
    note(backend.try_acquire(&first).await.err());
    note(backend.try_acquire(&second).await.err());
    note(backend.try_acquire(&first).await.err());
    note(backend.waiters(holder.name()).await.err());
    note(backend.inspect(holder.name()).await.err());
    note(backend.release(&second, Duration::ZERO).await.err());
    note(backend.release(&holder, Duration::ZERO).await.err());
    note(backend.try_acquire(&first).await.err());
    note(backend.force_release(holder.name(), None).await.err());
    let alone = claim("alone");
    note(backend.try_acquire(&alone).await.err());
    note(backend.release(&alone, Duration::ZERO).await.err());
    note(backend.list("").await.err());
    note(backend.init().await.err());
    refused
}

#[tokio::test]
async fn missing_command_is_named_by_a_call_that_needs_it() {
    let commands = LINE.split_whitespace().filter_map(|word| word.strip_prefix('+'));
    // What is told or looked at beside the work is done without: see the check, and the tests of waiting and of types.
    for command in commands.filter(|command| !["publish", "subscribe", "type"].contains(command)) {
        let (_server, backend) = restricted_without(command);
        let refused = work_through(&backend).await;
        let expected = format!(
            "this user may not run {}; grant it with ACL SETUSER: +{command}",
            command.to_uppercase()
        );
        assert!(refused.iter().any(|told| told.ends_with(&expected)), "{command}: {refused:?}");
    }
    let server = server_with(&[LINE]);
    assert_eq!(work_through(&backend(&login(&server))).await, [""; 0]);
}

#[tokio::test]
async fn documented_rights_suffice_for_every_call() {
    let server = server_with(&[LINE]);
    let backend = backend(&login(&server));
    backend.init().await.unwrap();
    let first = claim("job/{x} y");
    let token = hold(&backend, &first).await;
    assert_eq!(hold(&backend, &first).await, token);
    assert!(busy(&backend, &claim("job/{x} y")).await.is_some());
    assert_eq!(renew(&backend, &again_for(&first, TTL * 2)).await.unwrap(), Renewal::Renewed);
    assert_eq!(backend.inspect(first.name()).await.unwrap().remove(0).token, Some(token));
    assert_eq!(backend.list("job/").await.unwrap().len(), 1);
    assert!(!backend.force_release(first.name(), Some(token)).await.unwrap().is_empty());
    assert_eq!(release(&backend, &first).await, Release::NotHeld);

    let lingering = claim("linger");
    hold(&backend, &lingering).await;
    assert_eq!(backend.release(&lingering, TTL).await.unwrap(), Release::Released);
    let tokens_behind = claim("clock");
    server.set(&keys("clock").token, "9000000000000000");
    assert_eq!(hold(&backend, &tokens_behind).await.get(), 9_000_000_000_000_001);
    server.del(&keys("clock").lock);
    assert!(busy(&backend, &claim("clock")).await.is_some());
    server.command(&["HSET", "leasehold:hash", "field", "1"]).unwrap();
    assert!(attempt_fails(&backend, &claim("hash")).await.1.contains("holds a hash"));
    server.command(&["SCRIPT", "FLUSH"]).unwrap();

    let locks = LockClient::new(backend);
    let guard = locks.acquire("through the client").await.unwrap();
    guard.extend(TTL).await.unwrap();
    guard.release().await.unwrap();
    locks.close().await.unwrap();
}

#[tokio::test]
async fn check_without_rights_names_the_settings_that_it_cannot_see() {
    let server = server_with(&[LINE]);
    let findings = backend(&login(&server)).check().await.unwrap();
    let unseen = findings.iter().find(|finding| finding.code == "I_NOT_SEEN").unwrap();
    assert_eq!(unseen.severity, Severity::Info);
    assert!(
        unseen.message.contains("cannot see the settings of the server")
            && unseen.message.contains("CONFIG GET"),
        "{unseen:?}"
    );
    assert_eq!(unseen.help, "grant it with ACL SETUSER: +config|get");
    assert!(findings.iter().any(|finding| finding.code == "I_SERVER"));
}

#[tokio::test]
async fn acquisition_names_the_missing_right_and_leaves_nothing() {
    for command in ["evalsha", "eval", "set", "time", "exists"] {
        let (server, backend) = restricted_without(command);
        let (kind, told) = attempt_fails(&backend, &claim("job")).await;
        assert_eq!(kind, ErrorKind::Denied, "{command}: {told}");
        let expected = format!(
            "this user may not run {}; grant it with ACL SETUSER: +{command}",
            command.to_uppercase()
        );
        assert!(told.ends_with(&expected), "{command}: {told}");
        assert!(server.keys().is_empty(), "{command}: {:?}", server.keys());
    }
    let (_server, backend) = restricted_without("pttl");
    hold(&backend, &claim("job")).await;
    let (kind, told) = attempt_fails(&backend, &claim("job")).await;
    assert!(kind == ErrorKind::Denied && told.contains("may not run PTTL"), "{told}");
}

#[tokio::test]
async fn renewal_names_the_missing_right_and_is_no_loss() {
    for command in ["get", "pexpire"] {
        let (_server, backend) = restricted_without(command);
        let claim = claim("job");
        hold(&backend, &claim).await;
        let error = renew(&backend, &claim).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains(&format!("may not run {}", command.to_uppercase())), "{error}");
    }
}

#[tokio::test]
async fn release_names_the_missing_right() {
    let (server, backend) = restricted_without("del");
    let claim = claim("job");
    hold(&backend, &claim).await;
    let error = backend.release(&claim, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("may not run DEL"), "{error}");
    assert_eq!(server.get(&keys("job").lock), Some(claim.owner().to_hex()));
}

#[tokio::test]
async fn administration_names_the_missing_right() {
    let (_server, backend) = restricted_without("scan");
    let error = backend.list("").await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("may not run SCAN"), "{error}");
    let (_server, backend) = restricted_without("ping");
    let error = backend.init().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("may not run PING"), "{error}");
    let (_server, backend) = restricted_without("pttl");
    hold(&backend, &claim_for("job", TTL)).await;
    let error = backend.inspect(&name("job")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("may not run PTTL"), "{error}");
}

#[tokio::test]
async fn foreign_data_is_named_without_the_right_to_run_type() {
    let (server, backend) = restricted_without("type");
    server.command(&["HSET", "leasehold:job", "field", "1"]).unwrap();
    let (kind, told) = attempt_fails(&backend, &claim("job")).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
    assert!(told.contains("the key \"leasehold:job\" or one beside it holds no lock"), "{told}");
}

#[tokio::test]
async fn keys_outside_the_granted_ones_are_denied_before_anything_is_done() {
    let server = server_with(&[LINE]);
    let backend = crate::kit::with_prefix(&login(&server), "elsewhere:").unwrap();
    let (kind, told) = attempt_fails(&backend, &claim("job")).await;
    assert_eq!(kind, ErrorKind::Denied);
    assert!(told.contains("this user may not use the keys of this lock"), "{told}");

    // Half of the keys granted: found out before the first of them is written.
    let server = server_with(&[LINE, "ACL SETUSER locker resetkeys ~leasehold:*"]);
    let backend = crate::kit::backend(&login(&server));
    assert_eq!(attempt_fails(&backend, &claim("job")).await.0, ErrorKind::Denied);
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn database_without_the_right_to_select_it_is_denied() {
    let server = server_with(&[LINE]);
    let backend = backend(&format!("{}/1", login(&server)));
    let error = backend.init().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(
        told(&error).contains("may not run SELECT; grant it with ACL SETUSER: +select"),
        "{}",
        told(&error)
    );
}

/// Otherwise each attempt of an owner without the rights would leave a place that is never taken.
#[tokio::test]
async fn waiter_without_the_rights_leaves_no_place_in_the_queue() {
    for command in ["hset", "zadd", "zrange", "pexpire"] {
        let (server, backend) = restricted_without(command);
        let holder = claim("job");
        let token = hold(&backend, &holder).await;
        let (kind, told) = attempt_fails(&backend, &waiter("job")).await;
        assert_eq!(kind, ErrorKind::Denied, "{command}: {told}");
        assert!(told.ends_with(&format!("grant it with ACL SETUSER: +{command}")), "{told}");
        let keys = keys("job");
        assert_eq!(server.get(&keys.token), Some(token.to_string()), "{command}");
        assert_eq!(server.keys(), [keys.lock, keys.holder, keys.token], "{command}");
    }
}
