//! Holds that live in several places: one place that does not answer costs the others nothing.

use crate::local_queue::client_of;
use crate::scripted::{TTL, options, settle};
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

const HUNG: &str = "hung";

/// Nodes, each with the names that begin with its own, and the claims that they have granted. The one that is hung answers
/// no renewal, and no call that it is part of is answered before it.
#[derive(Debug)]
struct Nodes {
    store: MemoryBackend,
    granted: Mutex<HashMap<OwnerId, String>>,
    /// The nodes that each renewal was for.
    calls: Mutex<Vec<Vec<String>>>,
}

impl Nodes {
    fn new() -> Arc<Self> {
        let store = MemoryBackend::with_clock(Arc::new(RuntimeClock::new()));
        Arc::new(Self { store, granted: Mutex::default(), calls: Mutex::default() })
    }

    /// Only of what it has granted.
    fn node_of(&self, claim: &Claim) -> String {
        self.granted.lock().unwrap()[&claim.owner()].clone()
    }

    fn clients(self: &Arc<Self>) -> [LockClient; 2] {
        let backend = || Arc::clone(self) as Arc<dyn LockBackend>;
        let plain = LockClient::builder(backend())
            .with_clock(Arc::new(RuntimeClock::new()))
            .with_defaults(options())
            .build();
        [plain, client_of(backend(), 8, Arc::default())]
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
async fn a_place_that_does_not_answer_costs_the_holds_of_another_nothing() {
    let nodes = Nodes::new();
    for client in nodes.clients() {
        let hung = client.acquire("hung/job").await.unwrap();
        let well = [client.acquire("a/job").await.unwrap(), client.acquire("b/job").await.unwrap()];
        sleep(TTL * 3).await;
        for well in well {
            assert!(well.is_held(), "{:?}", well.loss());
            well.release().await.unwrap();
        }
        assert_eq!(hung.loss().unwrap().cause(), LossCause::Unreachable);
    }
}

/// It is the claim that the store knows by which it says where a hold lives, and not that of the holder.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_passed_on_is_renewed_where_it_lives() {
    let nodes = Nodes::new();
    let [_, client] = nodes.clients();
    let first = client.acquire("a/job").await.unwrap();
    let waiting = [(); 2].map(|()| {
        let client = client.clone();
        tokio::spawn(async move { client.acquire("a/job").await.unwrap() })
    });
    settle().await;
    first.release().await.unwrap();
    let [second, third] = waiting;
    second.await.unwrap().release().await.unwrap();
    let third = third.await.unwrap();
    let _hung = client.acquire("hung/job").await.unwrap();
    sleep(TTL * 3).await;
    assert!(third.is_held(), "{:?}", third.loss());
}

#[tokio::test(start_paused = true)]
async fn what_lives_in_one_place_travels_together_and_a_place_costs_no_task() {
    let nodes = Nodes::new();
    let [client, _] = nodes.clients();
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
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 2, "the keeper, and one for what was due");
}
