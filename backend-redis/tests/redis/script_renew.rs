//! `renew.lua`, branch by branch.

use crate::kit::{Look, TTL, again_for, backend, claim, hold, keys, renew, server};
use leasehold_core::{Claim, LockBackend, LossCause, Renewal, Result};
use std::time::Duration;

const GONE: Renewal = Renewal::Lost(LossCause::Gone);
const TAKEN: Renewal = Renewal::Lost(LossCause::Taken);

#[tokio::test]
async fn renewal_lengthens_lock_and_record_and_keeps_the_token() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    let token = hold(&backend, &claim).await;
    let keys = keys("job");

    let longer = again_for(&claim, TTL * 2);
    assert_eq!(renew(&backend, &longer).await.unwrap(), Renewal::Renewed);
    assert!(server.pttl(&keys.lock) > 110_000);
    assert!(server.end_together(&keys.lock, &keys.holder));
    assert_eq!(hold(&backend, &claim).await, token);
}

#[tokio::test]
async fn renewal_never_shortens_a_lease() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    hold(&backend, &claim).await;
    let shorter = again_for(&claim, Duration::from_secs(1));
    assert_eq!(renew(&backend, &shorter).await.unwrap(), Renewal::Renewed);
    assert!(server.pttl(&keys("job").lock) > 50_000 && server.pttl(&keys("job").holder) > 50_000);
}

#[tokio::test]
async fn lock_that_is_gone_is_not_brought_back() {
    let server = server();
    let backend = backend(&server.url());
    assert_eq!(renew(&backend, &claim("never")).await.unwrap(), GONE);

    let vanished = claim("job");
    hold(&backend, &vanished).await;
    server.del(&keys("job").lock);
    let longer = again_for(&vanished, TTL * 2);
    assert_eq!(renew(&backend, &longer).await.unwrap(), GONE);
    assert_eq!(server.get(&keys("job").lock), None);
    assert!(server.pttl(&keys("job").holder) <= 60_000, "its record is not lengthened either");
}

#[tokio::test]
async fn another_owners_lock_is_not_touched() {
    let server = server();
    let backend = backend(&server.url());
    hold(&backend, &claim("job")).await;
    let late = again_for(&claim("job"), TTL * 2);
    assert_eq!(renew(&backend, &late).await.unwrap(), TAKEN);
    assert!(server.pttl(&keys("job").lock) <= 60_000 && server.pttl(&keys("job").holder) <= 60_000);
}

#[tokio::test]
async fn released_lock_that_lingers_is_gone_for_its_last_holder() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    hold(&backend, &claim).await;
    backend.release(&claim, Duration::from_secs(5)).await.unwrap();
    assert_eq!(renew(&backend, &claim).await.unwrap(), GONE);
    assert!(server.pttl(&keys("job").lock) <= 5_000);
}

#[tokio::test]
async fn every_claim_of_a_batch_has_its_own_answer_in_order() {
    let server = server();
    let backend = backend(&server.url());
    let claims: Vec<Claim> = (0..300).map(|i| claim(&format!("job/{i}"))).collect();
    for (i, claim) in claims.iter().enumerate() {
        match i % 3 {
            0 => drop(hold(&backend, claim).await),
            1 => drop(hold(&backend, &crate::kit::claim(claim.name().as_str())).await),
            _ => {}
        }
    }
    let before = server.calls("evalsha");
    let answers: Vec<Renewal> = backend.renew(&claims).await.into_iter().map(Result::unwrap).collect();
    let expected: Vec<Renewal> = (0..300).map(|i| [Renewal::Renewed, TAKEN, GONE][i % 3]).collect();
    assert_eq!(answers, expected);
    assert_eq!(server.calls("evalsha") - before, 3, "300 claims travel in calls of 128");
    assert!(backend.renew(&[]).await.is_empty());
}

#[tokio::test]
async fn foreign_data_under_one_name_does_not_keep_the_others_from_renewal() {
    let server = server();
    let backend = backend(&server.url());
    let (first, second) = (claim("a"), claim("b"));
    hold(&backend, &first).await;
    hold(&backend, &second).await;
    server.del(&keys("a").lock);
    server.command(&["HSET", &keys("a").lock, "field", "1"]).unwrap();

    let answers = backend.renew(&[first, again_for(&second, TTL * 2)]).await;
    let answers: Vec<Renewal> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, [TAKEN, Renewal::Renewed]);
    assert!(server.pttl(&keys("b").lock) > 110_000);
}

/// It would outlive its holder for ever.
#[tokio::test]
async fn lock_without_an_end_is_given_one_again() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    hold(&backend, &claim).await;
    for key in [keys("job").lock, keys("job").holder] {
        server.command(&["PERSIST", &key]).unwrap();
        assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
        assert!((50_000..=60_000).contains(&server.pttl(&key)), "{key}: {}", server.pttl(&key));
    }
    let longer = again_for(&claim, TTL * 2);
    let (extended, looked) = (server.calls("pexpire"), server.calls("pttl"));
    assert_eq!(renew(&backend, &longer).await.unwrap(), Renewal::Renewed);
    assert_eq!(server.calls("pexpire") - extended, 2);
    assert_eq!(server.calls("pttl"), looked, "nothing is looked at where nobody meddled");
}
