//! Watches on a real server: who hears, and what stays there.

use super::*;
use crate::place::Place;
use crate::standing::Standing;
use leasehold_core::{Claim, FencingToken, LockName, OwnerId};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::ZooKeeperServer;
use zookeeper_client::{Acls, CreateMode};

const NODE: &str = "/node";

struct Bench {
    server: ZooKeeperServer,
    places: Arc<Places>,
    sessions: Sessions,
}

impl Bench {
    fn new() -> Self {
        let server = ZooKeeperServer::start().unwrap();
        let (target, places) =
            (Target::of(&StoreUrl::parse(&server.url()).unwrap()).unwrap(), Arc::default());
        Self { server, sessions: Sessions::new(target, Arc::clone(&places)), places }
    }

    async fn turn(&self) -> Turn {
        self.sessions.turn().await.unwrap()
    }

    fn place(&self) -> Arc<Place> {
        self.places.enter(OwnerId::random().unwrap())
    }

    /// Makes the node, and answers by which transaction.
    async fn make(&self, path: &str) -> FencingToken {
        let turn = self.turn().await;
        turn.make(path, CreateMode::Ephemeral, Acls::anyone_all()).await.unwrap();
        FencingToken::new(turn.read(path).await.unwrap().1.czxid.unsigned_abs())
    }

    async fn delete(&self, path: &str) {
        self.turn().await.delete(path).await.unwrap();
    }

    fn watches(&self) -> u64 {
        self.server.counter("zk_watch_count").unwrap()
    }

