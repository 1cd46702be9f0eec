//! What the tests have in common: a server each, claims, and a look at the keys that does not go through the backend.

use leasehold_conformance::proxy::Proxy;
use leasehold_core::{
    Attempt, Claim, Error, ErrorKind, FencingToken, HolderInfo, LockBackend, LockClient, LockName, Namespace,
    OwnerId, Release, Renewal, Result,
};
use leasehold_redis::{DEFAULT_PREFIX, RedisBackend};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Long enough for nothing to end by itself in a test.
pub(crate) const TTL: Duration = Duration::from_secs(60);

pub(crate) const MICROS_OF_AN_HOUR: u64 = 3_600_000_000;

/// What the description of a holder looks like in these tests.
pub(crate) const HOLDER: &str = "{\"pid\":7,\"doing\":\"two words\"}";

pub(crate) fn server() -> RedisServer {
    RedisServer::start().unwrap()
}

pub(crate) fn backend(url: &str) -> Arc<RedisBackend> {
    with_prefix(url, DEFAULT_PREFIX).unwrap()
}

pub(crate) fn with_prefix(url: &str, prefix: &str) -> Result<Arc<RedisBackend>> {
    let url = StoreUrl::parse(url)?;
    Ok(Arc::new(RedisBackend::open(&url, &Namespace::new(prefix)?)?))
}

pub(crate) fn client(url: &str) -> LockClient {
    LockClient::new(backend(url))
}

pub(crate) async fn proxy_to(server: &RedisServer) -> Proxy {
    Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap()
}

/// A holder, and a waiter that reaches the server through a proxy.
pub(crate) struct Behind {
    pub(crate) proxy: Proxy,
    pub(crate) holding: Arc<RedisBackend>,
    pub(crate) holder: Claim,
    pub(crate) waits: Arc<RedisBackend>,
    pub(crate) next: Claim,
}

impl Behind {
    /// They want `job`. The parameters are those of the one who waits.
    pub(crate) async fn proxy_to(server: &RedisServer, parameters: &str) -> Self {
        let proxy = proxy_to(server).await;
        let (holding, waits) = (backend(&server.url()), backend(&url_of(&proxy, parameters)));
        let (holder, next) = (claim("job"), waiter("job"));
        hold(&holding, &holder).await;
        queue(&waits, &next).await;
        Self { proxy, holding, holder, waits, next }
    }

    /// Each time it is news to the one who waits, who then asks until there is an answer.
    pub(crate) async fn break_three_times(&self) {
        for _ in 0..3 {
            self.proxy.cut();
            answered(self.waits.changed(&self.next)).await;
            while answered(self.waits.try_acquire(&self.next)).await.is_err() {}
        }
    }
}

