//! What it costs to hold many locks: a hundred thousand names, held and renewed by one process for two minutes.
//!
//! `cargo bench -p leasehold-redis --bench held`. Fails if a single one is lost.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a program that measures, stops at the first surprise, and prints"
)]

use leasehold_core::{
    AcquireOptions, DistributedLockExt, Event, Health, LockClient, LockGuard, LockName, Namespace, Observer,
};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const NAMES: usize = 100_000;
const AT_ONCE: usize = 64;
const TTL: Duration = Duration::from_secs(30);
const HOLD: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
struct Counters {
    losses: AtomicU64,
    troubles: AtomicU64,
}

impl Observer for Counters {
    fn event(&self, event: &Event<'_>) {
        let counter = match event {
            Event::Lost { .. } => &self.losses,
            _ => &self.troubles,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::main]
async fn main() {
    let server = RedisServer::start().unwrap();
    let url = StoreUrl::parse(&server.url()).unwrap();
    let backend =
        leasehold_redis::open(&url, &Namespace::new(leasehold_redis::DEFAULT_PREFIX).unwrap()).unwrap();
    let counters = Arc::<Counters>::default();
    let locks =
        LockClient::builder(backend).with_observer(Arc::clone(&counters) as Arc<dyn Observer>).build();

    let (memory_before, server_memory_before) = (resident_kib(), info(&server, "memory", "used_memory:"));
    let start = Instant::now();
    let guards = acquire_all(&locks).await;
    let acquiring = start.elapsed();
    let memory = resident_kib() - memory_before;
    let server_memory = info(&server, "memory", "used_memory:") - server_memory_before;

    let (cpu_before, server_cpu_before, renewed_before) =
        (cpu_time(), server_cpu(&server), extensions(&server));
    let calls_before = info(&server, "commandstats", "cmdstat_evalsha:calls=");
    tokio::time::sleep(HOLD).await;
    let cpu = cpu_time() - cpu_before;
    let server_cpu = server_cpu(&server) - server_cpu_before;
    // Each renewal extends a lock and its record.
    let renewals = (extensions(&server) - renewed_before) / 2;

    let calls = info(&server, "commandstats", "cmdstat_evalsha:calls=") - calls_before;

    let held = guards.iter().filter(|guard| guard.health() == Health::Held).count();
    let start = Instant::now();
    release_all(guards).await;
    let releasing = start.elapsed();

    println!("{NAMES} names, leases of {TTL:?}, held for {HOLD:?}");
    println!(
        "held at the end {held}, lost {}, troubles {}",
        counters.losses.load(Ordering::Relaxed),
        counters.troubles.load(Ordering::Relaxed)
    );
    println!(
        "renewals {renewals}, {:.1} for each name; {:.1} requests a second",
        renewals as f64 / NAMES as f64,
        calls as f64 / HOLD.as_secs_f64()
    );
    println!(
        "CPU of this process {:.2} s ({:.1} µs a renewal), of the server {server_cpu:.2} s",
        cpu.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / renewals as f64
    );
    println!(
        "memory of this process +{memory} KiB ({} bytes a name), of the server {} bytes a name",
        memory * 1024 / NAMES as u64,
        server_memory / NAMES as u64
    );
    println!("acquired in {acquiring:.2?}, released in {releasing:.2?}, {AT_ONCE} at a time");
    assert_eq!(held, NAMES, "some were lost");
}

async fn acquire_all(locks: &LockClient) -> Vec<LockGuard> {
    let mut tasks = JoinSet::new();
    for part in 0..AT_ONCE {
        let locks = locks.clone();
        tasks.spawn(async move {
            let options = AcquireOptions::new().with_ttl(TTL);
            let mut guards = Vec::new();
            for number in (part..NAMES).step_by(AT_ONCE) {
                let name = LockName::new(format!("held/{number}")).unwrap();
                guards.push(locks.acquire_with(&name, &options).await.unwrap());
            }
            guards
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

async fn release_all(guards: Vec<LockGuard>) {
    let mut guards = guards.into_iter();
    loop {
        let some: JoinSet<_> = guards.by_ref().take(AT_ONCE).map(LockGuard::release).collect();
        if some.is_empty() {
            return;
        }
        some.join_all().await.into_iter().collect::<Result<(), _>>().unwrap();
    }
}

/// How often the server has extended a key.
fn extensions(server: &RedisServer) -> u64 {
    info(server, "commandstats", "cmdstat_pexpire:calls=")
}

/// A number that the server tells of itself; zero as long as there is none.
fn info(server: &RedisServer, section: &str, field: &str) -> u64 {
    let stats = server.command(&["INFO", section]).unwrap();
    let number = stats.lines().find_map(|line| line.strip_prefix(field));
    number.map_or(0, |number| number.split(',').next().unwrap().trim().parse().unwrap())
}

/// Seconds on a processor that the server has had so far.
fn server_cpu(server: &RedisServer) -> f64 {
    let stats = server.command(&["INFO", "cpu"]).unwrap();
    let seconds = |field: &str| -> f64 {
        stats.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().parse().unwrap()
    };
    seconds("used_cpu_user:") + seconds("used_cpu_sys:")
}

/// Time on a processor that this process has had so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Memory that this process has in use.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
