//! When the one in front does not hand over: whoever follows is told to look, and need not wait for its fallback.

use super::*;
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{ErrorKind, Release};
use std::pin::pin;

#[tokio::test]
async fn who_follows_one_that_leaves_the_line_stays_in_it() {
    let server = server();
    let backend = of_one_process(&server);
    let [first, second, third] = in_line(&backend).await;
    release(&backend, &second).await;
    changed(&backend, &third).await;
    busy(&backend, &third).await;
    assert!(stays_quiet(&backend, &third).await);
    release(&backend, &first).await;
    changed(&backend, &third).await;
    assert!(was_told(&granted(&backend, &third).await), "it follows the one in front of both");
}

/// Its holder may not give it back for hours.
#[tokio::test]
async fn who_follows_a_holder_that_was_deleted_is_told() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let [first, second] = in_line(&backend).await;
    look.delete(&node(&look, 0).await).await;
    has_its_turn(&backend, &second).await;
    assert_eq!(release(&backend, &first).await, Release::NotHeld);
}

/// Also if the one that follows is the first to ask.
#[tokio::test]
async fn who_follows_the_next_one_that_hears_of_its_end_is_told() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let [first, _, third] = in_line(&backend).await;
    look.delete(&node(&look, 1).await).await;
    within(SOON, backend.changed(&third)).await;
    busy(&backend, &third).await;
    release(&backend, &first).await;
    has_its_turn(&backend, &third).await;
}

/// It is not to wait for the one in front, whose task may be anywhere.
#[tokio::test]
async fn who_follows_a_waiter_whose_end_is_found_when_its_turn_is_near_is_told_with_it() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let [first, second, third, fourth] = in_line(&backend).await;
    look.delete(&node(&look, 2).await).await;
    assert!(stays_quiet(&backend, &third).await && stays_quiet(&backend, &fourth).await);
    release(&backend, &first).await;
    assert!(was_told(&granted(&backend, &second).await));
    within(SOON, backend.changed(&fourth)).await;
    busy(&backend, &fourth).await;
    within(SOON, backend.changed(&third)).await;
    busy(&backend, &third).await;
    release(&backend, &second).await;
    assert!(was_told(&granted(&backend, &fourth).await));
}

/// Every other time that it asks it looks at its own node, so that it loses no more than that by a hand that deletes it; and
/// every other time at the one in front, should the claim there never tell it.
#[tokio::test]
async fn who_hears_nothing_finds_by_one_request_that_either_node_is_gone() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let line = in_line::<4>(&backend).await;
    only_two_listen(&server).await;
    let before = requests(&server);
    for _ in 0..4 {
        busy(&backend, &line[3]).await;
    }
    assert_eq!(requests(&server) - before - 1, 4);
    look.delete(&node(&look, 3).await).await;
    busy(&backend, &line[3]).await;
    assert!(node(&look, 3).await.ends_with("4"), "it stands in line again");

    look.delete(&node(&look, 2).await).await;
    busy(&backend, &line[3]).await;
    busy(&backend, &line[3]).await;
    // It follows the next one, who is still there.
    release(&backend, &line[1]).await;
    within(SOON, backend.changed(&line[3])).await;
    busy(&backend, &line[3]).await;
    release(&backend, &line[0]).await;
    assert!(was_told(&granted(&backend, &line[3]).await));
}

/// What it listens to is the node of another process. Nobody tells it that its own is gone, nor the one that follows
/// it, as long as it makes no difference.
#[tokio::test]
async fn who_follows_a_waiter_that_was_deleted_comes_first_in_its_turn() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [foreign] = in_line(&other).await;
    let [front, back] = [one_behind(&backend).await, one_behind(&backend).await];
    look.delete(&node(&look, 1).await).await;
    assert!(stays_quiet(&backend, &back).await);
    release(&other, &foreign).await;
    changed(&backend, &front).await;
    busy(&backend, &front).await;
    has_its_turn(&backend, &back).await;
}

/// Nobody knows whether it is gone.
#[tokio::test]
async fn who_follows_one_whose_release_was_not_answered_looks() {
    let server = server();
    warm_up(&server).await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("{}&timeout=700ms", url_of(&proxy)));
    let [first, second] = in_line(&backend).await;
    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.release(&first, Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    proxy.cut();
    proxy.set(Traffic::Pass);
    within(SOON, backend.changed(&second)).await;
    let next = eventually(async || backend.try_acquire(&second).await.ok()).await;
    assert!(matches!(next, Attempt::Granted(_)), "{next:?}");
}

/// Before the answers, between them, within one, and after them.
#[tokio::test]
async fn who_follows_has_its_turn_wherever_in_a_hand_over_the_connection_breaks() {
    let (server, look) = fixture().await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://{}?session_timeout=10s", proxy.address()));
    // The word that a node is gone, the answer to its delete, and what was read of the node of the one after the next.
    for bytes in (0..245).step_by(15) {
        let [first, second, third] = in_line(&backend).await;
        only_two_listen(&server).await;
        let before = proxy.reply_bytes();
        proxy.set(Traffic::HoldRepliesAfter(bytes));
        let breaks = async {
            eventually(async || (look.line("job").await.len() == 2).then_some(())).await;
            eventually(async || (proxy.reply_bytes() - before >= bytes).then_some(())).await;
            proxy.cut();
            proxy.set(Traffic::Pass);
        };
        let (released, ()) = tokio::join!(backend.release(&first, Duration::ZERO), breaks);
        if released.is_err() {
            eventually(async || backend.release(&first, Duration::ZERO).await.ok()).await;
        }
        for waiter in [&second, &third] {
            within(SOON, backend.changed(waiter)).await;
            within(SOON, comes_to_hold(&backend, waiter)).await;
            release(&backend, waiter).await;
        }
        assert_eq!(look.line("job").await, [""; 0], "after {bytes} bytes");
    }
}

#[tokio::test]
async fn who_follows_one_whose_release_was_dropped_looks() {
    let server = server();
    let backend = of_one_process(&server);
    let [first, second] = in_line(&backend).await;
    {
        let mut release = pin!(backend.release(&first, Duration::ZERO));
        begin(release.as_mut()).await;
    }
    within(SOON, backend.changed(&second)).await;
    let mut next = attempt(&backend, &second).await;
    if matches!(next, Attempt::Busy(_)) {
        within(SOON, backend.changed(&second)).await;
        next = attempt(&backend, &second).await;
    }
    assert!(matches!(next, Attempt::Granted(_)), "{next:?}");
}

/// The word was for one that has gone since, and has told nobody.
#[tokio::test]
async fn who_follows_one_that_leaves_with_the_word_is_told() {
    let server = server();
    let backend = of_one_process(&server);
    let [first, second, third] = in_line(&backend).await;
    release(&backend, &first).await;
    assert_eq!(release(&backend, &second).await, Release::NotHeld, "it never asked");
    has_its_turn(&backend, &third).await;
}
