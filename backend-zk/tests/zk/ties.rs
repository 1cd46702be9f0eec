//! Nodes that share their number with one that the server has numbered: made by hand, and never by a client that locks.

use crate::kit::*;
use leasehold_core::{LockAdmin, LockBackend, LockName, Renewal};
use zookeeper_client::CreateMode;

/// Names that come before any of ours as text, and behind it, and such as may be either.
const NAMES: [&str; 8] = [
    "_c_00000000-0000-0000-0000-000000000000-lock-",
    "_c_ffffffff-ffff-ffff-ffff-ffffffffffff-lock-",
    "_c_00112233445566778899aabbccddeeff-lock-",
    "__lock__",
    "lock-",
    "zz-lock-",
    "_c_01234567-89AB-cdef-0123-456789abcdef-lock-",
    "0123456789abcdef__lock__",
];

#[tokio::test]
async fn a_node_of_our_number_that_came_first_is_the_holder_for_us_and_for_whoever_looks() {
    let server = server();
    let (look, backend) = (Look::at(&server).await, backend(&server.url()));
    look.make(BASE, CreateMode::Persistent).await;
    for (at, name) in NAMES.into_iter().enumerate() {
        let claim = claim(&format!("job-{at}"));
        let directory = format!("{BASE}/{}", LockName::as_str(claim.name()));
        look.make(&directory, CreateMode::Persistent).await;
        // It is the first child, so the next one has the number 1 as well.
        let node = format!("{directory}/{name}0000000001");
        let made = look.make(&node, CreateMode::Ephemeral).await;

        busy(&backend, &claim).await;
        assert!(look.children(&directory).await.iter().all(|node| node.ends_with("0000000001")));
        busy(&backend, &claim).await;
        let status = backend.inspect(claim.name()).await.unwrap().remove(0);
        assert_eq!(status.token.unwrap().get(), made.unsigned_abs(), "{name}");
        let waiters = backend.waiters(claim.name()).await.unwrap();
        assert_eq!(waiters.len(), 1, "{name}");
        assert_eq!(waiters[0].owner, Some(claim.owner()), "{name}");

        look.delete(&node).await;
        changed(&backend, &claim).await;
        let token = hold(&backend, &claim).await;
        assert_eq!(backend.inspect(claim.name()).await.unwrap().remove(0).token, Some(token), "{name}");
    }
}

#[tokio::test]
async fn a_node_of_a_number_that_is_taken_overtakes_neither_its_holder_nor_a_waiter() {
    let server = server();
    let look = Look::at(&server).await;
    for (at, name) in NAMES.into_iter().enumerate() {
        let (one, other) = (backend(&server.url()), backend(&server.url()));
        let lock = format!("job-{at}");
        let (holder, waiter, last) = (claim(&lock), claim(&lock), claim(&lock));
        let token = hold(&one, &holder).await;
        busy(&other, &waiter).await;
        let nodes = [0, 1].map(|number| format!("{BASE}/{lock}/{name}{number:010}"));
        for node in &nodes {
            look.make(node, CreateMode::Ephemeral).await;
        }
        // Behind both of the number 1, of which the first is of its own process.
        busy(&other, &last).await;

        let held_by = async || one.inspect(holder.name()).await.unwrap().remove(0).token;
        assert_eq!(held_by().await, Some(token), "{name}");
        assert_eq!(renew(&one, &holder).await.unwrap(), Renewal::Renewed, "{name}");
        assert_eq!(hold(&one, &holder).await, token, "asked again, it has what it has: {name}");
        release(&one, &holder).await;
        busy(&other, &waiter).await;
        look.delete(&nodes[0]).await;
        changed(&other, &waiter).await;
        let token = hold(&other, &waiter).await;
        assert_eq!(held_by().await, Some(token), "{name}");

        release(&other, &waiter).await;
        busy(&other, &last).await;
        look.delete(&nodes[1]).await;
        changed(&other, &last).await;
        hold(&other, &last).await;
    }
}

/// Nobody can tell when it came.
#[tokio::test]
async fn a_node_of_our_number_that_may_not_be_read_is_never_passed_by() {
    use leasehold_core::ErrorKind;
    use zookeeper_client::Acls;
    let server = server();
    let (look, backend) = (Look::with_user(&server, Some("other:secret")).await, backend(&server.url()));
    look.make(BASE, CreateMode::Persistent).await;
    look.make(&format!("{BASE}/job"), CreateMode::Persistent).await;
    let closed = CreateMode::Ephemeral.with_acls(Acls::creator_all());
    let node = format!("{BASE}/job/zz-lock-0000000001");
    look.0.create(&node, b"", &closed).await.unwrap();

    let claim = claim("job");
    let error = answered(backend.try_acquire(&claim)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let error = backend.inspect(claim.name()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    release(&backend, &claim).await;
    assert_eq!(look.line("job").await, ["zz-lock-0000000001"], "it leaves nonetheless");
}
