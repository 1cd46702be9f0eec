//! What a hand-over costs while many wait for one lock: its time, its rate, the commands that the server processes for
//! it, and how evenly the waiters are served; with 1 to 512 waiters, in 1 and in 4 processes.
//!
//! `cargo bench -p leasehold-redis --bench handover`. In the same run, so that the figures can be compared: the least
//! that could hand anything over, a script that writes one key and publishes, received by the other side.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a program that measures, stops at the first surprise, and prints"
)]

use leasehold_core::{AcquireOptions, DistributedLock, DistributedLockExt, LockClient, LockName, Namespace};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, Script};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

const WAITERS: [usize; 4] = [1, 8, 64, 512];
const PROCESSES: [usize; 2] = [1, 4];
const WARM_UP: u64 = 500_000_000;
const WINDOW: u64 = 2_000_000_000;
const NAME: &str = "bench/handover";

/// One hold: who, from when, until its release began. Nanoseconds of the clock that all processes share.
#[derive(Clone, Copy)]
struct Hold {
    waiter: u64,
    acquired: u64,
    released: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("worker") => worker(&arguments[2..]),
        _ => orchestrate(),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn orchestrate() {
    let server = RedisServer::start().unwrap();
    let raw = runtime().block_on(raw_hand_overs(&server));
    println!("raw script + push: {:.0}/s, p50 {:.0} µs, p99 {:.0} µs", raw.rate, raw.p50, raw.p99);
    println!(
        "waiters processes | hand-overs/s | p50 µs (of raw) p99 µs | Jain | overlaps | server: commands, client requests a hand-over"
    );
    for processes in PROCESSES {
        for waiters in WAITERS.into_iter().filter(|waiters| waiters % processes == 0) {
            contended(&server, waiters, processes, raw.p50);
        }
    }
}

/// So many waiters, who each take the lock, give it back at once and want it again.
fn contended(server: &RedisServer, waiters: usize, processes: usize, raw: f64) {
    let start = now() + 1_000_000_000;
    let workers: Vec<_> = (0..processes)
        .map(|process| {
            Command::new(std::env::current_exe().unwrap())
                .args(["worker", &server.url(), &(waiters / processes).to_string()])
                .args([process.to_string(), start.to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    sleep_until(start + WARM_UP);
    let before = counters(server);
    let from = now();
    sleep_until(start + WARM_UP + WINDOW);
    let after = counters(server);
    let until = now();
    let mut holds: Vec<Hold> = workers.into_iter().flat_map(holds_of).collect();
    holds.sort_by_key(|hold| hold.acquired);
    let overlaps = holds.windows(2).filter(|pair| pair[1].acquired < pair[0].released).count();
    holds.retain(|hold| (from..until).contains(&hold.acquired));
    let count = holds.len() as f64;
    let seconds = (until - from) as f64 / 1e9;
    let spans =
        summary(holds.windows(2).map(|pair| pair[1].acquired.saturating_sub(pair[0].released)), seconds);
    println!(
        "{waiters:>7} {processes:>9} | {:>12.0} | {:>6.0} ({:>4.2}) {:>6.0} | {:.4} | {overlaps} | {:.2}, {:.2}",
        count / seconds,
        spans.p50,
        spans.p50 / raw,
        spans.p99,
        jain(&holds, waiters),
        (after.0 - before.0) as f64 / count,
        (after.1 - before.1) as f64 / count,
    );
}

fn sleep_until(moment: u64) {
    std::thread::sleep(Duration::from_nanos(moment.saturating_sub(now())));
}

/// All commands, those inside scripts included; and those that clients have sent.
fn counters(server: &RedisServer) -> (u64, u64) {
    let info = server.command(&["INFO", "all"]).unwrap();
    let number = |key: &str| -> u64 {
        let line = info.lines().find_map(|line| line.strip_prefix(key));
        line.map_or(0, |line| line.split(',').next().unwrap().trim().parse().unwrap())
    };
    (number("total_commands_processed:"), number("cmdstat_evalsha:calls=") + number("cmdstat_eval:calls="))
}

fn holds_of(mut worker: std::process::Child) -> Vec<Hold> {
    let mut text = String::new();
    worker.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(worker.wait().unwrap().success());
    let hold = |line: &str| {
        let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Hold { waiter: next(), acquired: next(), released: next() }
    };
    text.lines().map(hold).collect()
}

/// Jain's index of fairness: 1 if all were served equally often, 1/n if one of n was served alone.
fn jain(holds: &[Hold], waiters: usize) -> f64 {
    let mut served = std::collections::HashMap::<u64, f64>::new();
    for hold in holds {
        *served.entry(hold.waiter).or_default() += 1.0;
    }
    let squares: f64 = served.values().map(|times| times * times).sum();
    (holds.len() as f64).powi(2) / (waiters as f64 * squares)
}

/// A process with so many waiters.
fn worker(arguments: &[String]) {
    let number = |index: usize| -> u64 { arguments[index].parse().unwrap() };
    let (url, waiters, process, start) = (&arguments[0], number(1), number(2), number(3));
    let end = start + WARM_UP + WINDOW + 100_000_000;
    let holds = runtime().block_on(async {
        let namespace = Namespace::new(leasehold_redis::DEFAULT_PREFIX).unwrap();
        let backend = leasehold_redis::open(&StoreUrl::parse(url).unwrap(), &namespace).unwrap();
        let locks = LockClient::new(backend);
        let mut tasks = JoinSet::new();
        for waiter in 0..waiters {
            tasks.spawn(take_turns(locks.clone(), process * waiters + waiter, start, end));
        }
        let holds = tasks.join_all().await.concat();
        locks.close().await.unwrap();
        holds
    });
    for Hold { waiter, acquired, released } in holds {
        println!("{waiter} {acquired} {released}");
    }
}

async fn take_turns(locks: LockClient, waiter: u64, start: u64, end: u64) -> Vec<Hold> {
    let (name, options) = (LockName::new(NAME).unwrap(), AcquireOptions::new());
    tokio::time::sleep(Duration::from_nanos(start.saturating_sub(now()))).await;
    let mut holds = Vec::new();
    while now() < end {
        let guard = locks.acquire_with(&name, &options).await.unwrap();
        let acquired = now();
        let released = now();
        holds.push(Hold { waiter, acquired, released });
        guard.release().await.unwrap();
    }
    holds
}

struct Summary {
    rate: f64,
    p50: f64,
    p99: f64,
}

fn summary(spans: impl Iterator<Item = u64>, seconds: f64) -> Summary {
    let mut spans: Vec<u64> = spans.collect();
    spans.sort_unstable();
    let at = |part: f64| {
        spans.get((spans.len() as f64 * part) as usize).map_or(f64::NAN, |span| *span as f64 / 1e3)
    };
    Summary { rate: spans.len() as f64 / seconds, p50: at(0.5), p99: at(0.99) }
}

/// Two connections that pass a key to and fro.
async fn raw_hand_overs(server: &RedisServer) -> Summary {
    let script = Script::new(
        "redis.call('SET', KEYS[1], ARGV[1], 'PX', 30000) return redis.call('PUBLISH', ARGV[1], 'yours')",
    );
    let (mut a, mut to_a) = subscribed(server, "a").await;
    let (mut b, mut to_b) = subscribed(server, "b").await;
    let (start, mut spans) = (now(), Vec::new());
    while now() < start + WINDOW {
        for (connection, other, heard) in [(&mut a, "b", &mut to_b), (&mut b, "a", &mut to_a)] {
            let sent = now();
            let mut call = script.key("raw");
            let (_, ()) = tokio::join!(
                async { call.arg(other).invoke_async::<i64>(connection).await.unwrap() },
                async { heard.recv().await.unwrap() },
            );
            spans.push(now() - sent);
        }
    }
    summary(spans.into_iter(), (now() - start) as f64 / 1e9)
}

async fn subscribed(
    server: &RedisServer,
    channel: &str,
) -> (redis::aio::MultiplexedConnection, UnboundedReceiver<()>) {
    let (sender, receiver) = unbounded_channel();
    let config =
        AsyncConnectionConfig::new().set_response_timeout(None).set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Message { sender.send(()) } else { Ok(()) }
        });
    let client = redis::Client::open(format!("{}/?protocol=resp3", server.url())).unwrap();
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    connection.subscribe(channel).await.unwrap();
    (connection, receiver)
}
