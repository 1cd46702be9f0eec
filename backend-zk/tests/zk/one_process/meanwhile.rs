//! What happens while the one in front leaves, or after it has and before the next one asks.

use super::*;
use leasehold_conformance::proxy::Traffic;
use leasehold_core::Release;
use std::pin::pin;
use tokio::time::Instant;

/// Its node was made before the one in front began to leave, which has looked by then who is behind it.
#[tokio::test]
async fn who_comes_while_the_one_in_front_leaves_listens_by_itself() {
    let server = server();
    let backend = of_one_process(&server);
    // One that was the last in line: the next need not list it.
    let (first, second) = (told(&backend).await, claim("job"));
    granted(&backend, &first).await;
    let before = requests(&server);
    let mut coming = pin!(backend.try_acquire(&second));
    begin(coming.as_mut()).await;
    let mut leaving = pin!(backend.release(&first, Duration::ZERO));
    begin(leaving.as_mut()).await;
    assert!(matches!(answered(coming).await.unwrap(), Attempt::Busy(_)));
    assert_eq!(answered(leaving).await.unwrap(), Release::Released);
    assert!(was_told(&granted(&backend, &second).await));
    assert_eq!(requests(&server) - before - 1, 3, "to make a node, to delete one and to listen to one");
}

/// Who is in front then only the line tells, and a round trip is not to be waited for before it is asked for.
#[tokio::test]
async fn who_comes_after_the_last_began_to_leave_lists_the_line_in_the_same_breath() {
    let (server, look) = fixture().await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://{}?session_timeout=40s&timeout=5s", proxy.address()));
    let (first, second) = (told(&backend).await, claim("job"));
    granted(&backend, &first).await;
    let (node, record) = (node(&look, 0).await.len(), second.holder().len());
    let before = proxy.request_bytes();
    proxy.set(Traffic::HoldReplies);
    let mut leaving = pin!(backend.release(&first, Duration::ZERO));
    begin(leaving.as_mut()).await;
    let mut coming = pin!(backend.try_acquire(&second));
    begin(coming.as_mut()).await;
    // To delete a node, to make one whose number is not known, with its record and who may touch it, and to list the line.
    // Without the last, no two heartbeats are as long; and they come every other second.
    let (frame, path) = (4 + 8, 4);
    let deletes = frame + path + node + 4;
    let makes = frame + path + (node - 10) + (4 + record) + 27 + 4;
    let lists = frame + path + format!("{BASE}/job").len() + 1;
    let all = (deletes + makes + lists) as u64;
    let all_are_sent =
        within(SOON, eventually(async || (proxy.request_bytes() - before >= all).then_some(())));
    tokio::select! {
        () = all_are_sent => {}
        attempt = coming.as_mut() => panic!("{attempt:?}, and no reply was let through"),
    }
    proxy.set(Traffic::Pass);
    assert_eq!(answered(leaving).await.unwrap(), Release::Released);
    assert!(matches!(answered(coming).await.unwrap(), Attempt::Granted(_)));
}

/// Nobody but itself could have heard of that.
#[tokio::test]
async fn who_listens_by_itself_and_loses_its_node_is_not_granted() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, second, third] = [claim("job"), claim("job"), claim("job")];
    hold(&backend, &first).await;
    let mut coming = pin!(backend.try_acquire(&second));
    begin(coming.as_mut()).await;
    let mut leaving = pin!(backend.release(&first, Duration::ZERO));
    begin(leaving.as_mut()).await;
    assert!(matches!(answered(coming).await.unwrap(), Attempt::Busy(_)));
    busy(&other, &third).await;
    look.delete(&node(&look, 0).await).await;
    heard_all(&backend).await;
    assert_eq!(answered(leaving).await.unwrap(), Release::Released);
    busy(&backend, &second).await;
    has_its_turn(&other, &third).await;
}

/// It listens until then.
#[tokio::test]
async fn who_loses_its_node_after_the_word_and_before_it_asks_is_not_granted() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, second] = in_line(&backend).await;
    let third = one_behind(&other).await;
    release(&backend, &first).await;
    look.delete(&node(&look, 0).await).await;
    heard_all(&backend).await;
    busy(&backend, &second).await;
    has_its_turn(&other, &third).await;
}

