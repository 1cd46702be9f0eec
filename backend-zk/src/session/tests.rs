//! Sessions and watches on a real server.

use super::*;
use crate::notifier::{ClaimNotifier, Signal};
use leasehold_core::{Clock, SystemClock};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::ZooKeeperServer;
use std::collections::HashSet;
use std::future::Future;
use zookeeper_client::{Acls, CreateMode};

const NODE: &str = "/node";

struct Setup {
    server: ZooKeeperServer,
    sessions: Sessions,
    events: Arc<Mutex<Vec<SessionEvent>>>,
}

impl Setup {
    fn new() -> Self {
        let server = ZooKeeperServer::start().unwrap();
        let (sessions, events) = sessions(&server.url());
        Self { server, sessions, events }
    }

    async fn call(&self) -> SessionCall {
        self.sessions.call().await.unwrap()
    }

    async fn make(&self, path: &str) {
        self.call().await.make(path, CreateMode::Ephemeral, Acls::anyone_all()).await.unwrap();
    }

    async fn watch(&self, notifier: &Arc<ClaimNotifier>) -> NodeWatch {
        notifier.set(notifier.take(), Signal::Watched);
        let watched = self.call().await.watch(NODE, WatchTarget::Own, &notifier.waker()).await;
        watched.unwrap().unwrap().1.unwrap()
    }

    async fn has_watches(&self, number: u64) {
        let same = async {
            while self.server.counter("zk_watch_count").unwrap() != number {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time(same, &format!("{number} watches at the server")).await;
    }
}

fn sessions(url: &str) -> (Sessions, Arc<Mutex<Vec<SessionEvent>>>) {
    let events = Arc::<Mutex<Vec<SessionEvent>>>::default();
    let log = Arc::clone(&events);
    let handler = Arc::new(move |event| log.lock().unwrap().push(event));
    (Sessions::new(Target::from_url(&StoreUrl::parse(url).unwrap()).unwrap(), handler), events)
}

fn notifier() -> Arc<ClaimNotifier> {
    Arc::new(ClaimNotifier::new(OwnerId::random().unwrap(), &Arc::default()))
}

async fn in_time<T>(future: impl Future<Output = T>, name: &str) -> T {
    let in_time = tokio::time::timeout(Duration::from_secs(20), future).await;
    in_time.unwrap_or_else(|_| panic!("there never was: {name}"))
}

async fn fires(notifier: &ClaimNotifier) {
    in_time(notifier.changed(), "a signal").await;
}

#[tokio::test]
async fn watch_fires_once_and_is_removed_when_it_is_dropped() {
    let (setup, notifier) = (Setup::new(), notifier());
    setup.make(NODE).await;
    drop(setup.watch(&notifier).await);
    setup.has_watches(0).await;
    assert_eq!(notifier.signal(), Signal::Watched, "a dropped watch fires nothing");

    let _watch = setup.watch(&notifier).await;
    setup.has_watches(1).await;
    setup.call().await.delete(NODE).await.unwrap();
    fires(&notifier).await;
    setup.has_watches(0).await;
}

#[tokio::test]
async fn watch_that_has_fired_costs_no_request_when_it_is_dropped() {
    const WATCHES: u64 = 50;
    let (setup, notifier, mut fired) = (Setup::new(), notifier(), Vec::new());
    for _ in 0..WATCHES {
        setup.make(NODE).await;
        fired.push(setup.watch(&notifier).await);
        setup.call().await.delete(NODE).await.unwrap();
        fires(&notifier).await;
    }
    let before = setup.server.counter("zk_packets_received").unwrap();
    drop(fired);
    setup.call().await.prove().await.unwrap();
    let packets = setup.server.counter("zk_packets_received").unwrap() - before;
    // The proof, the two questions for the counter, and pings.
    assert!(packets < WATCHES / 2, "{packets} packets");
}

#[tokio::test]
async fn watch_of_a_missing_node_leaves_nothing_at_the_server() {
    let (setup, notifier) = (Setup::new(), notifier());
    let watched = setup.call().await.watch(NODE, WatchTarget::Own, &notifier.waker()).await;
    assert!(matches!(watched, Ok(None)));
    setup.has_watches(0).await;
}

#[tokio::test]
async fn end_of_the_session_fires_its_watches_and_is_told() {
    let (setup, notifier) = (Setup::new(), notifier());
    setup.make(NODE).await;
    let _watch = setup.watch(&notifier).await;
    setup.sessions.close().await.unwrap();
    fires(&notifier).await;
    let ended = async {
        while setup.events.lock().unwrap().last() != Some(&SessionEvent::Ended) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(ended, "the end of the session").await;
}

#[tokio::test]
async fn runtime_that_ends_before_the_task_of_events_begins_ends_the_session() {
    let setup = Setup::new();
    let session = Arc::clone(setup.call().await.session());
    let guard = SessionEndGuard { session: Arc::downgrade(&session), handler: setup.sessions.events.clone() };
    drop(session_events(guard, session.states.clone()));
    assert!(session.has_ended());
    assert_eq!(setup.events.lock().unwrap().last(), Some(&SessionEvent::Ended));
}

#[tokio::test]
async fn acknowledged_write_proves_the_session_and_a_read_does_not() {
    let setup = Setup::new();
    let call = setup.call().await;
    let now = || SystemClock::new().now();
    assert_eq!(call.session().proved_at(), Moment::ORIGIN);

    for refused_by_state in [false, true] {
        let before = now();
        let answer = call.make(NODE, CreateMode::Ephemeral, Acls::anyone_all()).await;
        assert_eq!(answer.is_err(), refused_by_state, "the node exists the second time");
        assert!((before..now()).contains(&call.session().proved_at()));
    }
    let proved_at = call.session().proved_at();
    call.read(NODE).await.unwrap().unwrap();
    call.sync_and_list("/").await.unwrap();
    assert_eq!(call.session().proved_at(), proved_at);

    let before = now();
    call.prove().await.unwrap();
    assert!(call.session().proved_at() >= before);
}

#[tokio::test]
async fn proofs_that_are_wanted_at_one_time_are_one_write() {
    let setup = Setup::new();
    let call = setup.call().await;
    let (moment, before) = (SystemClock::new().now(), setup.server.counter("zk_packets_received").unwrap());
    let proofs = futures_util::future::join_all((0..100).map(|_| call.prove_since(moment))).await;
    assert!(proofs.iter().all(Result::is_ok));
    let packets = setup.server.counter("zk_packets_received").unwrap() - before;
    assert!(packets < 10, "{packets} packets");
}

/// It refuses at once, and a thousand callers may ask.
#[tokio::test]
async fn server_that_refuses_is_not_asked_again_at_once() {
    let port = leasehold_conformance::server::free_port().unwrap();
    let (sessions, _) = sessions(&format!("zk://127.0.0.1:{port}"));
    let (start, mut calls, mut failures) = (Instant::now(), 0, HashSet::new());
    while start.elapsed() < RETRY_PAUSE * 10 {
        assert!(sessions.call().await.is_err());
        calls += 1;
        failures.extend(sessions.connecting.lock().await.failure.as_ref().map(|(_, at)| *at));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let attempts = failures.len();
    assert!(attempts <= 11 && calls > attempts * 2, "{attempts} attempts to connect for {calls} calls");
}
