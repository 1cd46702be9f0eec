//! The operator's side: look at locks, and release them by force.

use crate::kit::*;
use leasehold_core::{DistributedLockExt, ErrorKind, FencingToken, LockAdmin, LossCause};
use leasehold_test_stores::servers::ZooKeeperServer;
use std::time::Duration;
use zookeeper_client::{Acls, CreateMode};

#[tokio::test]
async fn inspect_shows_the_holder_and_waiters_shows_the_queue() {
    let server = server();
    let backend = backend(&server.url());
    let line: Vec<_> = (0..4).map(|_| claim("job")).collect();
    assert!(backend.inspect(line[0].name()).await.unwrap().is_empty());
    let token = hold(&backend, &line[0]).await;
    for waiter in &line[1..] {
        busy(&backend, waiter).await;
    }

    let status = backend.inspect(line[0].name()).await.unwrap().remove(0);
    assert_eq!((status.owner, status.token), (Some(line[0].owner()), Some(token)));
    assert_eq!((status.holder.pid, status.holder.doing.as_str()), (7, "two words"));
    assert!(status.acquired_at.is_some() && status.ends_in.is_none());
    let waiters = backend.waiters(line[0].name()).await.unwrap();
    let owners: Vec<_> = waiters.iter().map(|waiter| waiter.owner.unwrap()).collect();
    assert_eq!(owners, line[1..].iter().map(|claim| claim.owner()).collect::<Vec<_>>());
    assert!(waiters.iter().all(|waiter| waiter.waiting.unwrap() < Duration::from_secs(30)));
    assert!(waiters.iter().all(|waiter| waiter.holder.doing == "two words"));
}

#[tokio::test]
async fn list_shows_held_locks_in_the_order_of_names() {
    let server = server();
    let backend = backend(&server.url());
    assert!(backend.list("").await.unwrap().is_empty());
    for lock in ["b", "a/2", "a/1", "c"] {
        hold(&backend, &claim(lock)).await;
    }
    let gone = claim("a/3");
    hold(&backend, &gone).await;
    release(&backend, &gone).await;

    let names = async |prefix: &str| -> Vec<String> {
        backend.list(prefix).await.unwrap().into_iter().map(|status| status.name.to_string()).collect()
    };
    assert_eq!(names("").await, ["a/1", "a/2", "b", "c"]);
    assert_eq!(names("a/").await, ["a/1", "a/2"]);
    assert_eq!(names("x").await, [""; 0]);
}

#[tokio::test]
async fn list_leaves_out_a_directory_that_may_not_be_read() {
    let server = server();
    let (backend, look) = (backend(&server.url()), Look::with_user(&server, Some("other:secret")).await);
    for lock in ["a", "c"] {
        hold(&backend, &claim(lock)).await;
    }
    let closed = CreateMode::Persistent.with_acls(Acls::creator_all());
    look.0.create(&format!("{BASE}/b"), b"", &closed).await.unwrap();
    let held = backend.list("").await.unwrap();
    assert_eq!(held.iter().map(|status| status.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(backend.inspect(&name("b")).await.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn lock_of_another_program_is_shown_with_its_data() {
    let server = server();
    let look = Look::at(&server).await;
    look.make(BASE, CreateMode::Persistent).await;
    look.make(&format!("{BASE}/job"), CreateMode::Persistent).await;
    let path = format!("{BASE}/job/_c_01234567-89ab-cdef-0123-456789abcdef-lock-");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    look.0.create(&path, b"10.0.0.7", &options).await.unwrap();
    let status = backend(&server.url()).inspect(&name("job")).await.unwrap().remove(0);
    assert_eq!(status.holder.doing, "10.0.0.7");
    assert!(status.token.is_some());
}

#[tokio::test]
async fn forced_release_frees_the_lock_and_tells_its_holder_at_once() {
    let server = server();
    let (client, admin) = (client(&server.url()), backend(&server.url()));
    let guard = client.acquire("job").await.unwrap();
    let token = guard.token().unwrap();
    first_renewal(&server).await;
    let wrong = FencingToken::new(token.get() + 1);
    assert!(admin.force_release(&name("job"), Some(wrong)).await.unwrap().is_empty());
    assert!(guard.is_held());

    let broken = admin.force_release(&name("job"), Some(token)).await.unwrap().remove(0);

    assert_eq!(broken.token, Some(token));
    let loss = within(Duration::from_secs(1), guard.lost()).await;
    assert_eq!(loss.cause(), LossCause::Gone);
    assert!(admin.force_release(&name("job"), None).await.unwrap().is_empty());
    let next = answered(client.acquire("job")).await.unwrap();
    assert!(next.token().unwrap() > token);
}

/// Waits for the watch on the holder's node, which its first renewal sets. The second one is two and a half seconds away.
async fn first_renewal(server: &ZooKeeperServer) {
    let is_watched = async || (server.counter("zk_watch_count").unwrap() == 1).then_some(());
    within(Duration::from_secs(1), eventually(is_watched)).await;
}

#[tokio::test]
async fn holder_whose_lock_has_another_holder_is_told_that_it_was_taken() {
    let server = server();
    let (client, other) = (client(&server.url()), client(&server.url()));
    let guard = client.acquire("job").await.unwrap();
    first_renewal(&server).await;
    let waiter = tokio::spawn(async move { other.acquire("job").await });
    let admin = backend(&server.url());
    eventually(async || (admin.waiters(&name("job")).await.unwrap().len() == 1).then_some(())).await;

    admin.force_release(&name("job"), None).await.unwrap().remove(0);

    let loss = within(Duration::from_secs(1), guard.lost()).await;
    assert_eq!(loss.cause(), LossCause::Taken);
    assert!(answered(waiter).await.unwrap().unwrap().is_held());
}

#[tokio::test]
async fn init_makes_the_directory_and_changes_nothing_the_second_time() {
    let server = server();
    let backend = backend(&format!("{}/a/b", server.url()));
    backend.init().await.unwrap();
    backend.init().await.unwrap();
    assert_eq!(Look::at(&server).await.children("/a").await, ["b"]);
}

#[tokio::test]
async fn free_names_are_forgotten_and_held_ones_are_kept() {
    let server = server();
    let backend = backend(&server.url());
    let (free, held) = (claim("free"), claim("held"));
    for claim in [&free, &held] {
        hold(&backend, claim).await;
    }
    release(&backend, &free).await;
    backend.forget(&[free.name().clone(), held.name().clone()]).await.unwrap();
    assert_eq!(Look::at(&server).await.children("/leasehold").await, ["held"]);
}
