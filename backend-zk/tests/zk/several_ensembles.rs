//! One address, and several ensembles behind it that know nothing of each other.

use crate::kit::*;
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_core::{Claim, Event, LockBackend, LockClient, LossCause, Observer, Renewal};
use leasehold_test_stores::servers::ZooKeeperServer;
use leasehold_zk::ZooKeeperBackend;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The changes that the observer of a client hears of: the address, the server before, and the server now.
#[derive(Clone, Debug, Default)]
struct Changes(Arc<Mutex<Vec<[String; 3]>>>);

impl Observer for Changes {
    fn event(&self, event: &Event<'_>) {
        if let Event::ServerChanged { address, before, now } = event {
            self.0.lock().unwrap().push([*address, *before, *now].map(str::to_owned));
        }
    }
}

fn observed(url: &str) -> (Arc<ZooKeeperBackend>, Changes, LockClient) {
    let (backend, changes) = (backend(url), Changes::default());
    let client = LockClient::builder(Arc::clone(&backend) as Arc<dyn LockBackend>);
    (backend, changes.clone(), client.with_observer(Arc::new(changes)).build())
}

/// What a client says of an ensemble.
async fn described(server: &ZooKeeperServer) -> String {
    match Look::at(server).await.0.check_stat(BASE).await.unwrap() {
        Some(stat) => format!("one with {BASE} of transaction {:#x} at {} ms", stat.czxid, stat.ctime),
        None => format!("one without {BASE}"),
    }
}

/// Leads the proxy to a server, and waits until the session of the claim has ended by that.
async fn cut_over(proxy: &Proxy, server: &ZooKeeperServer, backend: &ZooKeeperBackend, held: &Claim) {
    proxy.lead_to(([127, 0, 0, 1], server.port()).into());
    proxy.cut();
    let over = Renewal::Lost(LossCause::SessionOver);
    eventually(async || (renew(backend, held).await.ok()? == over).then_some(())).await;
}

#[tokio::test]
async fn session_with_another_ensemble_than_before_is_told_once() {
    let (one, other) = (server(), server());
    warm_up(&one).await;
    warm_up(&other).await;
    let proxy = proxy_to(&one).await;
    let (backend, changes, _client) = observed(&url_of(&proxy));
    let (held, waiter) = (claim("job"), claim("job"));
    hold(&backend, &held).await;
    busy(&backend, &waiter).await;
    for _ in 0..2 {
        let held = claim("again");
        for server in [&other, &one] {
            comes_to_hold(&backend, &held).await;
            cut_over(&proxy, server, &backend, &held).await;
            drop(answered(backend.release(&held, Duration::ZERO)).await);
        }
    }
    comes_to_hold(&backend, &waiter).await;
    let expected = [proxy.address().to_string(), described(&one).await, described(&other).await];
    assert_eq!(*changes.0.lock().unwrap(), [expected], "once, and nothing of the way back");
}

#[tokio::test]
async fn ensemble_without_a_directory_is_another_one_also_for_a_holder_alone() {
    let (one, other) = (server(), server());
    warm_up(&one).await;
    let proxy = proxy_to(&one).await;
    let (backend, changes, _client) = observed(&url_of(&proxy));
    let held = claim("job");
    hold(&backend, &held).await;
    cut_over(&proxy, &other, &backend, &held).await;
    release(&backend, &held).await;
    let expected = [proxy.address().to_string(), described(&one).await, format!("one without {BASE}")];
    assert_eq!(*changes.0.lock().unwrap(), std::slice::from_ref(&expected));
    // Its directory is made, and a session later it is the same ensemble.
    for _ in 0..2 {
        comes_to_hold(&backend, &held).await;
        let look = Look::at(&other).await;
        proxy.set(Traffic::BlackHole);
        eventually(async || look.line("job").await.is_empty().then_some(())).await;
        proxy.cut();
        proxy.set(Traffic::Pass);
    }
    comes_to_hold(&backend, &held).await;
    assert_eq!(*changes.0.lock().unwrap(), [expected]);
}
