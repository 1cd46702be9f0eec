//! The claim's own node and the watch on it, on a real server.

use super::*;
use leasehold_core::{FencingToken, LockBackend, LockName, Namespace, OwnerId};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::ZooKeeperServer;
use std::sync::Arc;

/// A hold that was not renewed yet.
struct Hold {
    call: SessionCall,
    directory: String,
    entry: Arc<ClaimEntry>,
    node: OwnNode,
    _server: ZooKeeperServer,
}

impl Hold {
    async fn new() -> Self {
        let server = ZooKeeperServer::start().unwrap();
        let url = StoreUrl::parse(&server.url()).unwrap();
        let backend = ZooKeeperBackend::open(&url, &Namespace::default()).unwrap();
        let owner = OwnerId::random().unwrap();
        let claim = Claim::new(LockName::new("job").unwrap(), owner, Duration::from_secs(60), "{}".into());
        backend.try_acquire(&claim).await.unwrap();
        let entry = backend.claims.get(owner).unwrap();
        let node = entry.state.lock().await.node().unwrap().clone();
        let (call, directory) =
            (backend.sessions.call().await.unwrap(), backend.names.directory_of(claim.name()));
        Self { call, directory, entry, node, _server: server }
    }

    async fn reads(&self, node: &OwnNode) -> bool {
        read_own_node(&self.call, &self.directory, &self.entry, node).await.unwrap()
    }
}

#[tokio::test]
async fn node_of_another_transaction_is_not_that_of_the_grant() {
    let hold = Hold::new().await;
    assert!(hold.reads(&hold.node).await);
    assert_eq!(hold.entry.notifier.signal(), Signal::Watched);
    let mut later = hold.node.clone();
    later.token = FencingToken::new(later.token.get() + 1);
    assert!(!hold.reads(&later).await);
}

#[tokio::test]
async fn watch_that_cannot_be_stored_is_not_relied_on() {
    let hold = Hold::new().await;
    let release = hold.entry.state.lock().await;
    assert!(hold.reads(&hold.node).await);
    assert_eq!(hold.entry.notifier.signal(), Signal::Unwatched);
    drop(release);
    assert!(hold.reads(&hold.node).await);
    assert_eq!(hold.entry.notifier.signal(), Signal::Watched);
}
