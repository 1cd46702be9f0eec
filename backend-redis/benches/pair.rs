//! What the library costs: an uncontended acquire and release through the public API, against the same two scripts
//! sent by hand over the same kind of connection.
//!
//! `cargo bench -p leasehold-redis --bench pair`. Both ways take turns on one server in one run, each in several
//! windows, and the medians are compared: only the ratio means anything on another machine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a program that measures, stops at the first surprise, and prints"
)]

use leasehold_core::{DistributedLockExt, HolderInfo, LockClient, LockName, Namespace, OwnerId};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Script, Value};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const TASKS: [usize; 3] = [1, 8, 64];
const ROUNDS: usize = 9;
const WINDOW: Duration = Duration::from_millis(1000);
const WARM_UP: Duration = Duration::from_millis(500);
const TTL_MILLIS: &str = "30000";

fn main() {
    let server = RedisServer::start().unwrap();
    let pinned = pin(&server);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    println!("acquire + release, uncontended; medians of {ROUNDS} interleaved windows of {WINDOW:?}");
    println!("server and client on a core each: {}", if pinned { "yes" } else { "no" });
    runtime.block_on(async {
        let raw = Raw::connect(&server).await;
        let url = StoreUrl::parse(&server.url()).unwrap();
        let backend =
            leasehold_redis::open(&url, &Namespace::new(leasehold_redis::DEFAULT_PREFIX).unwrap()).unwrap();
        let locks = LockClient::new(backend);
        for tasks in TASKS {
            let by_hand = || tokio::spawn(window(tasks, WINDOW, raw_pairs(raw.clone())));
            let through = || tokio::spawn(window(tasks, WINDOW, library_pairs(locks.clone())));
            window(tasks, WARM_UP, raw_pairs(raw.clone())).await;
            window(tasks, WARM_UP, library_pairs(locks.clone())).await;
            let (mut raw_windows, mut library_windows) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                raw_windows.push(by_hand().await.unwrap());
                library_windows.push(through().await.unwrap());
            }
            report(tasks, &raw_windows, &library_windows);
        }
    });
}

/// What one window showed.
struct Window {
    pairs_a_second: f64,
    /// Time on a processor that this process has spent on a pair, in µs.
    micros_a_pair: f64,
}

fn report(tasks: usize, raw: &[Window], library: &[Window]) {
    let rate = |windows: &[Window]| median(windows.iter().map(|window| window.pairs_a_second).collect());
    let cost = |windows: &[Window]| median(windows.iter().map(|window| window.micros_a_pair).collect());
    println!(
        "{tasks:>3} tasks: by hand {:>7.0} pairs/s, {:>5.1} µs CPU each; through the library {:>7.0} pairs/s, {:>5.1} µs CPU each; ratio {:.3}",
        rate(raw),
        cost(raw),
        rate(library),
        cost(library),
        rate(library) / rate(raw),
    );
}

/// Runs so many tasks, each with a name of its own.
async fn window<F, W>(tasks: usize, length: Duration, pair: F) -> Window
where
    F: Fn(LockName) -> W + Clone + Send + 'static,
    W: Future<Output = ()> + Send,
{
    let (start, cpu) = (Instant::now(), cpu_time());
    let end = start + length;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (pair, name) = (pair.clone(), LockName::new(format!("bench/{task}")).unwrap());
        running.spawn(async move {
            let mut pairs = 0_u32;
            while Instant::now() < end {
                pair(name.clone()).await;
                pairs += 1;
            }
            f64::from(pairs)
        });
    }
    let pairs: f64 = running.join_all().await.into_iter().sum();
    Window {
        pairs_a_second: pairs / start.elapsed().as_secs_f64(),
        micros_a_pair: (cpu_time() - cpu).as_secs_f64() * 1e6 / pairs,
    }
}

/// Time on a processor that this process has had so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn library_pairs(
    locks: LockClient,
) -> impl Fn(LockName) -> futures_util::future::BoxFuture<'static, ()> + Clone + Send {
    move |name| {
        let locks = locks.clone();
        Box::pin(async move { locks.acquire(name).await.unwrap().release().await.unwrap() })
    }
}

fn raw_pairs(
    raw: Arc<Raw>,
) -> impl Fn(LockName) -> futures_util::future::BoxFuture<'static, ()> + Clone + Send {
    move |name| {
        let raw = Arc::clone(&raw);
        Box::pin(async move { raw.pair(name.as_str()).await })
    }
}

/// The two scripts, by hand.
struct Raw {
    connection: MultiplexedConnection,
    acquire: Script,
    release: Script,
    owner: String,
    holder: String,
}

impl Raw {
    async fn connect(server: &RedisServer) -> Arc<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let whole = |file: &str| {
            let lib = include_str!("../src/scripts/lib.lua");
            let queue = include_str!("../src/scripts/queue.lua");
            Script::new(&file.replace("-- include lib.lua", lib).replace("-- include queue.lua", queue))
        };
        let acquire = Script::new(include_str!("../src/scripts/acquire.lua"));
        let release = whole(include_str!("../src/scripts/release.lua"));
        acquire.load_async(&mut connection).await.unwrap();
        release.load_async(&mut connection).await.unwrap();
        Arc::new(Self {
            connection,
            acquire,
            release,
            owner: OwnerId::random().unwrap().to_hex(),
            holder: HolderInfo::this_process().to_json(),
        })
    }

    async fn pair(&self, name: &str) {
        let companion = |kind| format!("{{leasehold:{name}}}:{kind}");
        let [holder, owners, token, queue, shared] =
            ["holder", "owners", "token", "queue", "shared"].map(companion);
        let keys = [format!("leasehold:{name}"), holder, owners, token, queue, shared];
        let keys = keys.each_ref().map(String::as_str);
        let mut connection = self.connection.clone();
        let acquire = evalsha(&self.acquire, &keys[..4], &[TTL_MILLIS, &self.holder, &self.owner]);
        let granted = connection.send_packed_command(&acquire).await.unwrap();
        assert!(matches!(granted, Value::BulkString(_)), "{granted:?}");
        let release = evalsha(&self.release, &keys, &["0", &self.owner]);
        let released = connection.send_packed_command(&release).await.unwrap();
        assert_eq!(released, Value::Int(1));
    }
}

fn evalsha(script: &Script, keys: &[&str], args: &[&str]) -> Cmd {
    redis::cmd("EVALSHA").arg(script.get_hash()).arg(keys.len()).arg(keys).arg(args).take()
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
        let command = std::process::Command::new("taskset").args(["-apc", core, process]).output();
        command.is_ok_and(|output| output.status.success())
    };
    set("0", &server_id) && set("1", &std::process::id().to_string())
}