pub(crate) fn url_of(proxy: &Proxy, query: &str) -> String {
    format!("redis://{}{query}", proxy.address())
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// A claim of a new owner.
pub(crate) fn claim(lock: &str) -> Claim {
    claim_for(lock, TTL)
}

pub(crate) fn claim_for(lock: &str, ttl: Duration) -> Claim {
    Claim::new(name(lock), OwnerId::random().unwrap(), ttl, HOLDER.into())
}

/// A claim of a new owner, who will wait.
pub(crate) fn waiter(lock: &str) -> Claim {
    claim(lock).with_waiting(true)
}

/// The same owner's claim, for another time.
pub(crate) fn again_for(claim: &Claim, ttl: Duration) -> Claim {
    Claim::new(claim.name().clone(), claim.owner(), ttl, claim.holder().clone())
}

/// The answer of a call that must end by itself. The bound is far above every time-out in these tests.
pub(crate) async fn answered<T>(call: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(Duration::from_secs(30), call).await;
    answer.unwrap_or_else(|_| panic!("the call did not end"))
}

/// Waits for what happens by itself.
#[track_caller]
pub(crate) fn until(happens: impl Fn() -> bool) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let start = Instant::now();
        while !happens() {
            assert!(start.elapsed() < Duration::from_secs(20), "it does not happen: {place}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Acquires what must be free.
pub(crate) async fn hold(backend: &RedisBackend, claim: &Claim) -> FencingToken {
    match answered(backend.try_acquire(claim)).await.unwrap() {
        Attempt::Granted(grant) => grant.token,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// Tries to acquire what must be held by another, and gives the hint when it ends.
pub(crate) async fn busy(backend: &RedisBackend, claim: &Claim) -> Option<Duration> {
    match answered(backend.try_acquire(claim)).await.unwrap() {
        Attempt::Busy(busy) => busy.ends_in,
        Attempt::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

/// Asks for what must be held by another, and expects a place in the queue.
pub(crate) async fn queue(backend: &RedisBackend, claim: &Claim) {
    match answered(backend.try_acquire(claim)).await.unwrap() {
        Attempt::Busy(busy) => assert!(busy.queued, "{busy:?}"),
        Attempt::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

/// Waits for the news that the lock was handed over to the claim, and takes it.
pub(crate) async fn handed_over(backend: &RedisBackend, claim: &Claim) -> FencingToken {
    answered(backend.changed(claim)).await;
    match answered(backend.try_acquire(claim)).await.unwrap() {
        Attempt::Granted(grant) => {
            assert!(grant.handed_over, "{grant:?}");
            grant.token
        }
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// The time in µs, as tokens count it, at which its hour has some seconds left.
pub(crate) async fn micros_within_an_hour() -> u64 {
    loop {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let now = u64::try_from(now.as_micros()).unwrap();
        if now % MICROS_OF_AN_HOUR < MICROS_OF_AN_HOUR - 10_000_000 {
            return now;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

pub(crate) async fn renew(backend: &RedisBackend, claim: &Claim) -> Result<Renewal> {
    let renewal = backend.renew(std::slice::from_ref(claim));
    answered(renewal).await.pop().unwrap()
}

pub(crate) async fn release(backend: &RedisBackend, claim: &Claim) -> Release {
    answered(backend.release(claim, Duration::ZERO)).await.unwrap()
}

pub(crate) fn holder_info() -> HolderInfo {
    HolderInfo::from_json(HOLDER)
}

/// The error, its kind and all that it says, in one line.
pub(crate) fn told(error: &Error) -> String {
    format!("{error}; {}", error.help().unwrap_or_default())
}

/// The kind of an attempt's error.
pub(crate) async fn attempt_fails(backend: &RedisBackend, claim: &Claim) -> (ErrorKind, String) {
    let error = answered(backend.try_acquire(claim)).await.unwrap_err();
    (error.kind(), told(&error))
}

/// The keys of a name under the default prefix.
pub(crate) struct LockKeys {
    pub(crate) lock: String,
    pub(crate) holder: String,
    pub(crate) token: String,
    pub(crate) queue: String,
    pub(crate) waiters: String,
}

pub(crate) fn keys(name: &str) -> LockKeys {
    LockKeys {
        lock: format!("leasehold:{name}"),
        holder: format!("{{leasehold:{name}}}:holder"),
        token: format!("{{leasehold:{name}}}:token"),
        queue: format!("{{leasehold:{name}}}:queue"),
        waiters: format!("{{leasehold:{name}}}:owners"),
    }
}

/// What a person sees who looks with `redis-cli`.
pub(crate) trait Look {
    /// The value of a string key.
    fn get(&self, key: &str) -> Option<String>;
    /// The milliseconds that a key has left, -1 for ever, -2 if it is not there.
    fn pttl(&self, key: &str) -> i64;
    /// True if the two keys end at the same time, but for what the server may lose between two commands of a script.
    fn end_together(&self, one: &str, other: &str) -> bool;
    fn set(&self, key: &str, value: &str);
    fn del(&self, key: &str);
    /// The owners in the queue of a name, in their order.
    fn queue(&self, name: &str) -> Vec<String>;
    /// All keys there are.
    fn keys(&self) -> Vec<String>;
    /// How often a command was run, also inside scripts.
    fn calls(&self, command: &str) -> u64;
    /// Connections that there have been so far. Every look is one.
    fn connections(&self) -> u64;
}

impl Look for RedisServer {
    fn get(&self, key: &str) -> Option<String> {
        let reply = self.command(&["GET", key]).unwrap();
        let (length, value) = reply.split_once("\r\n")?;
        assert!(length.starts_with('$'), "{reply}");
        Some(value.to_owned())
    }

    fn pttl(&self, key: &str) -> i64 {
        let reply = self.command(&["PTTL", key]).unwrap();
        reply.trim_start_matches(':').parse().unwrap()
    }

    fn end_together(&self, one: &str, other: &str) -> bool {
        let ends_at = |key| -> i64 {
            let reply = self.command(&["PEXPIRETIME", key]).unwrap();
            reply.trim_start_matches(':').parse().unwrap()
        };
        (ends_at(one) - ends_at(other)).abs() < 500
    }

    fn set(&self, key: &str, value: &str) {
        assert_eq!(self.command(&["SET", key, value]).unwrap(), "+OK");
    }

    fn del(&self, key: &str) {
        assert_eq!(self.command(&["DEL", key]).unwrap(), ":1", "{key} was not there");
    }

    fn queue(&self, name: &str) -> Vec<String> {
        let reply = self.command(&["ZRANGE", &keys(name).queue, "0", "-1"]).unwrap();
        reply.lines().skip(1).filter(|line| !line.starts_with('$')).map(str::to_owned).collect()
    }

    fn keys(&self) -> Vec<String> {
        let reply = self.command(&["KEYS", "*"]).unwrap();
        let mut keys: Vec<String> =
            reply.lines().skip(1).filter(|line| !line.starts_with('$')).map(str::to_owned).collect();
        keys.sort();
        keys
    }

    fn calls(&self, command: &str) -> u64 {
        let stats = self.command(&["INFO", "commandstats"]).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    fn connections(&self) -> u64 {
        let stats = self.command(&["INFO", "stats"]).unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse().unwrap()
    }
}
