//! What the tests have in common: backends, clients, claims.

use leasehold_core::{
    AcquireOptions, Attempt, Claim, Error, Event, FencingToken, LockBackend, LockClient, LockName, Namespace,
    Observer, OwnerId, Release, Renewal, Result, Wait,
};
use leasehold_redis::{DEFAULT_PREFIX, RedisBackend};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Long enough for nothing to end by itself in a test.
pub(crate) const TTL: Duration = Duration::from_secs(60);

/// Far longer than a fail-over takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn backend(url: &str) -> Arc<RedisBackend> {
    let url = StoreUrl::parse(url).unwrap();
    Arc::new(RedisBackend::open(&url, &Namespace::new(DEFAULT_PREFIX).unwrap()).unwrap())
}

/// With a prefix that has a hash tag: all names lie in one slot.
pub(crate) fn in_one_slot(url: &str) -> Arc<RedisBackend> {
    let url = StoreUrl::parse(url).unwrap();
    Arc::new(RedisBackend::open(&url, &Namespace::new("{shop}:").unwrap()).unwrap())
}

pub(crate) fn client(url: &str) -> LockClient {
    LockClient::new(backend(url))
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// A claim of a new owner.
pub(crate) fn claim(lock: &str) -> Claim {
    Claim::new(name(lock), OwnerId::random().unwrap(), TTL, "{}".into())
}

/// A claim of a new owner, who will wait.
pub(crate) fn waiter(lock: &str) -> Claim {
    claim(lock).with_waiting(true)
}

/// A wait that outlasts a fail-over.
pub(crate) fn patient() -> AcquireOptions {
    AcquireOptions::new().with_ttl(TTL).with_wait(Wait::UpTo(PATIENCE))
}

/// The answer of a call that must end by itself.
pub(crate) async fn answered<T>(call: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(PATIENCE, call).await;
    answer.unwrap_or_else(|_| panic!("the call did not end"))
}

/// The answer to what is asked again as long as the nodes of a cluster do not agree: they may not for a moment after a
/// slot has moved, and say so. What was sent around was not carried out.
#[expect(clippy::future_not_send, reason = "a test awaits it where it is")]
pub(crate) async fn agreed<T>(ask: impl AsyncFn() -> Result<T>) -> T {
    let asked = async {
        loop {
            match ask().await {
                Err(error) if error.to_string().contains("do not agree") => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answer => return answer.unwrap(),
            }
        }
    };
    answered(asked).await
}

/// Acquires what must be free.
pub(crate) async fn hold(backend: &RedisBackend, claim: &Claim) -> FencingToken {
    match answered(backend.try_acquire(claim)).await.unwrap() {
        Attempt::Granted(grant) => grant.token,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// Asks for what must be held by another, and expects a place in the queue.
pub(crate) async fn queue(backend: &RedisBackend, claim: &Claim) {
    match answered(backend.try_acquire(claim)).await.unwrap() {
        Attempt::Busy(busy) => assert!(busy.queued, "{busy:?}"),
        Attempt::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

pub(crate) async fn attempt_fails(backend: &RedisBackend, claim: &Claim) -> Error {
    answered(backend.try_acquire(claim)).await.unwrap_err()
}

pub(crate) async fn renew(backend: &RedisBackend, claim: &Claim) -> Result<Renewal> {
    answered(backend.renew(std::slice::from_ref(claim))).await.pop().unwrap()
}

pub(crate) async fn release(backend: &RedisBackend, claim: &Claim) -> Release {
    answered(backend.release(claim, Duration::ZERO)).await.unwrap()
}

/// The error and all that it says, in one line.
pub(crate) fn told(error: &Error) -> String {
    format!("{:?}: {error}; {}", error.kind(), error.help().unwrap_or_default())
}

/// The value of a key, as `redis-cli` shows it.
pub(crate) fn get(server: &RedisServer, key: &str) -> Option<String> {
    let reply = server.command(&["GET", key]).unwrap();
    assert!(reply.starts_with('$'), "{reply}");
    reply.split_once("\r\n").map(|(_, value)| value.to_owned())
}

/// Waits until a replica has the key. A replica of a cluster does not tell the value. `WAIT` waits for nothing on a connection that
/// has written nothing.
pub(crate) fn until_replicated(replica: &RedisServer, key: &str) {
    let start = std::time::Instant::now();
    while !replica.command(&["KEYS", key]).unwrap().contains(key) {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The changes of servers that the observer of a client hears of: the address, the server before, and the server now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Arc<Mutex<Vec<[String; 3]>>>);

impl Changes {
    /// A client on the backend, and the changes that its observer hears of while it is kept.
    pub(crate) fn of(backend: &Arc<RedisBackend>) -> (Self, LockClient) {
        let changes = Self::default();
        let client = LockClient::builder(Arc::clone(backend) as Arc<dyn LockBackend>);
        (changes.clone(), client.with_observer(Arc::new(changes)).build())
    }

    /// Asks for locks until a change is told, and a while longer. Errors are those of the server that is gone.
    pub(crate) async fn told(&self, backend: &RedisBackend) -> Vec<[String; 3]> {
        let start = std::time::Instant::now();
        let mut rounds_more = 30;
        while rounds_more > 0 {
            assert!(start.elapsed() < PATIENCE, "no change is told");
            let claim = claim("job");
            drop(answered(backend.try_acquire(&claim)).await);
            drop(answered(backend.release(&claim, Duration::ZERO)).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
            rounds_more -= u32::from(!self.0.lock().unwrap().is_empty());
        }
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Changes {
    fn event(&self, event: &Event<'_>) {
        if let Event::ServerChanged { address, before, now } = event {
            self.0.lock().unwrap().push([*address, *before, *now].map(str::to_owned));
        }
    }
}

/// The name of this run of a server, as changes show it.
pub(crate) fn run_id(server: &RedisServer) -> String {
    let info = server.command(&["INFO", "server"]).unwrap();
    let id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap();
    format!("run_id {}", id.trim())
}
