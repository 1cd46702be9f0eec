//! Nodes of our own name that another session has made.

use crate::kit::*;
use leasehold_core::{Attempt, Claim, LockBackend, LockName};
use zookeeper_client::{Acls, CreateMode};

/// A node with this claim's owner, made by the session of `look`: an earlier session of the claim would leave one like it.
async fn make_node(look: &Look, claim: &Claim) -> String {
    let hex = claim.owner().to_hex();
    let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    let path = format!("{BASE}/{}/_c_{uuid}-lock-", LockName::as_str(claim.name()));
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = look.0.create(&path, b"", &options).await.unwrap();
    format!("{path}{sequence}")
}

async fn directory(look: &Look) {
    look.make(BASE, CreateMode::Persistent).await;
    look.make(&format!("{BASE}/job"), CreateMode::Persistent).await;
}

#[tokio::test]
async fn node_of_an_earlier_session_in_front_is_deleted_and_grants_nothing() {
    let server = server();
    let look = Look::at(&server).await;
    directory(&look).await;
    let (backend, claim) = (backend(&server.url()), claim("job"));
    let earlier = make_node(&look, &claim).await;
    let (_, stat) = look.0.get_data(&earlier).await.unwrap();

    let token = hold(&backend, &claim).await;

    assert!(token.get() > stat.czxid.unsigned_abs(), "the grant is that of the earlier session");
    let node = look.only_node("job").await;
    assert_ne!(node, earlier);
    let (_, stat) = look.0.get_data(&node).await.unwrap();
    assert_ne!(stat.ephemeral_owner, look.0.session_id().0);
}

#[tokio::test]
async fn node_of_an_earlier_session_behind_a_holder_is_deleted_too() {
    let server = server();
    let look = Look::at(&server).await;
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    let (holder, waiter) = (claim("job"), claim("job"));
    hold(&one, &holder).await;
    let earlier = make_node(&look, &waiter).await;

    busy(&other, &waiter).await;

    let line = look.line("job").await;
    assert_eq!(line.len(), 2, "{line:?}");
    assert!(!line.iter().any(|node| earlier.ends_with(node)), "{line:?}");
    release(&one, &holder).await;
    changed(&other, &waiter).await;
    hold(&other, &waiter).await;
}

#[tokio::test]
async fn release_deletes_all_nodes_of_its_owner() {
    let server = server();
    let look = Look::at(&server).await;
    directory(&look).await;
    let (backend, claim) = (backend(&server.url()), claim("job"));
    make_node(&look, &claim).await;
    make_node(&look, &claim).await;

    backend.release(&claim, std::time::Duration::ZERO).await.unwrap();

    assert_eq!(look.line("job").await, [""; 0]);
}

#[tokio::test]
async fn node_that_another_session_made_again_is_no_hold() {
    let server = server();
    let look = Look::at(&server).await;
    let (backend, claim) = (backend(&server.url()), claim("job"));
    hold(&backend, &claim).await;
    look.wipe(&format!("{BASE}/job")).await;
    look.make(&format!("{BASE}/job"), CreateMode::Persistent).await;
    make_node(&look, &claim).await;

    eventually(async || {
        let renewal = renew(&backend, &claim).await.unwrap();
        matches!(renewal, leasehold_core::Renewal::Lost(_)).then_some(())
    })
    .await;
    // The next attempt is granted with a node of its own.
    assert!(matches!(backend.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
}
