//! The primary of the moment, as Sentinels name it.

use crate::kit::{
    Changes, answered, attempt_fails, backend, claim, client, hold, name, queue, release, renew, run_id,
    told, until_replicated, waiter,
};
use leasehold_conformance::server::free_port;
use leasehold_core::{
    AcquireOptions, Attempt, DistributedLock, DistributedLockExt, ErrorKind, LockAdmin, LockBackend, Release,
    Renewal, Severity,
};
use leasehold_test_stores::servers::{RedisSentinelGroup, RedisServer};
use std::time::{Duration, Instant};

fn group() -> RedisSentinelGroup {
    RedisSentinelGroup::start().unwrap()
}

#[tokio::test]
async fn lock_is_held_renewed_waited_for_and_handed_over() {
    let group = group();
    let (backend, other) = (backend(&group.url()), backend(&group.url()));
    let (holder, next) = (claim("job"), waiter("job"));
    let first = hold(&backend, &holder).await;
    queue(&other, &next).await;
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    assert_eq!(release(&backend, &holder).await, Release::Released);
    answered(other.changed(&next)).await;
    assert!(hold(&other, &next).await > first);
    assert_eq!(other.list("").await.unwrap().len(), 1);
}

#[tokio::test]
async fn server_that_is_down_or_no_sentinel_is_named() {
    let group = group();
    let sentinel = group.sentinel_ports()[0];
    let plain = RedisServer::start().unwrap();
    let silent = free_port().unwrap();
    for (url, expected) in [
        (
            format!("redis+sentinel://127.0.0.1:{sentinel}/other"),
            "Misconfigured: Redis at the primary of \"other\": the Sentinels watch nothing of the name \"other\"; \
             look at the name in the URL, and at SENTINEL MASTERS"
                .to_owned(),
        ),
        (
            format!("redis+sentinel://127.0.0.1:{}/mm", plain.port()),
            format!(
                "Misconfigured: Redis at the primary of \"mm\": Sentinel at 127.0.0.1:{}: it is no Sentinel, but ",
                plain.port()
            ),
        ),
        (
            format!("redis+sentinel://127.0.0.1:{silent}/mm"),
            format!("Unavailable: Redis at the primary of \"mm\": Sentinel at 127.0.0.1:{silent}: it cannot be reached"),
        ),
    ] {
        let error = attempt_fails(&backend(&url), &claim("job")).await;
        assert!(told(&error).starts_with(&expected), "{}", told(&error));
    }
    // A single Sentinel that answers is enough.
    let url = format!("redis+sentinel://127.0.0.1:{silent},127.0.0.1:{sentinel}/mm");
    hold(&backend(&url), &claim("job")).await;
}

#[tokio::test]
async fn sentinels_and_servers_want_logins_of_their_own() {
    let group = group();
    let port = group.sentinel_ports()[0];
    let sentinel = |words: &[&str]| leasehold_test_stores::servers::ask_redis(port, words).unwrap();
    assert_eq!(
        sentinel(&["ACL", "SETUSER", "guard", "on", ">PW", "resetchannels", "-@all", "+sentinel|master"]),
        "+OK"
    );
    assert_eq!(sentinel(&["ACL", "SETUSER", "default", "off"]), "+OK");
    let at = |query: &str| backend(&format!("redis+sentinel://127.0.0.1:{port}/mm{query}"));
    let error = attempt_fails(&at(""), &claim("job")).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{}", told(&error));
    let error = attempt_fails(&at("?sentinel_user=guard&sentinel_password=wrong"), &claim("job")).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{}", told(&error));
    hold(&at("?sentinel_user=guard&sentinel_password=PW"), &claim("job")).await;
}

