//! Nodes of our own name that are not ours to hold by.

use crate::kit::*;
use leasehold_core::{Attempt, Claim, LockBackend, LockName};
use zookeeper_client::{Acls, CreateMode};

/// A node with the name of this claim's, of the session that looks: as an earlier session of ours would leave it.
async fn ghost(look: &Look, claim: &Claim) -> String {
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
async fn a_ghost_in_front_is_swept_away_and_not_believed_in() {
    let server = server();
    let look = Look::at(&server).await;
    directory(&look).await;
    let (backend, claim) = (backend(&server.url()), claim("job"));
    let ghost = ghost(&look, &claim).await;
    let (_, stat) = look.0.get_data(&ghost).await.unwrap();

    let token = hold(&backend, &claim).await;

    assert!(token.get() > stat.czxid.unsigned_abs(), "the grant is the ghost's");
    let node = look.only_node("job").await;
    assert_ne!(node, ghost);
    let (_, stat) = look.0.get_data(&node).await.unwrap();
    assert_ne!(stat.ephemeral_owner, look.0.session_id().0);
}

#[tokio::test]
async fn a_ghost_behind_another_waiter_is_swept_away_too() {
    let server = server();
    let look = Look::at(&server).await;
    let (one, other) = (backend(&server.url()), backend(&server.url()));
    let (holder, waiter) = (claim("job"), claim("job"));
    hold(&one, &holder).await;
    let ghost = ghost(&look, &waiter).await;

    busy(&other, &waiter).await;

    let line = look.line("job").await;
    assert_eq!(line.len(), 2, "{line:?}");
    assert!(!line.iter().any(|node| ghost.ends_with(node)), "{line:?}");
    release(&one, &holder).await;
    changed(&other, &waiter).await;
    hold(&other, &waiter).await;
}

#[tokio::test]
async fn a_release_takes_every_node_of_its_owner() {
    let server = server();
    let look = Look::at(&server).await;
    directory(&look).await;
    let (backend, claim) = (backend(&server.url()), claim("job"));
    ghost(&look, &claim).await;
    ghost(&look, &claim).await;

    backend.release(&claim, std::time::Duration::ZERO).await.unwrap();

    assert_eq!(look.line("job").await, [""; 0]);
}

#[tokio::test]
async fn a_node_that_is_taken_from_a_holder_and_made_anew_by_another_is_no_hold() {
    let server = server();
    let look = Look::at(&server).await;
    let (backend, claim) = (backend(&server.url()), claim("job"));
    hold(&backend, &claim).await;
    look.wipe(&format!("{BASE}/job")).await;
    look.make(&format!("{BASE}/job"), CreateMode::Persistent).await;
    ghost(&look, &claim).await;

    eventually(async || {
        let renewal = renew(&backend, &claim).await.unwrap();
        matches!(renewal, leasehold_core::Renewal::Lost(_)).then_some(())
    })
    .await;
    // Asked anew, it is granted anew, with a larger token and a node of its own.
    assert!(matches!(backend.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
}
