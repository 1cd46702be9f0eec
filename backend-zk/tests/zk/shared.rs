//! Readers and writers: the nodes of Curator's read–write lock.

use crate::kit::*;
use leasehold_core::{Claim, LockAdmin, LockBackend, LockMode, LossCause, Release, Renewal};
use leasehold_zk::ZooKeeperBackend;

fn in_mode(mode: LockMode) -> Claim {
    claim("job").with_mode(mode).with_waiting(true)
}

fn reader() -> Claim {
    in_mode(LockMode::Shared)
}

fn writer() -> Claim {
    in_mode(LockMode::Write)
}

async fn stay_quiet(backend: &ZooKeeperBackend, claims: &[Claim]) {
    for claim in claims {
        assert!(stays_quiet(backend, claim).await, "a waiter is told that has nothing to do");
    }
}

#[tokio::test]
async fn readers_and_writers_have_nodes_in_curators_layout() {
    let server = server();
    let (backend, look) = (backend(&server.url()), Look::at(&server).await);
    for (claim, mark) in
        [(reader(), "__READ__"), (writer(), "__WRIT__"), (in_mode(LockMode::Exclusive), "lock-")]
    {
        hold(&backend, &claim).await;
        let node = look.only_node("job").await;
        assert!(node.contains(&format!("-{mark}0000000")), "{node}");
        release(&backend, &claim).await;
    }
}