/// The old primary was stopped and replaced, and goes on: for a moment it takes itself for the primary.
#[tokio::test]
async fn replaced_primary_that_comes_back_grants_nothing_once_it_knows() {
    let group = group();
    let backend = backend(&group.url());
    hold(&backend, &claim("before")).await;
    let old = group.supplant().unwrap();
    group.server(old).resume();
    // The Sentinels tell it; then the connection that is still open to it is of no use.
    let start = Instant::now();
    // They cut every connection with it, ours too.
    while !group.server(old).command(&["ROLE"]).is_ok_and(|role| role.contains("slave")) {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    let claim = claim("after");
    let granted = loop {
        match answered(backend.try_acquire(&claim)).await {
            Ok(Attempt::Granted(grant)) => break grant,
            Ok(Attempt::Busy(busy)) => panic!("{busy:?}"),
            Err(error) => assert!(start.elapsed() < Duration::from_secs(20), "{error}"),
        }
    };
    let holder = crate::kit::get(group.server(1 - old), "leasehold:after").unwrap();
    assert_eq!(holder, claim.owner().to_hex(), "{granted:?}");
}

/// The primary was replaced while it was well: for seconds it does not know, and takes what a holder sends it.
#[tokio::test(flavor = "multi_thread")]
async fn holder_leaves_a_replaced_primary_before_that_is_told() {
    let group = group();
    let (locks, ttl) = (client(&group.url()), Duration::from_secs(6));
    let options = AcquireOptions::new().with_ttl(ttl);
    let kept = locks.acquire_with(&name("kept"), &options).await.unwrap();
    let guard = locks.acquire_with(&name("job"), &options).await.unwrap();
    until_replicated(group.server(1), "leasehold:job");
    let old = group.switch_over().unwrap();
    let start = Instant::now();
    // As if it had been granted after the replica had heard its last.
    let new = group.server(1 - old);
    assert_eq!(new.command(&["DEL", "leasehold:job", "{leasehold:job}:holder"]).unwrap(), ":2");
    hold(&backend(&new.url()), &claim("job")).await;
    answered(guard.lease().lost()).await;
    assert!(start.elapsed() < ttl / 3 + Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(group.server(old).command(&["ROLE"]).unwrap().contains("master"), "nobody has told it");
    tokio::time::sleep((start + ttl).saturating_duration_since(Instant::now())).await;
    assert!(kept.is_held());
    let on_new = new.command(&["PTTL", "leasehold:kept"]).unwrap();
    assert!(on_new != ":-2", "renewed on the new primary");
}

#[tokio::test]
async fn primary_that_was_replaced_is_told_once() {
    let group = group();
    let backend = backend(&group.url());
    let (changes, _client) = Changes::of(&backend);
    hold(&backend, &claim("before")).await;
    let old = group.switch_over().unwrap();
    let told = changes.told(&backend).await;
    let (before, now) = (run_id(group.server(old)), run_id(group.server(1 - old)));
    assert_eq!(told, [["the primary of \"mm\"".to_owned(), before, now]]);
}

/// Its word is no newer than the one that led to the primary.
#[tokio::test]
async fn cut_off_sentinel_ends_no_connection() {
    let group = group();
    let backend = backend(&group.url());
    hold(&backend, &claim("before")).await;
    let connections = || {
        let all = group.server(0).command(&["CLIENT", "LIST"]).unwrap();
        let ours = all.lines().filter(|line| line.contains("name=leasehold"));
        ours.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (before, port) = (connections(), group.server(1).port().to_string());
    assert_eq!(before.len(), 1);
    for words in [&["SENTINEL", "REMOVE", "mm"][..], &["SENTINEL", "MONITOR", "mm", "127.0.0.1", &port, "2"]]
    {
        let told = leasehold_test_stores::servers::ask_redis(group.sentinel_ports()[0], words);
        assert_eq!(told.unwrap(), "+OK");
    }
    tokio::time::sleep(Duration::from_millis(2500)).await;
    hold(&backend, &claim("after")).await;
    assert_eq!(connections(), before);
}

/// Sentinels that have not heard yet name a server that is none: it is asked for its role before it is believed.
#[tokio::test]
async fn replica_that_a_sentinel_names_is_not_believed() {
    let group = group();
    let (url, primary) = (group.url(), group.primary().unwrap());
    let replica = group.server(1 - primary).port();
    let follow = ["REPLICAOF", "127.0.0.1", &replica.to_string()];
    // Both follow each other, and no Sentinel knows.
    assert!(group.server(primary).command(&follow).unwrap().starts_with("+OK"));
    let error = attempt_fails(&backend(&url), &claim("job")).await;
    assert!(
        told(&error).contains("the Sentinels name it as the primary, and it is a replica"),
        "{}",
        told(&error)
    );
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn server_that_was_made_a_replica_is_left_for_the_primary() {
    let group = group();
    let backend = backend(&group.url());
    hold(&backend, &claim("before")).await;
    let connected =
        |server: &RedisServer| server.command(&["CLIENT", "LIST"]).unwrap().contains("name=leasehold");
    let (old, new) = (group.server(0), group.server(1));
    assert!(connected(old));
    // The switch is made by hand and without the Sentinels, so no report of theirs ends the connection.
    for ports in group.sentinel_ports() {
        let remove = ["SENTINEL", "REMOVE", "mm"];
        assert_eq!(leasehold_test_stores::servers::ask_redis(ports, &remove).unwrap(), "+OK");
        let port = new.port().to_string();
        let watch = ["SENTINEL", "MONITOR", "mm", "127.0.0.1", &port, "2"];
        assert_eq!(leasehold_test_stores::servers::ask_redis(ports, &watch).unwrap(), "+OK");
    }
    assert!(new.command(&["REPLICAOF", "NO", "ONE"]).unwrap().starts_with("+OK"));
    let follow = ["REPLICAOF", "127.0.0.1", &new.port().to_string()];
    assert!(old.command(&follow).unwrap().starts_with("+OK"));
    let error = attempt_fails(&backend, &claim("after")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", told(&error));
    assert!(
        told(&error).contains("it is a replica, and locks are granted by its primary alone"),
        "{}",
        told(&error)
    );
    hold(&backend, &claim("after")).await;
    assert!(connected(new));
}

#[tokio::test]
async fn check_inspects_the_primary_and_counts_its_replicas() {
    let group = group();
    let findings = backend(&group.url()).check().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity != Severity::Error), "{findings:?}");
    let seen = findings.iter().find(|finding| finding.code == "I_SERVER").unwrap();
    let primary = group.server(group.primary().unwrap()).port();
    assert!(
        seen.message.starts_with(&format!("127.0.0.1:{primary}, primary of \"mm\": the server is ")),
        "{seen:?}"
    );
    let url = format!("{}?wait_replicas=2&timeout=8s", group.url());
    let findings = backend(&url).check().await.unwrap();
    let too_few = findings.iter().find(|finding| finding.code == "E_REPLICAS").unwrap();
    assert!(
        too_few.message.contains("1 replicas follow the server, and wait_replicas asks for 2"),
        "{too_few:?}"
    );
}

#[tokio::test]
async fn semantics_declare_the_cost_of_a_fail_over() {
    use leasehold_core::{Fault, Outcome};
    let semantics = client("redis+sentinel://h/mm").semantics().clone();
    assert_eq!((semantics.backend, semantics.mode), ("redis", "sentinel"));
    assert_eq!(semantics.promises.under(Fault::FailOver), Outcome::FencedOnly);
    assert_eq!(semantics.promises.under(Fault::SplitBrain), Outcome::MayBreak);
}
