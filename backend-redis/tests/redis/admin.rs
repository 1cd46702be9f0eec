//! Looking at locks and freeing them by hand.

use crate::kit::{
    Look, TTL, backend, busy, claim, claim_for, hold, holder_info, keys, name, release, renew, server,
    with_prefix,
};
use leasehold_core::{
    ErrorKind, FencingToken, HolderInfo, LockAdmin, LockBackend, LockMode, LossCause, Renewal,
};
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn inspect_of_a_held_lock_shows_all_and_changes_nothing() {
    let server = server();
    let backend = backend(&server.url());
    assert!(backend.inspect(&name("job")).await.unwrap().is_empty());
    let claim = claim("job");
    let token = hold(&backend, &claim).await;

    let before = (server.keys(), server.get(&keys("job").lock), server.get(&keys("job").holder));
    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert_eq!(status.name, name("job"));
    assert_eq!((status.owner, status.token), (Some(claim.owner()), Some(token)));
    assert_eq!(status.holder, holder_info());
    let age = SystemTime::now().duration_since(status.acquired_at.unwrap()).unwrap();
    assert!(age < Duration::from_secs(10), "{age:?}");
    let left = status.ends_in.unwrap();
    assert!(left > Duration::from_secs(50) && left <= TTL, "{left:?}");
    let after = (server.keys(), server.get(&keys("job").lock), server.get(&keys("job").holder));
    assert_eq!(before, after);
    assert!(backend.waiters(&name("job")).await.unwrap().is_empty());
}

#[tokio::test]
async fn lock_of_another_program_is_shown_without_owner_and_token() {
    let server = server();
    let backend = backend(&server.url());
    server.command(&["SET", "leasehold:job", "5f0c", "PX", "60000"]).unwrap();
    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert_eq!((status.owner, status.token, &status.holder), (None, None, &HolderInfo::default()));
    assert!(status.ends_in.unwrap() <= TTL);

    server.set("leasehold:hand", "by hand");
    assert_eq!(backend.inspect(&name("hand")).await.unwrap().remove(0).ends_in, None);
}

#[tokio::test]
async fn stale_record_beside_the_lock_of_another_program_is_ignored() {
    let server = server();
    let backend = backend(&server.url());
    let token = hold(&backend, &claim("job")).await;
    server.command(&["SET", "leasehold:job", "5f0c"]).unwrap();

    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert_eq!((status.owner, status.token, status.ends_in), (None, None, None));
    assert!(backend.force_release(&name("job"), Some(token)).await.unwrap().is_empty());
    assert_eq!(server.get("leasehold:job").as_deref(), Some("5f0c"));
    assert!(backend.force_release(&name("job"), None).await.unwrap().remove(0).token.is_none());
    hold(&backend, &claim("job")).await;
}

#[tokio::test]
async fn vanished_lock_is_shown_while_it_is_kept_for_its_holder() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    let token = hold(&backend, &claim).await;
    server.del(&keys("job").lock);
    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert_eq!((status.owner, status.token), (Some(claim.owner()), Some(token)));
    assert!(status.ends_in.unwrap() > Duration::from_secs(50));
    assert_eq!(backend.list("").await.unwrap().len(), 1);

    assert!(!backend.force_release(&name("job"), Some(token)).await.unwrap().is_empty());
    hold(&backend, &crate::kit::claim("job")).await;
}

#[tokio::test]
async fn lingering_lock_has_no_owner_and_can_be_freed() {
    let server = server();
    let backend = backend(&server.url());
    let last = claim("job");
    let token = hold(&backend, &last).await;
    backend.release(&last, TTL * 2).await.unwrap();
    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert_eq!((status.owner, status.token), (None, Some(token)));
    assert_eq!(status.holder, holder_info());
    assert!(status.ends_in.unwrap() > TTL);

    assert!(!backend.force_release(&name("job"), Some(token)).await.unwrap().is_empty());
    hold(&backend, &claim("job")).await;
}

#[tokio::test]
async fn force_release_frees_at_once_and_the_next_token_is_larger() {
    let server = server();
    let backend = backend(&server.url());
    let first = claim("job");
    let token = hold(&backend, &first).await;
    let broken = backend.force_release(&name("job"), None).await.unwrap().remove(0);
    assert_eq!(
        (broken.owner, broken.token, broken.holder),
        (Some(first.owner()), Some(token), holder_info())
    );
    assert_eq!(server.keys(), [keys("job").token]);

    assert!(hold(&backend, &claim("job")).await > token);
    assert_eq!(renew(&backend, &first).await.unwrap(), Renewal::Lost(LossCause::Taken));
    assert!(backend.force_release(&name("free"), None).await.unwrap().is_empty());
}

