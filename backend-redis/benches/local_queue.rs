//! What the local queue brings and costs: hand-overs of one name among 64 tasks of one process and of four, how evenly
//! the processes are served, what it adds to an uncontended pair, and the memory of a waiter.
//!
//! `cargo bench -p leasehold-redis --bench local_queue`. With and without it take turns in one run: only the ratios mean
//! anything on another machine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a program that measures, stops at the first surprise, and prints"
)]

use leasehold_conformance::servers::RedisServer;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, LocalQueue, LockBackend, LockClient, LockName,
    Namespace, StoreUrl,
};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const TASKS: u64 = 64;
const PROCESSES: u64 = 4;
const GRANTS: [u32; 6] = [0, 1, 16, 32, 64, 256];
const ROUNDS: usize = 9;
const WARM_UP: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_millis(1000);
const NAME: &str = "bench/local";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("worker") => return worker(&arguments[2..]),
        Some("waiters") => return waiters(&arguments[2..]),
        _ => {}
    }
    let server = RedisServer::start().unwrap();
    let redis = |grants| client(redis_backend(&server.url()), grants);
    println!(
        "{TASKS} tasks of one process, one name: hand-overs/s, median of 3; every token larger than the last"
    );
    for grants in GRANTS {
        let memory = (0..3).map(|_| in_one_process(&client(Arc::new(MemoryBackend::new()), grants)));
        let memory = median(memory.collect());
        let on_redis = median((0..3).map(|_| in_one_process(&redis(grants))).collect());
        println!("local_queue={grants:<4} memory {memory:>8.0}   redis {on_redis:>8.0}");
    }
    println!("{PROCESSES} processes of {} tasks, one name on Redis", TASKS / PROCESSES);
    for grants in GRANTS {
        in_processes(&server.url(), grants);
    }
    println!("memory of a waiter, its task and timer included:");
    for grants in [0, 64] {
        println!("local_queue={grants:<4} {:>6} bytes", memory_of_a_waiter(&server.url(), grants));
    }
    println!("server and this process on a core each: {}", if pin(&server) { "yes" } else { "no" });
    println!("acquire + release, uncontended, with the queue ÷ without; medians of {ROUNDS} windows each");
    for tasks in [1, TASKS] {
        let windows = |grants| uncontended(&redis(grants), tasks);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // First the one, then the other: who comes second finds a warmer machine.
            let (first, second) = if round % 2 == 0 { (0, 64) } else { (64, 0) };
            for grants in [first, second] {
                let windows_of = if grants == 0 { &mut without } else { &mut with };
                windows_of.push(windows(grants));
            }
        }
        let (with, without) = (median(with), median(without));
        println!("{tasks:>3} tasks: {with:>7.0} ÷ {without:>7.0} pairs/s = {:.3}", with / without);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn redis_backend(url: &str) -> Arc<dyn LockBackend> {
    let namespace = Namespace::new(leasehold_redis::DEFAULT_PREFIX).unwrap();
    leasehold_redis::open(&StoreUrl::parse(url).unwrap(), &namespace).unwrap()
}

/// With 0: without.
fn client(backend: Arc<dyn LockBackend>, grants: u32) -> LockClient {
    let builder = LockClient::builder(backend);
    match grants {
        0 => builder,
        grants => builder.with_local_queue(LocalQueue::new(grants).unwrap()),
    }
    .build()
}

/// Hand-overs a second.
fn in_one_process(locks: &LockClient) -> f64 {
    runtime().block_on(async {
        let start = Instant::now() + WARM_UP;
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            tasks.spawn(take_turns(locks.clone(), start, start + WINDOW));
        }
        let mut tokens: Vec<u64> = tasks.join_all().await.concat();
        let count = tokens.len();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), count, "two grants with the same token");
        count as f64 / WINDOW.as_secs_f64()
    })
}

