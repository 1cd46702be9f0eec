//! What an attempt, a release or a repair leaves on nodes of Redlock that answered late, refused or missed it.

use crate::kit::{Look, claim, claim_for, proxy_to, until};
use crate::redlock::{LINE, attempt, hold, hold_on_all, open, servers, url};
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{ErrorKind, LockAdmin, LockBackend, LossCause, Release, Renewal};
use std::time::Duration;

async fn is_soon(happens: impl Fn() -> bool) -> bool {
    tokio::time::timeout(Duration::from_secs(1), until(happens)).await.is_ok()
}

/// The release reaches the node before the script that repairs it: the lock which that sets would stay for a whole lease.
#[tokio::test]
async fn lock_that_is_repaired_while_it_is_released_is_taken_back() {
    let servers = servers(3);
    let (away, proxy) = (&servers[2], proxy_to(&servers[2]).await);
    let all = [servers[0].port(), servers[1].port(), proxy.address().port()];
    let all = all.map(|port| format!("127.0.0.1:{port}")).join(",");
    let backend = open(&format!("redlock://{all}?timeout=20s"));
    let holder = loop {
        // The node knows every script but that of the repair, which it has to ask for: the release overtakes it then.
        away.command(&["SCRIPT", "FLUSH"]).unwrap();
        let (warm, holder) = (claim("warm"), claim("job"));
        hold(&backend, &warm).await;
        backend.renew(std::slice::from_ref(&warm)).await;
        backend.release(&warm, Duration::ZERO).await.unwrap();
        hold(&backend, &holder).await;
        let is_warm = || away.get("leasehold:warm").is_none() && away.get("{leasehold:job}:holder").is_some();
        if is_soon(is_warm).await {
            away.command(&["FLUSHALL"]).unwrap();
            let before = away.calls("evalsha");
            backend.renew(std::slice::from_ref(&holder)).await.remove(0).unwrap();
            // The task that repairs has not run yet.
            proxy.set(Traffic::HoldReplies);
            let is_asked = is_soon(|| away.calls("evalsha") == before + 2).await;
            if is_asked && away.get("leasehold:job").is_none() {
                break holder;
            }
        }
        // The node answered too late for this attempt, or a repair gave it the lock "warm", and it knows that script. Try again.
        proxy.set(Traffic::Pass);
        backend.release(&holder, Duration::ZERO).await.unwrap();
    };
    let (asked, set) = (away.calls("evalsha"), away.calls("eval"));
    assert_eq!(backend.release(&holder, Duration::ZERO).await.unwrap(), Release::Released);
    until(|| away.calls("evalsha") > asked).await;
    proxy.set(Traffic::Pass);
    until(|| away.calls("eval") > set).await;
    until(|| away.get("leasehold:job").is_none()).await;
}

/// The withdrawal is kept on its way until a later attempt of the owner was granted without that node. By then the hold needs what
/// the first attempt left there, because another node has lost its own.
#[tokio::test]
async fn late_withdrawal_of_an_attempt_ends_no_hold() {
    let servers = servers(3);
    let (away, proxy) = (&servers[2], proxy_to(&servers[2]).await);
    let all = [servers[0].port(), servers[1].port(), proxy.address().port()];
    let all = all.map(|port| format!("127.0.0.1:{port}")).join(",");
    let backend = open(&format!("redlock://{all}?timeout=5s&connect_timeout=2s"));
    // The node knows the scripts then.
    let (warm, holder, lock) = (claim("warm"), claim("job"), "leasehold:job");
    hold_on_all(&backend, &servers, &warm).await;
    backend.release(&warm, Duration::ZERO).await.unwrap();
    until(|| away.get("leasehold:warm").is_none()).await;

    servers[..2].iter().for_each(|server| server.set(lock, "theirs"));
    proxy.set(Traffic::HoldReplies);
    assert_eq!(attempt(&backend, &holder).await.unwrap(), None);
    until(|| away.get(lock).is_some()).await;
    proxy.strand();
    proxy.set(Traffic::Pass);
    // All nodes are waited for, so this returns when the connection was given up.
    backend.init().await.unwrap();

    servers[..2].iter().for_each(|server| server.del(lock));
    proxy.set(Traffic::BlackHole);
    hold(&backend, &holder).await;
    backend.init().await.unwrap();
    proxy.set(Traffic::Pass);
    servers[1].pause();
    let renewed = backend.renew(std::slice::from_ref(&holder)).await;
    assert!(matches!(renewed[0], Ok(Renewal::Renewed)), "{renewed:?}");
    servers[1].resume();
    servers[1].command(&["DEL", lock, "{leasehold:job}:holder"]).unwrap();

    let before = away.calls("evalsha");
    proxy.deliver();
    until(|| away.calls("evalsha") > before).await;
    assert_eq!(attempt(&open(&url(&servers, "")), &claim("job")).await.unwrap(), None, "two hold");
}

