//! Renewal groups: a node that does not answer does not delay the renewals on other nodes.

use crate::faulty_store::{TTL, options};
use async_trait::async_trait;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    Attempt, Claim, DistributedLockExt, LockAdmin, LockBackend, LockClient, LossCause, OwnerId, Release,
    Renewal, Result, RuntimeClock, Semantics,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::sleep;

/// The node that answers no renewal.
const HUNG: &str = "hung";

/// A store of several nodes. The first part of a lock name is its node. A call with a claim of the node [`HUNG`] is never
/// answered.
#[derive(Debug)]
struct Nodes {
    store: MemoryBackend,
    /// The node of each granted claim.
    granted: Mutex<HashMap<OwnerId, String>>,
    /// The nodes of the claims of each call of `renew`.
    calls: Mutex<Vec<Vec<String>>>,
}

impl Nodes {
    fn new() -> Arc<Self> {
        let store = MemoryBackend::with_clock(Arc::new(RuntimeClock::new()));
        Arc::new(Self { store, granted: Mutex::default(), calls: Mutex::default() })
    }

    /// The node of a granted claim.
    fn node_of(&self, claim: &Claim) -> String {
        self.granted.lock().unwrap()[&claim.owner()].clone()
    }

    fn client(self: &Arc<Self>) -> LockClient {
        LockClient::builder(Arc::clone(self) as Arc<dyn LockBackend>)
            .with_clock(Arc::new(RuntimeClock::new()))
            .with_defaults(options())
            .build()
    }
}

#[async_trait]
impl LockBackend for Nodes {
    fn semantics(&self) -> Semantics {
        self.store.semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let node = claim.name().as_str().split('/').next().unwrap().to_owned();
        self.granted.lock().unwrap().insert(claim.owner(), node);
        self.store.try_acquire(claim).await
    }

    fn renewal_group(&self, claim: &Claim) -> u64 {
        self.node_of(claim).bytes().fold(0, |group, byte| group * 256 + u64::from(byte))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let nodes: Vec<String> = claims.iter().map(|claim| self.node_of(claim)).collect();
        self.calls.lock().unwrap().push(nodes.clone());
        if nodes.iter().any(|node| node == HUNG) {
            std::future::pending::<()>().await;
        }
        self.store.renew(claims).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.store.release(claim, linger).await
    }

    async fn changed(&self, claim: &Claim) {
        self.store.changed(claim).await;
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        self.store.suspects().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.store.admin()
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn group_without_answer_does_not_delay_the_renewals_of_another() {
    let client = Nodes::new().client();
    let hung = client.acquire("hung/job").await.unwrap();
    let healthy = [client.acquire("a/job").await.unwrap(), client.acquire("b/job").await.unwrap()];
    sleep(TTL * 3).await;
    for guard in healthy {
        assert!(guard.is_held(), "{:?}", guard.loss());
        guard.release().await.unwrap();
    }
    assert_eq!(hung.loss().unwrap().cause(), LossCause::Unreachable);
}

#[tokio::test(start_paused = true)]
async fn leases_of_one_group_are_renewed_in_one_call_and_a_group_costs_no_task() {
    let nodes = Nodes::new();
    let client = nodes.client();
    let mut guards = Vec::new();
    for number in 0..40 {
        for node in [HUNG, "a", "b"] {
            guards.push(client.acquire(format!("{node}/{number}")).await.unwrap());
        }
    }
    sleep(TTL / 2).await;
    for calls in nodes.calls.lock().unwrap().iter() {
        assert!(calls.len() == 40 && calls.iter().all(|node| *node == calls[0]), "{calls:?}");
    }
    assert_eq!(nodes.calls.lock().unwrap().len(), 3);
    assert_eq!(
        Handle::current().metrics().num_alive_tasks(),
        2,
        "the keeper, and one for the batch that was due"
    );
}
