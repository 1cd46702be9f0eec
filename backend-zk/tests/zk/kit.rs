//! Helpers: a server for each test, claims, and a look at the nodes that does not use the backend.

use leasehold_conformance::proxy::Proxy;
use leasehold_core::{
    Attempt, Claim, FencingToken, LockBackend, LockClient, LockName, Namespace, OwnerId, Release, Renewal,
    Result,
};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::ZooKeeperServer;
use leasehold_zk::ZooKeeperBackend;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use zookeeper_client::{Acls, Client, CreateMode, Error};

/// Long enough for nothing to end by itself in a test.
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// A session that ends soon, and not by itself on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_millis(1500);
/// The description of holders in these tests.
pub(crate) const HOLDER: &str = "{\"pid\":7,\"doing\":\"two words\"}";
/// The directory of the locks, unless a test says otherwise.
pub(crate) const BASE: &str = "/leasehold";

pub(crate) fn server() -> ZooKeeperServer {
    ZooKeeperServer::start().unwrap()
}

pub(crate) fn backend(url: &str) -> Arc<ZooKeeperBackend> {
    open(url).unwrap()
}

pub(crate) fn open(url: &str) -> Result<Arc<ZooKeeperBackend>> {
    Ok(Arc::new(ZooKeeperBackend::open(&StoreUrl::parse(url)?, &Namespace::default())?))
}

pub(crate) fn client(url: &str) -> LockClient {
    LockClient::new(backend(url))
}

pub(crate) async fn proxy_to(server: &ZooKeeperServer) -> Proxy {
    Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap()
}

/// The URL of a proxy, with a short session.
pub(crate) fn url_of(proxy: &Proxy) -> String {
    format!("zk://{}?session_timeout={}ms", proxy.address(), SHORT.as_millis())
}

/// Uses the server once, so that the next use is quick.
pub(crate) async fn warm_up(server: &ZooKeeperServer) {
    warm_up_at(&server.url()).await;
}

/// The same for the server of this URL, within its time-outs.
pub(crate) async fn warm_up_at(url: &str) {
    let (backend, claim) = (backend(url), claim("warm-up"));
    eventually(async || matches!(backend.try_acquire(&claim).await, Ok(Attempt::Granted(_))).then_some(()))
        .await;
    backend.close().await.unwrap();
}

/// The URL of a server, with a short session.
pub(crate) fn short(server: &ZooKeeperServer) -> String {
    format!("{}?session_timeout={}ms", server.url(), SHORT.as_millis())
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// A claim of a new owner, which waits if the lock is held.
pub(crate) fn claim(lock: &str) -> Claim {
    Claim::new(name(lock), OwnerId::random().unwrap(), TTL, HOLDER.into()).with_waiting(true)
}

/// The answer of a call that must end by itself. The bound is far above every time-out in these tests.
pub(crate) async fn answered<T>(call: impl Future<Output = T>) -> T {
    within(Duration::from_secs(30), call).await
}

pub(crate) async fn within<T>(time: Duration, call: impl Future<Output = T>) -> T {
    tokio::time::timeout(time, call).await.unwrap_or_else(|_| panic!("nothing happened within {time:?}"))
}

/// Acquires a lock that must be free.
pub(crate) async fn hold(backend: &ZooKeeperBackend, claim: &Claim) -> FencingToken {
    match answered(backend.try_acquire(claim)).await.unwrap() {
        Attempt::Granted(grant) => grant.token,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// Tries to acquire a lock that must be held by another.
pub(crate) async fn busy(backend: &ZooKeeperBackend, claim: &Claim) {
    match answered(backend.try_acquire(claim)).await.unwrap() {
        Attempt::Busy(busy) => assert!(busy.queued, "it has a place, and must say so"),
        Attempt::Granted(grant) => panic!("granted: {grant:?}"),
    }
}

/// Waits as a client does.
pub(crate) async fn comes_to_hold(backend: &ZooKeeperBackend, claim: &Claim) {
    answered(async {
        while !matches!(backend.try_acquire(claim).await, Ok(Attempt::Granted(_))) {
            backend.changed(claim).await;
        }
    })
    .await;
}

pub(crate) async fn changed(backend: &ZooKeeperBackend, claim: &Claim) {
    answered(backend.changed(claim)).await;
}

/// True if a waiter is not told to ask again, for as long as a message to it would take many times over.
pub(crate) async fn stays_quiet(backend: &ZooKeeperBackend, claim: &Claim) -> bool {
    tokio::time::timeout(Duration::from_millis(300), backend.changed(claim)).await.is_err()
}

pub(crate) async fn renew(backend: &ZooKeeperBackend, claim: &Claim) -> Result<Renewal> {
    answered(backend.renew(std::slice::from_ref(claim))).await.pop().unwrap()
}

pub(crate) async fn release(backend: &ZooKeeperBackend, claim: &Claim) -> Release {
    answered(backend.release(claim, Duration::ZERO)).await.unwrap()
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T>(mut question: impl AsyncFnMut() -> Option<T>) -> T {
    answered(async {
        loop {
            if let Some(answer) = question().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// A session of an administrator, as `zkCli.sh` has one.
pub(crate) struct Look(pub(crate) Client);

impl Look {
    pub(crate) async fn at(server: &ZooKeeperServer) -> Self {
        Self::with_user(server, None).await
    }

    pub(crate) async fn with_user(server: &ZooKeeperServer, user: Option<&str>) -> Self {
        let mut connector = Client::connector().with_session_timeout(Duration::from_secs(30));
        if let Some(user) = user {
            connector = connector.with_auth("digest", user.as_bytes());
        }
        Self(connector.connect(&server.address()).await.unwrap())
    }

    /// The names of the children, sorted; none if there is no such node.
    pub(crate) async fn children(&self, path: &str) -> Vec<String> {
        self.0.sync("/").await.unwrap();
        let mut children = self.0.list_children(path).await.unwrap_or_default();
        children.sort();
        children
    }

    /// The contenders of a lock.
    pub(crate) async fn line(&self, lock: &str) -> Vec<String> {
        self.children(&format!("{BASE}/{lock}")).await
    }

    pub(crate) async fn only_node(&self, lock: &str) -> String {
        let line = self.line(lock).await;
        assert_eq!(line.len(), 1, "{line:?}");
        format!("{BASE}/{lock}/{}", line[0])
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.0.delete(path, None).await.unwrap();
    }

    pub(crate) async fn make(&self, path: &str, mode: CreateMode) -> i64 {
        self.0.create(path, b"", &mode.with_acls(Acls::anyone_all())).await.unwrap().0.czxid
    }

    /// Everything below and including a directory, deleted. Once it is empty, the server may be the first to delete it.
    pub(crate) async fn wipe(&self, path: &str) {
        for child in self.children(path).await {
            let _ = self.0.delete(&format!("{path}/{child}"), None).await;
        }
        match self.0.delete(path, None).await {
            Ok(()) | Err(Error::NoNode) => {}
            Err(error) => panic!("{path}: {error}"),
        }
    }
}
