//! What a fail-over costs: the time to the next grant, and how often the last one was lost.
//!
//! `cargo bench -p leasehold-redis --all-features --bench failover [-- FAILOVERS]`: a primary, a replica and three
//! Sentinels, which let the primary be silent for 300 ms. Before each fail-over the replica is cut off, so that what is
//! granted then is lost for certain; one client takes it as it comes, the other waits for the replica.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that unwraps fails, and prints what it finds"
)]

use leasehold_core::{AcquireOptions, DistributedLockExt, FencingToken, LockClient, LockName, Namespace};
use leasehold_redis::{DEFAULT_PREFIX, RedisBackend};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisSentinelGroup;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FAILOVERS: usize = 50;
const TTL: Duration = Duration::from_secs(60);

/// What was seen of one way to take a lock.
#[derive(Default)]
struct Seen {
    tokens: Vec<FencingToken>,
    doubles: usize,
    refused: usize,
    times: Vec<Duration>,
}

#[tokio::main]
async fn main() {
    let failovers = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(FAILOVERS);
    let mut group = RedisSentinelGroup::start().unwrap();
    let url = group.url();
    let ways =
        [("as it comes", url.clone()), ("wait_replicas=1", format!("{url}?wait_replicas=1&timeout=8s"))];
    let mut seen = ways.each_ref().map(|_| Seen::default());
    for round in 0..failovers {
        group.cut_replica_off().unwrap();
        let mut held = Vec::new();
        for ((way, url), seen) in ways.iter().zip(&mut seen) {
            let options = AcquireOptions::new().with_ttl(TTL).with_wait(Duration::from_secs(2));
            let guard = client(url).acquire_with(&name(way), &options).await;
            seen.refused += usize::from(guard.is_err());
            seen.tokens.extend(guard.iter().map(|guard| guard.token().unwrap()));
            held.push(guard.ok());
        }
        let start = Instant::now();
        let fail_over = tokio::task::spawn_blocking(move || {
            group.fail_over().unwrap();
            group
        });
        for ((way, _), (seen, held)) in ways.iter().zip(seen.iter_mut().zip(held)) {
            let options = AcquireOptions::new().with_ttl(TTL).with_wait(TTL);
            let next = client(&url).acquire_with(&name(way), &options).await.unwrap();
            seen.times.push(start.elapsed());
            seen.tokens.push(next.token().unwrap());
            seen.doubles += usize::from(held.is_some_and(|guard| guard.is_held()));
            next.release().await.unwrap();
        }
        group = fail_over.await.unwrap();
        group.heal().unwrap();
        println!("{}/{failovers}", round + 1);
    }
    for ((way, _), seen) in ways.iter().zip(seen) {
        report(way, seen);
    }
}

fn report(way: &str, mut seen: Seen) {
    seen.times.sort();
    let grown = seen.tokens.windows(2).all(|pair| pair[0] < pair[1]);
    println!(
        "{way}: {} fail-overs, next grant after p50 {:?}, max {:?}; {} double grants, {} refused; {} tokens, each larger than the last: {grown}",
        seen.times.len(),
        seen.times[seen.times.len() / 2],
        seen.times[seen.times.len() - 1],
        seen.doubles,
        seen.refused,
        seen.tokens.len(),
    );
}

fn client(url: &str) -> LockClient {
    let backend =
        RedisBackend::open(&StoreUrl::parse(url).unwrap(), &Namespace::new(DEFAULT_PREFIX).unwrap());
    LockClient::new(Arc::new(backend.unwrap()))
}

fn name(way: &str) -> LockName {
    LockName::new(way).unwrap()
}