#[tokio::test]
async fn force_release_with_a_token_frees_that_grant_and_no_other() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    let token = hold(&backend, &claim).await;
    for other in [FencingToken::new(1), FencingToken::new(token.get() + 1)] {
        assert!(backend.force_release(&name("job"), Some(other)).await.unwrap().is_empty());
    }
    assert_eq!(server.get(&keys("job").lock), Some(claim.owner().to_hex()));
    assert!(!backend.force_release(&name("job"), Some(token)).await.unwrap().is_empty());
    assert_eq!(server.get(&keys("job").lock), None);
}

#[tokio::test]
async fn list_has_the_held_names_of_the_prefix_in_order_and_no_others() {
    let server = server();
    let backend = backend(&server.url());
    let odd = ["b/{x}", "b/*", "b/100%", "b/[a]", "b/é🔒"];
    for lock in odd {
        hold(&backend, &claim(lock)).await;
    }
    hold(&backend, &claim("a")).await;
    let freed = claim("b/freed");
    hold(&backend, &freed).await;
    release(&backend, &freed).await;
    server.set("leasehold:b/foreign", "x");
    server.set("{leasehold:b/garbage}:holder", "x");
    let elsewhere = with_prefix(&server.url(), "other:").unwrap();
    hold(&elsewhere, &claim("b/elsewhere")).await;

    let listed = |statuses: Vec<leasehold_core::LockStatus>| -> Vec<String> {
        statuses.iter().map(|status| status.name.to_string()).collect()
    };
    let mut expected: Vec<String> = odd.map(str::to_owned).into();
    expected.sort();
    assert_eq!(listed(backend.list("b/").await.unwrap()), expected);
    assert_eq!(listed(backend.list("b/*").await.unwrap()), ["b/*"]);
    assert_eq!(listed(backend.list("b/{").await.unwrap()), ["b/{x}"]);
    assert_eq!(backend.list("").await.unwrap().len(), 6);
    assert!(backend.list("zz").await.unwrap().is_empty());
}

#[tokio::test]
async fn list_is_complete_over_many_pages_and_survives_foreign_keys() {
    let server = server();
    let backend = with_prefix(&server.url(), "").unwrap();
    for i in 0..1500 {
        hold(&backend, &claim_for(&format!("job/{i:04}"), TTL)).await;
    }
    server.command(&["HSET", "user", "name", "x"]).unwrap();
    server.set("{user}:holder", "a foreign string");
    server.command(&["RPUSH", "{list}:holder", "x"]).unwrap();
    let listed = backend.list("job/").await.unwrap();
    assert_eq!(listed.len(), 1500);
    assert!(listed.is_sorted_by(|a, b| a.name < b.name));
    assert_eq!(backend.list("").await.unwrap().len(), 1500);
}

#[tokio::test]
async fn init_needs_a_server_and_creates_nothing() {
    let mut server = server();
    let there = backend(&server.url());
    there.init().await.unwrap();
    assert!(there.init_script().is_none() && server.keys().is_empty());
    server.kill();
    let gone = backend(&server.url());
    assert_eq!(gone.init().await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn prefixes_separate_applications() {
    let server = server();
    let (shop, mail) =
        (with_prefix(&server.url(), "shop:").unwrap(), with_prefix(&server.url(), "{mail}:").unwrap());
    hold(&shop, &claim("job")).await;
    hold(&mail, &claim("job")).await;
    assert!(busy(&mail, &claim("job")).await.is_some());
    assert_eq!(server.get("{mail}:{job}:holder").map(|record| record.len() > 32), Some(true));
    assert_eq!(shop.list("").await.unwrap().len(), 1);
    assert_eq!(mail.list("j").await.unwrap().len(), 1);
}

#[tokio::test]
async fn free_names_are_forgotten_and_held_and_awaited_ones_are_kept() {
    let server = server();
    let backend = backend(&server.url());
    let (free, held, waiter) = (claim("free"), claim("held"), claim("held").with_waiting(true));
    let reader = claim("read").with_mode(LockMode::Shared);
    for claim in [&free, &held, &reader] {
        hold(&backend, claim).await;
    }
    busy(&backend, &waiter).await;
    release(&backend, &free).await;
    assert_eq!(server.keys().iter().filter(|key| key.contains("free")).count(), 1, "its last token");
    let kept = server.keys().len() - 1;
    let names = [&free, &held, &reader].map(|claim| claim.name().clone());
    backend.forget(&names).await.unwrap();
    assert_eq!(server.keys().iter().filter(|key| key.contains("free")).count(), 0);
    assert_eq!(server.keys().len(), kept);
    for claim in [&held, &reader] {
        assert_eq!(renew(&backend, claim).await.unwrap(), Renewal::Renewed);
    }
}
