//! Redlock as its users and operators see it.

use crate::kit::{HOLDER, Look, TTL, answered, claim, claim_for, told, until};
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, Fairness, FencingToken, Finding, LockAdmin, LockBackend,
    Namespace, Release, Renewal, Severity,
};
use leasehold_redis::{DEFAULT_PREFIX, RedlockBackend};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use std::time::{Duration, Instant};

/// The line that the documentation of the crate gives to administrators of nodes.
pub(crate) const LINE: &str = "ACL SETUSER locker on >PASSWORD resetkeys ~leasehold:* ~{leasehold:* resetchannels -@all \
                    +eval +evalsha +set +get +del +pexpire +pttl +time +ping +scan +type";

pub(crate) fn servers(number: usize) -> Vec<RedisServer> {
    (0..number).map(|_| RedisServer::start().unwrap()).collect()
}

pub(crate) fn url(servers: &[RedisServer], login: &str) -> String {
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    format!("redlock://{login}{}", hosts.join(","))
}

pub(crate) fn open(url: &str) -> RedlockBackend {
    RedlockBackend::open(&StoreUrl::parse(url).unwrap(), &Namespace::new(DEFAULT_PREFIX).unwrap()).unwrap()
}

pub(crate) async fn attempt(backend: &RedlockBackend, claim: &Claim) -> Result<Option<FencingToken>, Error> {
    answered(backend.try_acquire(claim)).await.map(|attempt| match attempt {
        Attempt::Granted(grant) => Some(grant.token),
        Attempt::Busy(_) => None,
    })
}

pub(crate) async fn hold(backend: &RedlockBackend, claim: &Claim) -> FencingToken {
    attempt(backend, claim).await.unwrap().unwrap()
}

