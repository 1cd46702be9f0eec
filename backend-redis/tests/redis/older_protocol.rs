//! Waiting in RESP2, in which the server sends no messages between replies: heartbeats decide.

use crate::fake::Fake;
use crate::kit::{Look, answered, backend, claim, client, hold, queue, release, server, waiter};
use leasehold_core::{Attempt, DistributedLock, DistributedLockExt, LockAdmin, LockBackend, Severity};
use std::time::{Duration, Instant};

/// Far below a lease of 30 s.
const BY_HEARTBEAT: Duration = Duration::from_secs(3);

#[tokio::test]
async fn waiter_finds_its_grant_at_a_heartbeat() {
    let server = server();
    let backend = backend(&format!("{}?protocol=resp2", server.url()));
    let (holder, first, second) = (claim("job"), waiter("job"), waiter("job"));
    hold(&backend, &holder).await;
    queue(&backend, &first).await;
    queue(&backend, &second).await;
    release(&backend, &holder).await;
    let token = hold(&backend, &first).await;
    queue(&backend, &second).await;
    release(&backend, &first).await;
    assert!(hold(&backend, &second).await > token);
    assert_eq!(server.calls("subscribe"), 0);
}

#[tokio::test]
async fn waiters_are_served_in_order_on_one_connection() {
    let server = server();
    let locks = client(&format!("{}?protocol=resp2", server.url()));
    let guard = locks.acquire("job").await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let locks = locks.clone();
        waiters.spawn(async move { locks.acquire("job").await.unwrap().release().await.unwrap() });
    }
    let start = Instant::now();
    while server.queue("job").len() < 4 {
        assert!(start.elapsed() < BY_HEARTBEAT, "not all wait");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let clients = server.command(&["CLIENT", "LIST"]).unwrap();
    assert_eq!(clients.matches("name=leasehold").count(), 1, "{clients}");
    guard.release().await.unwrap();
    answered(waiters.join_all()).await;
    locks.close().await.unwrap();
}

#[tokio::test]
async fn login_is_sent_in_resp2_too() {
    let server = server();
    for user in ["locker", "default"] {
        // The test itself is the default user, and shut out from then on.
        server.command(&["ACL", "SETUSER", user, "on", "resetpass", ">WORD", "~*", "&*", "+@all"]).unwrap();
    }
    for login in [":WORD", "default:WORD", "locker:WORD"] {
        let backend = backend(&format!("redis://{login}@127.0.0.1:{}?protocol=resp2", server.port()));
        let holder = claim("job");
        hold(&backend, &holder).await;
        release(&backend, &holder).await;
    }
}

#[tokio::test]
async fn check_warns_that_no_messages_come() {
    let server = server();
    let findings = backend(&format!("{}?protocol=resp2", server.url())).check().await.unwrap();
    let unheard = findings.iter().find(|finding| finding.code == "W_UNHEARD").unwrap();
    assert_eq!(unheard.severity, Severity::Warning);
    assert!(unheard.message.contains("RESP2"), "{unheard:?}");
}

/// It is asked on a second connection, and gets locks on that.
#[tokio::test]
async fn proxy_that_does_not_know_hello_is_asked_in_resp2() {
    for refusal in
        ["-ERR unknown command 'HELLO'\r\n", "-ERR unknown command `HELLO`\r\n", "-NOPROTO unsupported\r\n"]
    {
        let fake = Fake::answering(move |words| match words[0].as_str() {
            "HELLO" if words[1] == "3" || refusal.contains("unknown") => refusal.to_owned(),
            "HELLO" => "*2\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n".to_owned(),
            "INFO" => "$22\r\nredis_version:7.0.15\r\n\r\n".to_owned(),
            _ => "$16\r\n1764000000000000\r\n".to_owned(),
        })
        .await;
        let backend = backend(&fake.url());
        let attempt = answered(backend.try_acquire(&claim("job"))).await;
        assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
        assert_eq!(fake.connections(), 2);
    }
}
