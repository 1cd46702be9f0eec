//! When there is no word of the one in front, or it is not believed.

use super::*;
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{ErrorKind, Release};
use std::pin::pin;

/// Who leaves looks after it.
#[tokio::test]
async fn who_has_lost_its_node_is_not_granted() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, second] = in_line(&backend).await;
    let third = one_behind(&other).await;
    look.delete(&node(&look, 1).await).await;
    release(&backend, &first).await;
    busy(&backend, &second).await;
    has_its_turn(&other, &third).await;
}

/// It does not know where it stands.
#[tokio::test]
async fn who_could_not_finish_its_look_is_not_granted_by_a_word() {
    let server = server();
    warm_up(&server).await;
    let (proxy, look) = (proxy_to(&server).await, Look::at(&server).await);
    let one = format!("zk://{}?session_timeout=10s&timeout=500ms", proxy.address());
    let (backend, other) = (backend(&one), backend(&server.url()));
    let [first, between, second] = in_line(&backend).await;
    // Asked without news, after which a look has to hear from the leader.
    busy(&backend, &second).await;
    let third = one_behind(&other).await;
    look.delete(&node(&look, 2).await).await;
    release(&backend, &between).await;
    changed(&backend, &second).await;
    changed(&other, &third).await;
    busy(&other, &third).await;
    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.try_acquire(&second)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    proxy.set(Traffic::Pass);
    release(&backend, &first).await;
    has_its_turn(&other, &third).await;
    busy(&backend, &second).await;
}

#[tokio::test]
async fn who_could_not_finish_its_look_looks_when_it_is_asked_again() {
    let server = server();
    warm_up(&server).await;
    let (proxy, look) = (proxy_to(&server).await, Look::at(&server).await);
    let backend = backend(&format!("zk://{}?session_timeout=10s&timeout=500ms", proxy.address()));
    let [_, between, second] = in_line(&backend).await;
    busy(&backend, &second).await;
    look.delete(&node(&look, 2).await).await;
    release(&backend, &between).await;
    changed(&backend, &second).await;
    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.try_acquire(&second)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    proxy.set(Traffic::Pass);
    busy(&backend, &second).await;
    assert_eq!(look.line("job").await.len(), 2, "it stands in line again");
}

/// What it was told of before the outage is not forgotten after it.
#[tokio::test]
async fn who_could_not_finish_its_look_looks_again_when_there_is_a_connection() {
    let server = server();
    warm_up(&server).await;
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://{}?session_timeout=10s&timeout=500ms", proxy.address()));
    let [first, second, third] = in_line(&backend).await;
    busy(&backend, &third).await;
    release(&backend, &second).await;
    changed(&backend, &third).await;
    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.try_acquire(&third)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    proxy.cut();
    proxy.set(Traffic::Pass);
    within(SOON, backend.changed(&third)).await;
    eventually(async || backend.try_acquire(&third).await.ok()).await;
    release(&backend, &first).await;
    has_its_turn(&backend, &third).await;
}

#[tokio::test]
async fn a_word_for_an_earlier_node_is_none_for_the_next() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, again] = in_line(&backend).await;
    look.delete(&node(&look, 1).await).await;
    let foreign = one_behind(&other).await;
    one_behind(&backend).await;
    // It follows another now, and the one that it followed does not know.
    busy(&backend, &again).await;
    assert_eq!(look.line("job").await.len(), 4);
    release(&backend, &first).await;
    busy(&backend, &again).await;
    has_its_turn(&other, &foreign).await;
}

/// Who came last of this process is not the one in front, if somebody else came in between.
#[tokio::test]
async fn who_stands_behind_another_process_is_not_told() {
    let server = server();
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let [first, second] = in_line(&backend).await;
    let foreign = one_behind(&other).await;
    let third = one_behind(&backend).await;
    release(&backend, &first).await;
    assert!(was_told(&granted(&backend, &second).await));
    release(&backend, &second).await;
    assert!(stays_quiet(&backend, &third).await);
    busy(&backend, &third).await;
    granted(&other, &foreign).await;
    release(&other, &foreign).await;
    has_its_turn(&backend, &third).await;
}

/// Its delete was applied, and nobody has heard of it yet, when the directory was made anew, where the numbers have
/// come as far.
#[tokio::test]
async fn the_next_number_in_another_directory_is_not_behind_it() {
    let (server, look) = fixture().await;
    let (backend, other) = (of_one_process(&server), backend(&server.url()));
    let first = told(&backend).await;
    granted(&backend, &first).await;

    let mut leaving = pin!(backend.release(&first, Duration::ZERO));
    begin(leaving.as_mut()).await;
    eventually(async || look.line("job").await.is_empty().then_some(())).await;
    look.wipe(&format!("{BASE}/job")).await;
    let [foreign, passing] = in_line(&other).await;
    release(&other, &passing).await;
    let second = one_behind(&backend).await;
    assert!(node(&look, 1).await.ends_with("2"), "one after that of who is leaving");

    assert_eq!(answered(leaving).await.unwrap(), Release::Released);
    busy(&backend, &second).await;
    release(&other, &foreign).await;
    has_its_turn(&backend, &second).await;
}

#[tokio::test]
async fn who_was_the_last_itself_stands_in_line_again_once() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let [_, second] = in_line(&backend).await;
    look.delete(&node(&look, 1).await).await;
    busy(&backend, &second).await;
    assert!(node(&look, 1).await.ends_with("2"));
}

/// It was deleted before it could be listened to, and whoever comes next would rely on it.
#[tokio::test]
async fn who_finds_its_node_gone_when_it_begins_to_listen_stands_in_line_again() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let (first, second) = (told(&backend).await, claim("job"));
    granted(&backend, &first).await;
    let mut coming = pin!(backend.try_acquire(&second));
    begin(coming.as_mut()).await;
    eventually(async || (look.line("job").await.len() == 2).then_some(())).await;
    look.delete(&node(&look, 1).await).await;
    assert!(matches!(answered(coming).await.unwrap(), Attempt::Busy(_)));
    assert_eq!(look.line("job").await.len(), 2, "it stands in line again");
    release(&backend, &first).await;
    assert!(was_told(&granted(&backend, &second).await));
}

/// Who was seen in front stands behind by now.
#[tokio::test]
async fn a_line_of_a_moment_ago_is_not_relied_on() {
    let (server, look) = fixture().await;
    let backend = of_one_process(&server);
    let [first, second, last] = in_line(&backend).await;
    // Nobody is known to be the last now, so the line is listed with the same request.
    release(&backend, &last).await;
    let third = claim("job");
    let mut attempt = pin!(backend.try_acquire(&third));
    begin(attempt.as_mut()).await;
    eventually(async || (look.line("job").await.len() == 3).then_some(())).await;
    look.delete(&node(&look, 1).await).await;
    heard_all(&backend).await;
    busy(&backend, &second).await;
    assert_eq!(look.line("job").await.len(), 3, "it stands in line again");

    assert!(matches!(answered(attempt).await.unwrap(), Attempt::Busy(_)));
    release(&backend, &first).await;
    has_its_turn(&backend, &third).await;
}