/// Holds on every node. A renewal gives the lock to a node that answered too late for the grant.
pub(crate) async fn hold_on_all(
    backend: &RedlockBackend,
    servers: &[RedisServer],
    claim: &Claim,
) -> FencingToken {
    let token = hold(backend, claim).await;
    let (record, start) = (format!("{{leasehold:{}}}:holder", claim.name()), Instant::now());
    while servers.iter().any(|server| server.get(&record).is_none()) {
        assert!(start.elapsed() < Duration::from_secs(30), "a node is never given the lock");
        let renewed = backend.renew(std::slice::from_ref(claim)).await;
        assert!(matches!(renewed[0], Ok(Renewal::Renewed)), "{renewed:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    token
}

/// The refusal of a name that others hold. A node that answers too late leaves the outcome open: asks again until all nodes answer in
/// time, after which nothing is left.
async fn refused_by_all(backend: &RedlockBackend) -> Busy {
    for _ in 0..50 {
        match answered(backend.try_acquire(&claim("job"))).await.unwrap() {
            Attempt::Busy(busy) if busy.queued => {}
            Attempt::Busy(busy) => return busy,
            Attempt::Granted(_) => panic!("granted twice"),
        }
    }
    panic!("a doubt is left where all nodes refuse");
}

fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().filter(|found| found.severity != Severity::Info).map(|found| found.code).collect()
}

#[tokio::test]
async fn claim_that_is_asked_again_keeps_its_token() {
    let servers = servers(3);
    let backend = open(&url(&servers, ""));
    assert_eq!(backend.semantics().fairness, Fairness::Unordered);
    let first = claim("job");
    let token = hold_on_all(&backend, &servers, &first).await;
    assert_eq!(hold(&backend, &first).await, token);
    assert_eq!(attempt(&backend, &claim("job")).await.unwrap(), None);
    let ends_in = refused_by_all(&backend).await.ends_in.unwrap();
    assert!(ends_in > TTL / 2 && ends_in <= TTL, "{ends_in:?}");
    assert_eq!(backend.release(&first, Duration::ZERO).await.unwrap(), Release::Released);
    assert_eq!(backend.release(&first, Duration::ZERO).await.unwrap(), Release::NotHeld);
    assert!(hold(&backend, &claim("job")).await > token);
}

#[tokio::test]
async fn clients_that_know_the_lock_key_only_are_respected_and_respect_us() {
    let servers = servers(3);
    let backend = open(&url(&servers, ""));
    servers[..2].iter().for_each(|server| server.set("leasehold:job", "a random value"));
    refused_by_all(&backend).await;
    // What was taken of the third is given back, also by an attempt that did not wait for it.
    until(|| servers[2].keys().is_empty()).await;
    servers[0].del("leasehold:job");
    hold(&backend, &claim("job")).await;
    let refused = servers[0].command(&["SET", "leasehold:job", "theirs", "NX", "PX", "1000"]).unwrap();
    assert!(refused.starts_with("$-1") || refused.starts_with('_'), "{refused}");
}

#[tokio::test]
async fn server_under_two_names_is_detected_and_counts_once() {
    let servers = servers(2);
    let ports = [servers[0].port(), servers[1].port()];
    let backend =
        open(&format!("redlock://127.0.0.1:{},localhost:{},127.0.0.1:{}", ports[0], ports[0], ports[1]));
    let found = backend.check().await.unwrap();
    assert!(codes(&found).contains(&"E_SAME_NODE"), "{found:?}");
    // It may be granted before the second name is heard, by the two servers that there are; then it is said.
    let mut last = None;
    for _ in 0..20 {
        last = attempt(&backend, &claim("job")).await.err().or(last);
    }
    let error = last.unwrap();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(told(&error).contains("are the same server"), "{error}");
    let alone = open(&format!("redlock://127.0.0.1:{0},localhost:{0},127.0.0.1:1", ports[0]));
    assert!(attempt(&alone, &claim("other")).await.is_err(), "one server is no majority of three");
}

#[tokio::test]
async fn hold_of_a_majority_is_shown_and_can_be_freed() {
    let mut servers = servers(5);
    let backend = open(&url(&servers, ""));
    let holder = claim("job");
    // The node that stops must not be one of the three that wrote the token first.
    let token = hold_on_all(&backend, &servers, &holder).await;
    servers.truncate(4);
    let status = backend.inspect(holder.name()).await.unwrap().remove(0);
    assert_eq!((status.owner, status.token), (Some(holder.owner()), Some(token)));
    assert_eq!(status.holder, leasehold_core::HolderInfo::from_json(HOLDER));
    assert_eq!(backend.list("jo").await.unwrap().len(), 1);
    assert_eq!(backend.list("x").await.unwrap().len(), 0);
    let wrong = FencingToken::new(token.get() - 1);
    assert!(backend.force_release(holder.name(), Some(wrong)).await.unwrap().is_empty());
    let freed = backend.force_release(holder.name(), Some(token)).await.unwrap().remove(0);
    assert_eq!(freed.token, Some(token));
    assert!(backend.inspect(holder.name()).await.unwrap().is_empty());
    assert!(matches!(backend.renew(std::slice::from_ref(&holder)).await[0], Ok(Renewal::Lost(_))));
    assert!(hold(&backend, &claim("job")).await > token);
}

#[tokio::test]
async fn check_names_nodes_that_are_down_and_an_even_number() {
    let mut servers = servers(4);
    let backend = open(&url(&servers, ""));
    assert!(codes(&backend.check().await.unwrap()).contains(&"W_EVEN"));
    servers[0].kill();
    let found = backend.check().await.unwrap();
    assert_eq!(codes(&found).iter().filter(|code| **code == "W_NODE").count(), 1, "{found:?}");
    assert!(found.iter().all(|found| found.severity != Severity::Error), "{found:?}");
    servers[1].kill();
    let error = backend.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().starts_with("2 of 4 nodes cannot be used, and 3 must be: "), "{error}");
    let error = attempt(&backend, &claim("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(servers[2..].iter().all(|server| server.keys().is_empty()), "taken back");
}

#[tokio::test]
async fn documented_rights_suffice_for_every_call() {
    let documentation = include_str!("../../../docs/redis.md").replace("\\\n", "");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&documentation).contains(&words(LINE)));

    let servers = servers(3);
    for server in &servers {
        let words: Vec<&str> = LINE.split_whitespace().collect();
        assert_eq!(server.command(&words).unwrap(), "+OK");
    }
    let backend = open(&url(&servers, "locker:PASSWORD@"));
    backend.init().await.unwrap();
    let holder = claim_for("job/{x} y", Duration::from_secs(5));
    let token = hold(&backend, &holder).await;
    servers[0].command(&["FLUSHALL"]).unwrap();
    let start = Instant::now();
    // By the first renewal, or by a later one: a node that is late with its answer is not repaired yet.
    while servers[0].get("{leasehold:job/%7Bx%7D y}:token") != Some(token.to_string()) {
        assert!(start.elapsed() < Duration::from_secs(30), "it is never repaired");
        assert!(matches!(backend.renew(std::slice::from_ref(&holder)).await[0], Ok(Renewal::Renewed)));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(backend.list("").await.unwrap().len(), 1);
    assert!(!backend.inspect(holder.name()).await.unwrap().is_empty());
    assert!(!codes(&backend.check().await.unwrap()).contains(&"E_DENIED"));
    assert!(!backend.force_release(holder.name(), None).await.unwrap().is_empty());
    let last = claim("job");
    hold(&backend, &last).await;
    assert_eq!(backend.release(&last, Duration::from_secs(1)).await.unwrap(), Release::Released);
    backend.close().await.unwrap();
}

#[tokio::test]
async fn check_names_each_missing_right_of_a_node_and_changes_nothing() {
    let servers = servers(3);
    let tell = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        servers.iter().for_each(|server| assert_eq!(server.command(&words).unwrap(), "+OK"));
    };
    tell(LINE);
    let url = url(&servers, "locker:PASSWORD@");
    let lacks = async || {
        let found = open(&url).check().await.unwrap();
        let lacks = found.into_iter().filter(|found| ["E_DENIED", "W_DENIED"].contains(&found.code));
        lacks.map(|found| (found.code, found.message, found.help)).collect::<Vec<_>>()
    };
    for command in LINE.split_whitespace().filter_map(|word| word.strip_prefix('+')) {
        let word = command.to_uppercase();
        let expected = if ["scan", "type", "ping"].contains(&command) { "W_DENIED" } else { "E_DENIED" };
        tell(&format!("ACL SETUSER locker -{command}"));
        let found = lacks().await;
        assert_eq!(found.len(), 3, "{command}, one of each node: {found:?}");
        for (server, (code, message, help)) in servers.iter().zip(found) {
            assert_eq!((code, &*help), (expected, &*format!("grant it with ACL SETUSER: +{command}")));
            let place = format!("127.0.0.1:{}: ", server.port());
            assert!(
                message.starts_with(&place) && message.contains(&format!("may not run {word}")),
                "{message}"
            );
        }
        assert!(servers.iter().all(|server| server.keys().is_empty()), "{command}");
        tell(&format!("ACL SETUSER locker +{command}"));
    }
    assert_eq!(lacks().await, []);
}

#[tokio::test]
async fn rights_that_are_missing_on_most_nodes_are_named() {
    let servers = servers(3);
    for server in &servers {
        let line = format!("{LINE} -time");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(server.command(&words).unwrap(), "+OK");
    }
    let error = attempt(&open(&url(&servers, "locker:PASSWORD@")), &claim("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(told(&error).contains("+time"), "{}", told(&error));
    assert!(servers.iter().all(|server| server.keys().is_empty()));
}