/// The tokens of the grants in the window.
async fn take_turns(locks: LockClient, start: Instant, end: Instant) -> Vec<u64> {
    let (name, options) = (LockName::new(NAME).unwrap(), AcquireOptions::new());
    let mut tokens = Vec::new();
    loop {
        let guard = locks.acquire_with(&name, &options).await.unwrap();
        let (now, token) = (Instant::now(), guard.token().unwrap().get());
        guard.release().await.unwrap();
        if now >= end {
            return tokens;
        }
        if now >= start {
            assert!(tokens.last().is_none_or(|last| *last < token));
            tokens.push(token);
        }
    }
}

fn in_processes(url: &str, grants: u32) {
    let workers: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["worker", url, &grants.to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let of_each: Vec<Vec<u64>> = workers.into_iter().map(tokens_of).collect();
    let served: Vec<f64> = of_each.iter().map(|tokens| tokens.len() as f64).collect();
    let mut tokens = of_each.concat();
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), count, "two grants with the same token");
    let squares: f64 = served.iter().map(|times| times * times).sum();
    let jain = (count as f64).powi(2) / (served.len() as f64 * squares);
    println!(
        "local_queue={grants:<4} {:>8.0} hand-overs/s   Jain {jain:.4}   each {served:?}",
        count as f64 / (2.0 * WINDOW.as_secs_f64())
    );
}

fn tokens_of(mut worker: std::process::Child) -> Vec<u64> {
    let mut text = String::new();
    worker.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(worker.wait().unwrap().success());
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn worker(arguments: &[String]) {
    let locks = client(redis_backend(&arguments[0]), arguments[1].parse().unwrap());
    let tokens = runtime().block_on(async {
        let start = Instant::now() + 3 * WARM_UP;
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS / PROCESSES {
            tasks.spawn(take_turns(locks.clone(), start, start + 2 * WINDOW));
        }
        tasks.join_all().await.concat()
    });
    let lines: Vec<String> = tokens.iter().map(u64::to_string).collect();
    println!("{}", lines.join("\n"));
}

/// Pairs a second, each task with a name of its own.
fn uncontended(locks: &LockClient, tasks: u64) -> f64 {
    runtime().block_on(async {
        let start = Instant::now() + WARM_UP;
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let locks = locks.clone();
            running.spawn(async move {
                let name = LockName::new(format!("bench/{task}")).unwrap();
                let mut pairs = 0.0;
                while start.elapsed() < WINDOW {
                    locks.acquire(name.clone()).await.unwrap().release().await.unwrap();
                    pairs += if Instant::now() < start { 0.0 } else { 1.0 };
                }
                pairs
            });
        }
        running.join_all().await.into_iter().sum::<f64>() / WINDOW.as_secs_f64()
    })
}

/// In a process of its own: what others have freed would hide it.
fn memory_of_a_waiter(url: &str, grants: u32) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["waiters", url, &grants.to_string()])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn waiters(arguments: &[String]) {
    const WAITERS: u64 = 5000;
    let locks = client(redis_backend(&arguments[0]), arguments[1].parse().unwrap());
    runtime().block_on(async {
        let name = LockName::new("bench/memory").unwrap();
        let guard = locks.acquire(name.clone()).await.unwrap();
        let before = resident();
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let (locks, name) = (locks.clone(), name.clone());
            waiters.spawn(async move { drop(locks.acquire(name).await) });
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        println!("{:.0}", (resident() - before) / WAITERS as f64);
        waiters.shutdown().await;
        guard.release().await.unwrap();
        locks.close().await.unwrap();
    });
}

/// Bytes of this process in memory.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Gives the server the first core and this process the second: where the scheduler puts them decides more about a
/// round trip than any code does. False if that cannot be had here.
fn pin(server: &RedisServer) -> bool {
    let info = server.command(&["INFO", "server"]).unwrap();
    let server_id = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().to_owned();
    let set = |core: &str, process: &str| {
        let command = Command::new("taskset").args(["-apc", core, process]).output();
        command.is_ok_and(|output| output.status.success())
    };
    set("0", &server_id) && set("1", &std::process::id().to_string())
}