/// Its look says nothing of the one in front.
#[tokio::test]
async fn who_looks_while_the_one_in_front_leaves_hears_of_it_afterwards() {
    let server = server();
    let backend = of_one_process(&server);
    let [first, second, third] = in_line(&backend).await;
    let mut looking = pin!(backend.try_acquire(&second));
    begin(looking.as_mut()).await;
    release(&backend, &first).await;
    assert!(matches!(answered(looking).await.unwrap(), Attempt::Busy(_)), "its node is there");
    has_its_turn(&backend, &second).await;
    release(&backend, &second).await;
    assert!(was_told(&granted(&backend, &third).await));
}

/// The one in front is there, and that is all that it looked for.
#[tokio::test]
async fn who_hears_while_it_looks_that_its_node_is_gone_stands_in_line_again() {
    let (server, look) = fixture().await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://{}?session_timeout=10s", proxy.address()));
    let [first, second] = in_line(&backend).await;
    proxy.set(Traffic::HoldReplies);
    look.delete(&node(&look, 1).await).await;
    let mut looking = pin!(backend.try_acquire(&second));
    begin(looking.as_mut()).await;
    // The word comes before the answer: the server keeps the order.
    proxy.set(Traffic::Pass);
    assert!(matches!(answered(looking).await.unwrap(), Attempt::Busy(_)));
    assert!(node(&look, 1).await.ends_with("2"), "it stands in line again");
    release(&backend, &first).await;
    has_its_turn(&backend, &second).await;
}

/// Goes on with a call until it waits for the next answer, which has come by then, and nobody has looked at it yet.
async fn step(backend: &ZooKeeperBackend, call: Pin<&mut impl Future>) {
    begin(call).await;
    heard_all(backend).await;
}

/// It has found its node, and was told then: to listen from then on is not to forget that.
#[tokio::test]
async fn who_hears_between_two_requests_of_a_look_that_its_node_is_gone_stands_in_line_again() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let [_first, _second, third] = in_line(&backend).await;
    look.delete(&node(&look, 1).await).await;
    within(SOON, backend.changed(&third)).await;
    let mut looking = pin!(backend.try_acquire(&third));
    // The line as it is seen; then the line with a proof, and its node.
    step(&backend, looking.as_mut()).await;
    step(&backend, looking.as_mut()).await;
    look.delete(&node(&look, 1).await).await;
    heard_all(&backend).await;
    assert!(matches!(answered(looking).await.unwrap(), Attempt::Busy(_)));
    if look.line("job").await.len() == 1 {
        within(SOON, backend.changed(&third)).await;
        busy(&backend, &third).await;
    }
    assert_eq!(look.line("job").await.len(), 2, "it stands in line again");
}

/// It had not said by then that it listens to its own node. Its task may be anywhere.
#[tokio::test]
async fn who_follows_one_that_hears_at_the_end_of_a_look_that_its_node_is_gone_is_told() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first] = in_line(&backend).await;
    let foreign = one_behind(&other).await;
    let [third, fourth] = [one_behind(&backend).await, one_behind(&backend).await];
    release(&other, &foreign).await;
    within(SOON, backend.changed(&third)).await;
    let mut looking = pin!(backend.try_acquire(&third));
    // The line as it is seen; the line with a proof, and its node; its node, as the one in front holds.
    step(&backend, looking.as_mut()).await;
    step(&backend, looking.as_mut()).await;
    step(&backend, looking.as_mut()).await;
    look.delete(&node(&look, 1).await).await;
    heard_all(&backend).await;
    assert!(matches!(answered(looking).await.unwrap(), Attempt::Busy(_)));
    release(&backend, &first).await;
    has_its_turn(&backend, &fourth).await;
}

/// The one in front did not hold when it came, and came to hold by a look: so it does not listen yet.
async fn unheard(backend: &ZooKeeperBackend, other: &ZooKeeperBackend) -> [Claim; 2] {
    let [foreign] = in_line(other).await;
    let [first, second] = [one_behind(backend).await, one_behind(backend).await];
    release(other, &foreign).await;
    changed(backend, &first).await;
    granted(backend, &first).await;
    [first, second]
}

