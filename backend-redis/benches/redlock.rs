//! What Redlock costs: an uncontended acquire and release on five nodes of which two are stopped, through the public API,
//! against the same scripts sent by hand to the nodes that are left.
//!
//! `cargo bench -p leasehold-redis --bench redlock`. By hand once with the write-back of the token, which is what the
//! library does, and once without it, which is the algorithm without fencing tokens: one round trip less. All take turns
//! in one run; only the ratios mean anything on another machine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a program that measures, stops at the first surprise, and prints"
)]

use futures_util::future::join_all;
use leasehold_core::{DistributedLockExt, HolderInfo, LockClient, LockName, Namespace, OwnerId};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Script, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const NODES: usize = 5;
const STOPPED: usize = 2;
const TASKS: [usize; 2] = [1, 64];
const ROUNDS: usize = 9;
const WINDOW: Duration = Duration::from_millis(1000);
const TTL_MILLIS: &str = "30000";

fn main() {
    let servers: Vec<RedisServer> = (0..NODES).map(|_| RedisServer::start().unwrap()).collect();
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = StoreUrl::parse(&format!("redlock://{}", hosts.join(","))).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    println!(
        "acquire + release, uncontended, {NODES} nodes, {STOPPED} of them stopped; medians of {ROUNDS} windows of {WINDOW:?}"
    );
    runtime.block_on(async {
        let namespace = Namespace::new(leasehold_redis::DEFAULT_PREFIX).unwrap();
        let locks = LockClient::new(leasehold_redis::open(&url, &namespace).unwrap());
        locks.acquire("warm-up").await.unwrap().release().await.unwrap();
        servers[NODES - STOPPED..].iter().for_each(|server| server.pause());
        let raw = Arc::new(Raw::connect(&servers[..NODES - STOPPED]).await);
        for tasks in TASKS {
            let (mut library, mut fenced, mut unfenced) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                library.push(window(tasks, Way::Library(locks.clone())).await);
                fenced.push(window(tasks, Way::Raw(Arc::clone(&raw), true)).await);
                unfenced.push(window(tasks, Way::Raw(Arc::clone(&raw), false)).await);
            }
            let [library, fenced, unfenced] = [library, fenced, unfenced].map(median);
            println!(
                "{tasks:>3} tasks: library {library:>6.0} pairs/s; by hand {fenced:>6.0}, {:.2} × its time; without tokens {unfenced:>6.0}, {:.2} × its time",
                fenced / library,
                unfenced / library,
            );
        }
    });
}

#[derive(Clone)]
enum Way {
    Library(LockClient),
    /// True with tokens.
    Raw(Arc<Raw>, bool),
}

/// Pairs a second of so many tasks, each with a name of its own.
async fn window(tasks: usize, way: Way) -> f64 {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (way, name) = (way.clone(), LockName::new(format!("bench/{task}")).unwrap());
        running.spawn(async move {
            let mut pairs = 0_u32;
            while start.elapsed() < WINDOW {
                match &way {
                    Way::Library(locks) => {
                        locks.acquire(name.clone()).await.unwrap().release().await.unwrap();
                    }
                    Way::Raw(raw, fenced) => raw.pair(name.as_str(), *fenced).await,
                }
                pairs += 1;
            }
            f64::from(pairs)
        });
    }
    let pairs: f64 = running.join_all().await.into_iter().sum();
    pairs / start.elapsed().as_secs_f64()
}

/// The scripts, by hand, to a majority at once.
struct Raw {
    nodes: Vec<MultiplexedConnection>,
    claim: Script,
    write_token: Script,
    withdraw: Script,
    owner: String,
    holder: String,
}

impl Raw {
    async fn connect(servers: &[RedisServer]) -> Self {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let script = |text: &str| {
            let (lib, node) =
                (include_str!("../src/scripts/lib.lua"), include_str!("../src/redlock/scripts/node.lua"));
            Script::new(&text.replace("-- include lib.lua", lib).replace("-- include node.lua", node))
        };
        let raw = Self {
            nodes: join_all(servers.iter().map(|server| {
                let (client, config) = (redis::Client::open(server.url()).unwrap(), config.clone());
                async move { client.get_multiplexed_async_connection_with_config(&config).await.unwrap() }
            }))
            .await,
            claim: script(include_str!("../src/redlock/scripts/claim.lua")),
            write_token: script(include_str!("../src/redlock/scripts/write_token.lua")),
            withdraw: script(include_str!("../src/redlock/scripts/withdraw.lua")),
            owner: OwnerId::random().unwrap().to_hex(),
            holder: HolderInfo::this_process().to_json(),
        };
        for node in &raw.nodes {
            for script in [&raw.claim, &raw.write_token, &raw.withdraw] {
                script.load_async(&mut node.clone()).await.unwrap();
            }
        }
        raw
    }

    async fn pair(&self, name: &str, fenced: bool) {
        let companion = |kind| format!("{{leasehold:{name}}}:{kind}");
        let keys = [format!("leasehold:{name}"), companion("holder"), companion("token")];
        let bids = self
            .ask(&self.claim, &keys, |place| vec![self.owner.clone(), "1".into(), place, TTL_MILLIS.into()]);
        let bids = bids.await;
        if fenced {
            let last = bids.iter().map(|bid| number(bid, 1)).max().unwrap();
            let clock = bids.iter().map(|bid| number(bid, 2)).max().unwrap();
            let token = (last + 1).max(clock).to_string();
            let value = |place| format!("{}:1:{place}", self.owner);
            let write = |place| vec![value(place), token.clone(), TTL_MILLIS.into(), self.holder.clone()];
            let written = self.ask(&self.write_token, &keys, write).await;
            assert!(written.iter().all(|written| *written == Value::Int(1)), "{written:?}");
        }
        let ended = self
            .ask(&self.withdraw, &keys[..2], |_| vec![self.owner.clone(), String::new(), "0".into()])
            .await;
        assert!(ended.iter().all(|ended| *ended == Value::Int(1)), "{ended:?}");
    }

    async fn ask(
        &self,
        script: &Script,
        keys: &[String],
        arguments: impl Fn(String) -> Vec<String>,
    ) -> Vec<Value> {
        join_all(self.nodes.iter().enumerate().map(|(place, node)| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(script.get_hash()).arg(keys.len()).arg(keys).arg(arguments(place.to_string()));
            let mut node = node.clone();
            async move { node.send_packed_command(&command).await.unwrap() }
        }))
        .await
    }
}

fn number(bid: &Value, at: usize) -> u64 {
    let Value::Array(parts) = bid else { unreachable!("{bid:?}") };
    let Value::BulkString(digits) = &parts[at] else { unreachable!("{bid:?}") };
    std::str::from_utf8(digits).unwrap().parse().unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
