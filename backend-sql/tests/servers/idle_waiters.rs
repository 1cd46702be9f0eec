//! What waiters of one process cost the database: no more with their number, nor with that of the names that they wait for.

use crate::kit::{claim, granted, on_both, open};
use leasehold_conformance::proxy::Proxy;
use leasehold_core::{Claim, DistributedLockExt, LockClient, LockGuard, Result};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const WAITERS: usize = 200;
/// So many that a statement of each would be seen, and work of each for all others too.
const IDLE: usize = 1_000;
const NAME: &str = "wanted";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_costs_the_waiters_of_one_process_a_few_statements() {
    on_both(async |server| {
        let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        let client =
            LockClient::new(open(&server.url_at(proxy.address().port(), "locker:sesame", "")).unwrap());
        let (holder, held) = (server.backend(""), claim(NAME));
        granted(&holder, &held).await;
        let mut waiters = wait_all(&client, WAITERS);
        let before = requests_of_idle_waiters(&proxy).await;
        holder.release(&held, Duration::ZERO).await.unwrap();
        let guard = waiters.join_next().await.unwrap().unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let asked = proxy.requests() - before;
        // Polls, the attempt of the first in line, and a question of the next.
        assert!(
            (1..=WAITERS as u64 / 2).contains(&asked),
            "{WAITERS} waiters made {asked} requests for one grant"
        );
        assert!(waiters.try_join_next().is_none(), "two hold the lock");
        guard.release().await.unwrap();
        waiters.shutdown().await;
    })
    .await;
}

/// The number of requests once each waiter has asked, and nothing but a few polls is sent any more.
async fn requests_of_idle_waiters(proxy: &Proxy) -> u64 {
    for _ in 0..50 {
        let before = proxy.requests();
        tokio::time::sleep(Duration::from_millis(600)).await;
        if before > 0 && proxy.requests() - before <= WAITERS as u64 / 10 {
            return proxy.requests();
        }
    }
    panic!("the waiters ask all the time");
}

/// The number of statements depends neither on the number of waiters, nor on that of names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_idle_waiters_are_constant_in_their_number() {
    on_both(async |server| {
        for mode in ["lease", "optimistic", "for-update"] {
            let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
            let url =
                server.url_at(proxy.address().port(), "locker:sesame", &format!("mode={mode}&timeout=20s"));
            let client = LockClient::new(open(&url).unwrap());
            let held = claim(NAME);
            let holder = server.backend(&format!("mode={mode}"));
            granted(&holder, &held).await;
            let mut waiters = wait_all(&client, 1);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let mut others = wait_all(&client, IDLE - 1);
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            let before = proxy.requests();
            tokio::time::sleep(Duration::from_secs(2)).await;
            let asked = proxy.requests() - before;
            println!("{IDLE} idle waiters, {mode}: {asked} requests in two seconds");
            assert!(asked <= 60, "{mode}: {asked} requests in two seconds");
            let ended = waiters.try_join_next().or_else(|| others.try_join_next());
            assert!(ended.is_none(), "a waiter has ended: {ended:?}");
            waiters.shutdown().await;
            others.shutdown().await;
            holder.release(&held, Duration::ZERO).await.unwrap();
        }
    })
    .await;
}

/// More names than go into one statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_many_names_share_their_statements_and_each_is_woken() {
    const NAMES: u64 = 150;
    on_both(async |server| {
        let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        let client =
            LockClient::new(open(&server.url_at(proxy.address().port(), "locker:sesame", "")).unwrap());
        let holder = server.backend("");
        let held: Vec<Claim> = (0..NAMES).map(|number| claim(&format!("n{number}"))).collect();
        let mut waiters = Vec::new();
        for claim in &held {
            granted(&holder, claim).await;
            let (client, name) = (client.clone(), claim.name().clone());
            waiters.push(tokio::spawn(async move { client.acquire(name).await }));
        }
        // On a busy machine, the first requests of all of them take a while.
        let start = Instant::now();
        loop {
            let before = proxy.requests();
            tokio::time::sleep(Duration::from_secs(2)).await;
            let asked = proxy.requests() - before;
            println!("waiters of {NAMES} names: {asked} requests in two seconds");
            if asked <= 100 {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{asked} requests in two seconds");
        }
        for (claim, waiter) in held.iter().zip(waiters) {
            let released = Instant::now();
            holder.release(claim, Duration::ZERO).await.unwrap();
            let guard =
                tokio::time::timeout(Duration::from_secs(10), waiter).await.unwrap().unwrap().unwrap();
            let took = released.elapsed();
            assert!(took < Duration::from_millis(400), "{} after {took:?}", claim.name());
            guard.release().await.unwrap();
        }
    })
    .await;
}

/// So many tasks of one client that wait for the lock.
fn wait_all(client: &LockClient, count: usize) -> JoinSet<Result<LockGuard>> {
    let mut waiters = JoinSet::new();
    for _ in 0..count {
        let client = client.clone();
        waiters.spawn(async move { client.acquire(NAME).await });
    }
    waiters
}