#[tokio::test]
async fn readers_hold_together_with_tokens_of_their_own() {
    let server = server();
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    let readers = [reader(), reader(), reader()];
    let mut last = hold(&one, &readers[0]).await;
    for reader in &readers[1..] {
        let token = hold(&other, reader).await;
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    for mode in [LockMode::Exclusive, LockMode::Write] {
        let writer = in_mode(mode);
        busy(&one, &writer).await;
        release(&one, &writer).await;
    }
    assert_eq!(renew(&other, &readers[1]).await.unwrap(), Renewal::Renewed);
    assert_eq!(release(&other, &readers[1]).await, Release::Released);
}

#[tokio::test]
async fn release_of_a_writer_wakes_exactly_the_readers_that_it_admits() {
    let server = server();
    let backend = backend(&server.url());
    // The server counts the watches of one session on one node once.
    let others = [(); 3].map(|()| self::backend(&server.url()));
    let first = writer();
    hold(&backend, &first).await;
    let (admitted, second, later) = ([reader(), reader(), reader()], writer(), [reader(), reader()]);
    for (backend, reader) in others.iter().zip(&admitted) {
        busy(backend, reader).await;
    }
    for waiter in [&second].into_iter().chain(&later) {
        busy(&backend, waiter).await;
    }
    let before = server.counter("zk_sum_node_deleted_watch_count").unwrap();

    release(&backend, &first).await;

    for (backend, reader) in others.iter().zip(&admitted) {
        changed(backend, reader).await;
        hold(backend, reader).await;
    }
    assert_eq!(server.counter("zk_sum_node_deleted_watch_count").unwrap() - before, 3);
    stay_quiet(&backend, &later).await;
    assert!(stays_quiet(&backend, &second).await);
}

#[tokio::test]
async fn writer_behind_readers_holds_when_the_last_of_them_has_left_in_any_order() {
    let server = server();
    let backend = backend(&server.url());
    let (readers, waiting) = ([reader(), reader(), reader()], writer());
    for reader in &readers {
        hold(&backend, reader).await;
    }
    busy(&backend, &waiting).await;
    let before = server.counter("zk_sum_node_deleted_watch_count").unwrap();
    release(&backend, &readers[0]).await;
    assert!(stays_quiet(&backend, &waiting).await, "it watches the reader directly in front");
    release(&backend, &readers[2]).await;
    changed(&backend, &waiting).await;
    busy(&backend, &waiting).await;
    release(&backend, &readers[1]).await;
    changed(&backend, &waiting).await;
    hold(&backend, &waiting).await;
    let woken = server.counter("zk_sum_node_deleted_watch_count").unwrap() - before;
    assert_eq!(woken, 2, "a writer is woken no more often than there are readers in front");
}

#[tokio::test]
async fn reader_does_not_pass_a_waiting_writer() {
    let server = server();
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    let (first, waiting, late) = (reader(), writer(), reader());
    hold(&one, &first).await;
    busy(&other, &waiting).await;
    busy(&one, &late).await;
    // The writer gives up.
    release(&other, &waiting).await;
    changed(&one, &late).await;
    hold(&one, &late).await;
}

#[tokio::test]
async fn reader_whose_writer_in_front_leaves_waits_for_the_next_one() {
    let server = server();
    let backend = backend(&server.url());
    let (first, second, waiting) = (writer(), writer(), reader());
    hold(&backend, &first).await;
    busy(&backend, &second).await;
    busy(&backend, &waiting).await;
    release(&backend, &second).await;
    changed(&backend, &waiting).await;
    busy(&backend, &waiting).await;
    release(&backend, &first).await;
    changed(&backend, &waiting).await;
    hold(&backend, &waiting).await;
}

#[tokio::test]
async fn lost_reader_is_displaced_only_by_a_writer_that_holds() {
    let server = server();
    let (backend, look) = (backend(&server.url()), Look::at(&server).await);
    let (readers, waiting) = ([reader(), reader()], writer());
    for reader in &readers {
        hold(&backend, reader).await;
    }
    let delete = async |number: &str| {
        let node = look.line("job").await.into_iter().find(|node| node.ends_with(number)).unwrap();
        look.delete(&format!("{BASE}/job/{node}")).await;
    };
    let [gone, taken] = [LossCause::Gone, LossCause::Taken].map(Renewal::Lost);

    delete("0").await;
    assert_eq!(renew(&backend, &readers[0]).await.unwrap(), gone, "the other reader excludes nobody");
    busy(&backend, &waiting).await;
    assert_eq!(renew(&backend, &readers[0]).await.unwrap(), gone, "the writer only waits");
    delete("1").await;
    assert_eq!(renew(&backend, &readers[1]).await.unwrap(), taken);
}

#[tokio::test]
async fn inspect_shows_all_readers_and_force_releases_the_one_with_the_token() {
    let server = server();
    let backend = backend(&server.url());
    let (readers, waiting) = ([reader(), reader()], writer());
    let tokens = [hold(&backend, &readers[0]).await, hold(&backend, &readers[1]).await];
    busy(&backend, &waiting).await;

    let holds = backend.inspect(waiting.name()).await.unwrap();
    assert_eq!(holds.iter().map(|hold| hold.token.unwrap()).collect::<Vec<_>>(), tokens);
    assert!(holds.iter().all(|hold| hold.mode == LockMode::Shared));
    assert_eq!(backend.list("").await.unwrap().len(), 2);
    let waiters = backend.waiters(waiting.name()).await.unwrap();
    assert_eq!(waiters.iter().map(|waiter| waiter.owner.unwrap()).collect::<Vec<_>>(), [waiting.owner()]);

    let released = backend.force_release(waiting.name(), Some(tokens[1])).await.unwrap();
    assert_eq!(released.len(), 1);
    assert_eq!(backend.inspect(waiting.name()).await.unwrap().remove(0).token, Some(tokens[0]));
    assert_eq!(backend.force_release(waiting.name(), None).await.unwrap().len(), 1);
    changed(&backend, &waiting).await;
    hold(&backend, &waiting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer_with_hundreds_of_readers_waits_for_all_of_them() {
    let server = server();
    let backend = backend(&format!("{}?session_timeout=40s", server.url()));
    let readers: Vec<Claim> = (0..300).map(|_| reader()).collect();
    for reader in &readers {
        hold(&backend, reader).await;
    }
    let waiting = writer();
    busy(&backend, &waiting).await;
    let answers = answered(backend.renew(&readers)).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap() == Renewal::Renewed));
    for reader in &readers {
        release(&backend, reader).await;
    }
    comes_to_hold(&backend, &waiting).await;
    assert_eq!(backend.renew(std::slice::from_ref(&waiting)).await.remove(0).unwrap(), Renewal::Renewed);
}
