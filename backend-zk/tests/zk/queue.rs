//! The queue, and other programs in it.

use crate::kit::*;
use futures_util::future::join_all;
use leasehold_core::{Attempt, LockBackend, LossCause, Renewal};
use zookeeper_client::{Acls, CreateMode};

#[tokio::test]
async fn waiter_in_front_that_dies_grants_nothing() {
    let server = server();
    let (one, dying, other) = (backend(&server.url()), backend(&server.url()), backend(&server.url()));
    let (holder, front, back) = (claim("job"), claim("job"), claim("job"));
    hold(&one, &holder).await;
    busy(&dying, &front).await;
    busy(&other, &back).await;

    dying.close().await.unwrap();
    changed(&other, &back).await;

    busy(&other, &back).await;
    assert_eq!(renew(&one, &holder).await.unwrap(), Renewal::Renewed);
}

#[tokio::test]
async fn directory_that_is_deleted_under_its_waiters_is_made_again() {
    let server = server();
    let look = Look::at(&server).await;
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    let (holder, waiter) = (claim("job"), claim("job"));
    let first = hold(&one, &holder).await;
    busy(&other, &waiter).await;

    look.wipe(&format!("{BASE}/job")).await;

    changed(&other, &waiter).await;
    assert!(hold(&other, &waiter).await > first);
    eventually(async || {
        (renew(&one, &holder).await.unwrap() == Renewal::Lost(LossCause::Taken)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn waiter_whose_own_node_is_deleted_goes_to_the_end() {
    let server = server();
    let look = Look::at(&server).await;
    let backend = backend(&server.url());
    let line: Vec<_> = (0..3).map(|_| claim("job")).collect();
    hold(&backend, &line[0]).await;
    busy(&backend, &line[1]).await;
    let node = look.line("job").await.into_iter().find(|node| node.ends_with("1")).unwrap();
    busy(&backend, &line[2]).await;

    look.delete(&format!("{BASE}/job/{node}")).await;
    release(&backend, &line[0]).await;

    changed(&backend, &line[2]).await;
    hold(&backend, &line[2]).await;
    // Its blocker has gone, and then it finds its own node gone.
    changed(&backend, &line[1]).await;
    busy(&backend, &line[1]).await;
    release(&backend, &line[2]).await;
    changed(&backend, &line[1]).await;
    hold(&backend, &line[1]).await;
}

#[tokio::test]
async fn children_of_other_programs_are_ignored_and_never_deleted() {
    let server = server();
    let look = Look::at(&server).await;
    look.make(BASE, CreateMode::Persistent).await;
    look.make(&format!("{BASE}/job"), CreateMode::Persistent).await;
    let foreign = ["leases", "lock-abc", "x", "_c_01234567-89ab-cdef-0123-456789abcdef-__SEMA__0000000000"];
    for child in foreign {
        look.make(&format!("{BASE}/job/{child}"), CreateMode::Persistent).await;
    }
    let (backend, claim) = (backend(&server.url()), claim("job"));

    hold(&backend, &claim).await;
    release(&backend, &claim).await;

    let mut foreign = foreign.map(str::to_owned).to_vec();
    foreign.sort();
    assert_eq!(look.line("job").await, foreign);
}

#[tokio::test]
async fn contenders_of_other_programs_are_respected() {
    let server = server();
    let look = Look::at(&server).await;
    look.make(BASE, CreateMode::Persistent).await;
    look.make(&format!("{BASE}/job"), CreateMode::Persistent).await;
    for form in [
        "_c_01234567-89ab-cdef-0123-456789abcdef-lock-",
        "_c_01234567-89ab-cdef-0123-456789abcdef-__WRIT__",
        "_c_01234567-89ab-cdef-0123-456789abcdef-__READ__",
        "lock-",
        "0123456789abcdef__lock__",
        "0123456789abcdef__rlock__",
    ] {
        let (backend, claim) = (backend(&server.url()), claim("job"));
        let path = format!("{BASE}/job/{form}");
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, sequence) = look.0.create(&path, b"10.0.0.7", &options).await.unwrap();
        busy(&backend, &claim).await;
        look.delete(&format!("{path}{sequence}")).await;
        changed(&backend, &claim).await;
        hold(&backend, &claim).await;
        release(&backend, &claim).await;
    }
}

#[tokio::test]
async fn list_of_more_than_a_megabyte_is_read() {
    let server = server();
    let look = Look::at(&server).await;
    look.make(BASE, CreateMode::Persistent).await;
    look.make(&format!("{BASE}/job"), CreateMode::Persistent).await;
    let filler = "x".repeat(240);
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for some in (0..5000).collect::<Vec<u32>>().chunks(500) {
        let paths: Vec<_> = some.iter().map(|number| format!("{BASE}/job/{filler}{number}")).collect();
        for made in join_all(paths.iter().map(|path| look.0.create(path, b"", &options))).await {
            made.unwrap();
        }
    }
    let (backend, claim) = (backend(&server.url()), claim("job"));
    hold(&backend, &claim).await;
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
}

#[tokio::test]
async fn many_waiters_are_served_in_order_and_told_one_at_a_time() {
    const WAITERS: usize = 60;
    let server = server();
    let backends = [backend(&server.url()), backend(&server.url())];
    let line: Vec<_> = (0..WAITERS).map(|_| claim("job")).collect();
    let of = |place: usize| &*backends[place % 2];
    hold(of(0), &line[0]).await;
    for (place, waiter) in line.iter().enumerate().skip(1) {
        busy(of(place), waiter).await;
    }
    let mut last = None;
    for place in 0..WAITERS {
        let token = hold(of(place), &line[place]).await;
        assert!(Some(token) > last);
        last = Some(token);
        if place + 1 < WAITERS {
            let before = server.counter("zk_sum_node_deleted_watch_count").unwrap();
            release(of(place), &line[place]).await;
            changed(of(place + 1), &line[place + 1]).await;
            let fired = server.counter("zk_sum_node_deleted_watch_count").unwrap() - before;
            assert!(fired <= 1, "{fired} watches at place {place}");
        }
    }
}

#[tokio::test]
async fn attempt_that_does_not_wait_has_left_the_queue_when_it_is_answered() {
    let server = server();
    let look = Look::at(&server).await;
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    hold(&one, &claim("job")).await;
    for _ in 0..50 {
        let attempt = answered(other.try_acquire(&claim("job").with_waiting(false))).await.unwrap();
        assert!(matches!(attempt, Attempt::Busy(busy) if !busy.queued));
        assert_eq!(look.line("job").await.len(), 1);
    }
    assert_eq!(server.counter("zk_watch_count").unwrap(), 0);
}