    async fn has_watches(&self, number: u64) {
        let same = async {
            while self.watches() != number {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time(same, &format!("{number} watches at the server")).await;
    }
}

async fn in_time<T>(what: impl Future<Output = T>, name: &str) -> T {
    let in_time = tokio::time::timeout(Duration::from_secs(20), what).await;
    in_time.unwrap_or_else(|_| panic!("there never was: {name}"))
}

async fn rings(place: &Arc<Place>) {
    in_time(place.changed(), "a ring").await;
}

#[tokio::test]
async fn a_watch_rings_once_and_is_taken_back_when_it_is_dropped() {
    let bench = Bench::new();
    bench.make(NODE).await;
    let place = bench.place();
    let bell = &place.bell;
    let listen = async || bench.turn().await.read_and_watch(NODE, Whose::Own, &place).await.unwrap().1;

    drop(listen().await);
    bench.has_watches(0).await;
    let _listening = listen().await;
    assert_eq!(bench.watches(), 1);
    assert!(!bell.has_fired());
    bench.delete(NODE).await;
    rings(&place).await;
    assert_eq!(Arc::weak_count(&place), 0, "the watch still has its bell");
    bench.has_watches(0).await;
}

#[tokio::test]
async fn a_watch_that_is_dropped_before_it_fires_rings_nobody() {
    let bench = Bench::new();
    bench.make(NODE).await;
    let (left, stays) = (bench.place(), bench.place());
    let turn = bench.turn().await;
    let dropped = turn.read_and_watch(NODE, Whose::Own, &left).await.unwrap();
    let _kept = turn.read_and_watch(NODE, Whose::Own, &stays).await.unwrap();
    drop(dropped);
    bench.delete(NODE).await;
    rings(&stays).await;
    assert!(!left.bell.has_fired());
}

#[tokio::test]
async fn a_watch_that_has_fired_costs_no_request_when_it_is_dropped() {
    const WATCHES: u64 = 50;
    let bench = Bench::new();
    let (place, mut fired) = (bench.place(), Vec::new());
    for number in 0..WATCHES {
        let path = format!("{NODE}{number}");
        bench.make(&path).await;
        fired.push(bench.turn().await.read_and_watch(&path, Whose::Own, &place).await.unwrap());
        bench.delete(&path).await;
        rings(&place).await;
    }
    let before = bench.server.counter("zk_packets_received").unwrap();
    drop(fired);
    bench.turn().await.prove().await.unwrap();
    let asked = bench.server.counter("zk_packets_received").unwrap() - before;
    // The proof, both questions, and pings.
    assert!(asked < WATCHES / 2, "{asked} requests");
}

#[tokio::test]
async fn a_watch_that_is_set_later_rings_and_is_taken_back() {
    let bench = Bench::new();
    let made_by = bench.make(NODE).await;
    let (place, other) = (bench.place(), bench.place());
    let turn = bench.turn().await;
    let later = |place: &Arc<Place>| turn.watch_later(NODE.to_owned(), made_by, place);

    let listening = later(&place);
    bench.has_watches(1).await;
    drop(listening);
    bench.has_watches(0).await;

    let _listening = later(&place);
    bench.has_watches(1).await;
    assert!(!place.bell.has_fired());
    bench.delete(NODE).await;
    rings(&place).await;

    // It is gone by the time that it is looked at; and then another's is there.
    let _gone = later(&other);
    rings(&other).await;
    bench.make(NODE).await;
    let _not_the_one = later(&other);
    rings(&other).await;
    bench.has_watches(0).await;
}

#[tokio::test]
async fn a_watch_that_is_dropped_while_it_is_being_set_does_not_stay() {
    let bench = Bench::new();
    let made_by = bench.make(NODE).await;
    let (place, turn) = (bench.place(), bench.turn().await);
    bench.server.pause();
    let listening = turn.watch_later(NODE.to_owned(), made_by, &place);
    // Until the read has been sent.
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(listening);
    let after = turn.prove();
    bench.server.resume();
    after.await.unwrap();
    bench.has_watches(0).await;
    assert!(!place.bell.has_fired());
}

/// A watch keeps no place, and a place keeps its watch.
#[tokio::test]
async fn a_place_that_is_left_is_gone_with_its_watch() {
    let bench = Bench::new();
    bench.make(NODE).await;
    let claim = Claim::new(
        LockName::new("job").unwrap(),
        OwnerId::random().unwrap(),
        Duration::from_secs(60),
        "".into(),
    );
    let (place, turn) = (bench.places.enter(claim.owner()), bench.turn().await);
    let (_, listening) = turn.read_and_watch(NODE, Whose::Own, &place).await.unwrap();
    let (node, session) = (NODE.into(), Arc::clone(turn.session()));
    *place.standing.lock().await = Standing::First { session, node, listening };
    let gone = Arc::downgrade(&place);
    assert_eq!((gone.strong_count(), gone.weak_count()), (2, 2));

    bench.places.leave(&claim);
    drop(place);

    assert_eq!(gone.strong_count(), 0);
    bench.has_watches(0).await;
}

#[tokio::test]
async fn the_end_of_the_session_rings_for_those_that_wait_and_leaves_nothing_behind() {
    let bench = Bench::new();
    bench.make(NODE).await;
    let place = bench.place();
    let (_, _listening) = bench.turn().await.read_and_watch(NODE, Whose::Own, &place).await.unwrap();
    bench.sessions.close().await.unwrap();
    rings(&place).await;
    assert_eq!(Arc::weak_count(&place), 0, "the watch still has its bell");
}

#[tokio::test]
async fn a_runtime_that_ends_before_the_ear_begins_ends_the_session() {
    let bench = Bench::new();
    let session = Arc::clone(bench.turn().await.session());
    let places = Arc::clone(&bench.places);
    let told = EndIsTold { session: Arc::downgrade(&session), places, id: session.id() };
    drop(ear::listen(told, session.states.clone(), Arc::default()));
    assert!(session.is_over());
}

/// It refuses in no time, and a thousand may ask.
#[tokio::test]
async fn a_server_that_refuses_is_not_asked_again_at_once() {
    let port = leasehold_conformance::server::free_port().unwrap();
    let target = Target::of(&StoreUrl::parse(&format!("zk://127.0.0.1:{port}")).unwrap()).unwrap();
    let sessions = Sessions::new(target, Arc::default());
    let (start, mut asked) = (Instant::now(), 0);
    while start.elapsed() < dial::PAUSE * 10 {
        assert!(sessions.turn().await.is_err());
        asked += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let dialled = sessions.dialled.load(Ordering::Acquire);
    assert!(dialled <= 11 && asked > dialled * 2, "{dialled} attempts to connect for {asked} calls");
}