/// The owner of a refused attempt does not come back to release it, and its claim on the first node would stay for a whole lease.
#[tokio::test]
async fn refused_attempt_that_leaves_a_claim_is_unknown_and_can_be_released() {
    let servers = servers(3);
    for (place, server) in servers.iter().enumerate() {
        // The first lets a claim in, and not out again.
        let line = format!("{LINE} {}", if place == 0 { "-del" } else { "-time" });
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(server.command(&words).unwrap(), "+OK");
    }
    let (backend, claim) = (open(&url(&servers, "locker:PASSWORD@")), claim("job"));
    // The two that refuse answer last: had they answered first, the attempt would not wait for the node that agrees.
    servers[1..].iter().for_each(|server| server.pause());
    let agreed = async {
        until(|| servers[0].get("leasehold:job").is_some()).await;
        servers[1..].iter().for_each(|server| server.resume());
    };
    let (answer, ()) = tokio::join!(attempt(&backend, &claim), agreed);
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert!(servers[0].get("leasehold:job").is_some());
    assert_eq!(servers[0].command(&["ACL", "SETUSER", "locker", "+del"]).unwrap(), "+OK");
    // The other two still refuse, so the outcome of the release is unknown, and the first node carries it out.
    let _ = backend.release(&claim, Duration::ZERO).await;
    until(|| servers[0].get("leasehold:job").is_none()).await;
}

/// Two of five nodes keep the hold until its lease ends. They are too few to grant the lock, or to keep it from another owner.
#[tokio::test]
async fn minority_that_missed_a_release_keeps_no_owner_out() {
    let servers = servers(5);
    let proxies = [proxy_to(&servers[3]).await, proxy_to(&servers[4]).await];
    let ports = servers[..3].iter().map(|server| server.port());
    let ports = ports.chain(proxies.iter().map(|proxy| proxy.address().port()));
    let all: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    let backend = open(&format!("redlock://{}?timeout=300ms&connect_timeout=300ms", all.join(",")));
    let (holder, next) = (claim_for("job", Duration::from_secs(8)), claim("job"));
    let token = hold_on_all(&backend, &servers, &holder).await;
    proxies.iter().for_each(|proxy| proxy.set(Traffic::BlackHole));
    assert_eq!(backend.release(&holder, Duration::ZERO).await.unwrap(), Release::Released);
    assert!(servers[..3].iter().all(|server| server.get("leasehold:job").is_none()));
    assert!(hold(&backend, &next).await > token);
    proxies.iter().for_each(|proxy| proxy.set(Traffic::Pass));
    let two = [3, 4].map(|n| servers[n].get("leasehold:job"));
    assert!(two.iter().all(|held| held.is_some() && *held != servers[0].get("leasehold:job")), "{two:?}");
    let renewed = backend.renew(std::slice::from_ref(&holder)).await;
    assert!(matches!(renewed[0], Ok(Renewal::Lost(LossCause::Taken))), "{renewed:?}");
    let renewed = backend.renew(std::slice::from_ref(&next)).await;
    assert!(matches!(renewed[0], Ok(Renewal::Renewed)), "{renewed:?}");
    assert_eq!(attempt(&open(&url(&servers, "")), &claim("job")).await.unwrap(), None);
}