#[tokio::test]
async fn who_does_not_listen_at_its_turn_is_looked_for() {
    let server = server();
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, second] = unheard(&backend, &other).await;
    eventually(async || (server.counter("zk_watch_count").unwrap() == 1).then_some(())).await;
    let before = requests(&server);
    release(&backend, &first).await;
    assert!(was_told(&granted(&backend, &second).await));
    assert_eq!(requests(&server) - before - 1, 2, "to delete a node and to listen to one");
    assert_eq!(server.counter("zk_watch_count").unwrap(), 1, "as any other holder");
}

#[tokio::test]
async fn who_does_not_listen_at_its_turn_and_is_gone_is_not_granted() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, second] = unheard(&backend, &other).await;
    let third = one_behind(&other).await;
    look.delete(&node(&look, 1).await).await;
    release(&backend, &first).await;
    within(SOON, backend.changed(&second)).await;
    busy(&backend, &second).await;
    has_its_turn(&other, &third).await;
}

/// Nobody may say meanwhile to what it listens, and it may find out that it stands elsewhere.
#[tokio::test]
async fn who_does_not_listen_at_its_turn_and_looks_meanwhile_looks_again() {
    let server = server();
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, second] = unheard(&backend, &other).await;
    let mut looking = pin!(backend.try_acquire(&second));
    begin(looking.as_mut()).await;
    release(&backend, &first).await;
    let Attempt::Granted(grant) = answered(looking).await.unwrap() else { panic!("it was told meanwhile") };
    assert!(!was_told(&grant), "by the line");
}

/// The answer has come by then, and nobody has looked at it yet.
#[tokio::test]
async fn what_the_holder_before_has_asked_for_is_not_asked_again() {
    let server = server();
    let backend = of_one_process(&server);
    let [first, second, third] = in_line(&backend).await;
    only_two_listen(&server).await;
    let mut leaving = pin!(backend.release(&first, Duration::ZERO));
    begin(leaving.as_mut()).await;
    // It was not told: it looks.
    granted(&backend, &second).await;
    let before = requests(&server);
    let mut next = pin!(backend.release(&second, Duration::ZERO));
    begin(next.as_mut()).await;
    assert_eq!(answered(leaving).await.unwrap(), Release::Released);
    assert_eq!(answered(next).await.unwrap(), Release::Released);
    assert_eq!(requests(&server) - before - 1, 1, "to delete a node");
    assert!(was_told(&granted(&backend, &third).await));
}

/// Its node is gone, and the lock is the next one's.
#[tokio::test]
async fn who_leaves_does_not_wait_for_long_for_an_answer_that_nobody_waits_for() {
    const LIMIT: Duration = Duration::from_secs(3);
    let (server, look) = fixture().await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://{}?session_timeout=40s&timeout=3s", proxy.address()));
    let [first, second, third] = in_line(&backend).await;
    only_two_listen(&server).await;
    let node = node(&look, 0).await;
    // Whoever holds is told of the end of its node, before the answer: by a header, two numbers and a path, after the length.
    let (told, answered) = (4 + 16 + 8 + 4 + node.len() as u64, 4 + 16);
    proxy.set(Traffic::HoldRepliesAfter(told + answered));
    let begun = Instant::now();
    release(&backend, &first).await;
    assert!(begun.elapsed() < LIMIT / 2, "{:?}", begun.elapsed());
    proxy.set(Traffic::Pass);
    granted(&backend, &second).await;

    // What came of it too late is taken back.
    eventually(async || (server.counter("zk_watch_count").unwrap() == 1).then_some(())).await;
    let before = requests(&server);
    release(&backend, &second).await;
    granted(&backend, &third).await;
    assert_eq!(requests(&server) - before - 1, 2, "to delete a node and to listen to one");
}

/// The word, and what it listens to, go with it.
#[tokio::test]
async fn who_leaves_with_the_word_leaves_no_watch_behind() {
    let server = server();
    let backend = of_one_process(&server);
    for _ in 0..3 {
        let told = told(&backend).await;
        release(&backend, &told).await;
    }
    eventually(async || (server.counter("zk_watch_count").unwrap() == 0).then_some(())).await;
}
