//! Waking: by `LISTEN` and `NOTIFY`, or by one look for all who wait in a process.

use crate::kit::{Server, ask, both, claim, granted, open, until};
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_core::{Claim, DistributedLockExt, LockBackend, LockClient, LockName, Release};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgSslMode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const WAITERS: usize = 32;
/// So many that whatever one of them does to all the others takes longer than the time between two looks.
const THOUSANDS: usize = 5_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_who_waits_and_nobody_before() {
    for server in both().await {
        for mode in ["lease", "optimistic"] {
            let (holder, waiter) =
                (server.backend(&format!("mode={mode}")), server.backend(&format!("mode={mode}")));
            let (held, wanted) = (claim(mode), claim(mode));
            granted(&holder, &held).await;
            assert!(ask(&waiter, &wanted).await.is_none());
            let waiting = tokio::spawn({
                let (waiter, wanted) = (waiter.clone(), wanted.clone());
                async move {
                    waiter.changed(&wanted).await;
                    Instant::now()
                }
            });
            // Longer than any pause between two looks.
            tokio::time::sleep(Duration::from_millis(700)).await;
            assert!(!waiting.is_finished(), "woken while the lock is held");
            let released = Instant::now();
            holder.release(&held, Duration::ZERO).await.unwrap();
            let woken = waiting.await.unwrap();
            assert!(woken - released < Duration::from_millis(400), "woken after {:?}", woken - released);
            assert!(ask(&waiter, &wanted).await.is_some());
        }
    }
}

#[tokio::test]
async fn waiting_for_what_is_free_by_now_returns_at_once() {
    for server in both().await {
        let backend = server.backend("");
        let held = claim("a");
        granted(&backend, &held).await;
        backend.release(&held, Duration::ZERO).await.unwrap();
        let woken = tokio::time::timeout(Duration::from_secs(10), backend.changed(&claim("a"))).await;
        assert!(woken.is_ok(), "a free lock was waited for");
    }
}

/// The answer that granted it was lost: nobody else will give it up.
#[tokio::test]
async fn waiting_for_what_one_has_returns_at_once() {
    for server in both().await {
        let backend = server.backend("");
        let held = claim("a");
        granted(&backend, &held).await;
        let woken = tokio::time::timeout(Duration::from_secs(10), backend.changed(&held)).await;
        assert!(woken.is_ok(), "a holder waited for himself");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_crowd_that_waits_in_one_process_a_few_are_woken_at_most() {
    for server in both().await {
        let (holder, waiting) = (server.backend(""), server.backend(""));
        let held = claim("crowd");
        granted(&holder, &held).await;
        let woken = Arc::new(AtomicUsize::new(0));
        let mut crowd = wait_all(&waiting, &woken);
        tokio::time::sleep(Duration::from_millis(300)).await;
        holder.release(&held, Duration::ZERO).await.unwrap();
        let first = crowd.join_next().await.unwrap().unwrap();
        assert!(ask(&waiting, &first).await.is_some());
        tokio::time::sleep(Duration::from_millis(300)).await;
        let woken = woken.load(Ordering::SeqCst);
        // More than one only if the grant took longer than the pause until the next look.
        assert!((1..=4).contains(&woken), "{woken} of {WAITERS} were woken for one lock");
        crowd.shutdown().await;
    }
}

/// The one who was woken has gone away without asking: the next one is, although nothing has happened to the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_who_is_woken_and_leaves_keeps_nobody_waiting() {
    for server in both().await {
        let (holder, waiting) = (server.backend(""), server.backend(""));
        let held = claim("crowd");
        granted(&holder, &held).await;
        let woken = Arc::new(AtomicUsize::new(0));
        let mut crowd = wait_all(&waiting, &woken);
        holder.release(&held, Duration::ZERO).await.unwrap();
        for _ in 0..3 {
            let next = tokio::time::timeout(Duration::from_secs(10), crowd.join_next()).await;
            assert!(next.is_ok(), "a free lock was waited for");
        }
        crowd.shutdown().await;
    }
}

/// One that gives the lock up and wants it again stands behind those who wait: it would be back before anybody who must
/// first be woken. Only one who is woken and then not heard of for long is overtaken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_one_process_take_turns() {
    const TURNS: usize = 200;
    for server in both().await {
        for mode in ["lease", "optimistic"] {
            let client = Arc::new(LockClient::new(server.backend(&format!("mode={mode}"))));
            let name = LockName::new(mode).unwrap();
            let turns = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = JoinSet::new();
            for task in 0..4 {
                let (client, name, turns) = (Arc::clone(&client), name.clone(), Arc::clone(&turns));
                tasks.spawn(async move {
                    while turns.lock().unwrap().len() < TURNS {
                        let guard = client.acquire(name.clone()).await.unwrap();
                        turns.lock().unwrap().push(task);
                        guard.release().await.unwrap();
                    }
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
            let turns = turns.lock().unwrap();
            let twice = turns.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert!(twice <= TURNS / 4, "{twice} of {TURNS} turns were had by whoever had the one before");
        }
    }
}

/// A release that was to be handed on in silence, while the one it was for went away: others are told after all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_in_silence_and_not_taken_is_told_to_others() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let holder = open(&server.url_at(proxy.address().port(), "locker:sesame", "timeout=30s")).unwrap();
    // A release whose statement was never prepared would wait for that reply, and not be done. On two connections: a
    // look may have one of them when replies are held back.
    let earlier = [claim("one"), claim("other")];
    let (one, other) = tokio::join!(ask(&holder, &earlier[0]), ask(&holder, &earlier[1]));
    assert!(one.is_some() && other.is_some());
    let ends = |claim| holder.release(claim, Duration::ZERO);
    let (one, other) = tokio::join!(ends(&earlier[0]), ends(&earlier[1]));
    assert_eq!((one.unwrap(), other.unwrap()), (Release::Released, Release::Released));
    let held = claim("silent");
    granted(&holder, &held).await;
    let waiting = tokio::spawn({
        let (holder, wanted) = (holder.clone(), claim("silent"));
        async move { holder.changed(&wanted).await }
    });
    until("it is said that somebody waits", &server, "SELECT count(*) FROM leasehold WHERE wanted_until > 0")
        .await;
    let mut others = listener(&server).await;
    proxy.set(Traffic::HoldReplies);
    let release = tokio::spawn({
        let holder = holder.clone();
        async move { holder.release(&held, Duration::ZERO).await }
    });
    until(
        "it is given up",
        &server,
        "SELECT count(*) FROM leasehold WHERE name = 'silent' AND owner IS NULL",
    )
    .await;
    waiting.abort();
    server.run("SELECT pg_notify('leasehold', 'mark')").await;
    assert_eq!(heard(&mut others).await, "mark", "the release was not silent");
    proxy.set(Traffic::Pass);
    assert_eq!(release.await.unwrap().unwrap(), Release::Released);
    assert_eq!(heard(&mut others).await, "73696c656e74");
}

/// What waiting costs the server does not depend on how many wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_waits_asks_as_often_as_one_waiter() {
    for server in both().await {
        let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        let waiting = open(&server.url_at(proxy.address().port(), "locker:sesame", "")).unwrap();
        let holder = server.backend("");
        granted(&holder, &claim("crowd")).await;
        let mut crowd = wait_all(&waiting, &Arc::default());
        // By then the pauses are as long as they get.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = proxy.requests();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let asked = proxy.requests() - before;
        assert!((1..=25).contains(&asked), "{WAITERS} waiters asked {asked} times in two seconds");
        crowd.shutdown().await;
    }
}

/// And it does not cost the process so much that looks come late, for then each of them asks for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_who_wait_in_one_process_are_served_by_its_looks() {
    for server in both().await {
        let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        // They come all at once: on a busy machine the last first attempt is late, which is not the question here.
        let url = server.url_at(proxy.address().port(), "locker:sesame", "timeout=20s");
        let waiting = LockClient::new(open(&url).unwrap());
        granted(&server.backend(""), &claim("crowd")).await;
        let mut crowd = JoinSet::new();
        for _ in 0..THOUSANDS {
            let waiting = waiting.clone();
            crowd.spawn(async move { waiting.acquire(&LockName::new("crowd").unwrap()).await.map(drop) });
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
        let before = proxy.requests();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let asked = proxy.requests() - before;
        assert!((1..=THOUSANDS as u64 / 5).contains(&asked), "they asked {asked} times in two seconds");
        assert_eq!(crowd.len(), THOUSANDS);
        let ended = crowd.try_join_next();
        assert!(ended.is_none(), "somebody waits no more: {ended:?}");
        crowd.shutdown().await;
    }
}

/// No order is promised, but neither is anybody left out: of four who competed, two once had it in turn, and the others
/// never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_compete_all_have_it() {
    for server in both().await {
        let end = Instant::now() + Duration::from_secs(5);
        let mut tasks = JoinSet::new();
        for process in 0..4 {
            let client = LockClient::new(server.backend(""));
            for _ in 0..2 {
                let client = client.clone();
                tasks.spawn(async move {
                    let (name, mut turns) = (LockName::new("wanted").unwrap(), 0);
                    while Instant::now() < end {
                        let guard = client.acquire(&name).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(40)).await;
                        guard.release().await.unwrap();
                        turns += 1;
                    }
                    (process, turns)
                });
            }
        }
        let mut had = [0; 4];
        while let Some(ended) = tasks.join_next().await {
            let (process, turns) = ended.unwrap();
            had[process] += turns;
        }
        let all: usize = had.iter().sum();
        assert!(had.iter().all(|turns| turns * 12 >= all), "{had:?} turns");
    }
}

/// Who hears what is told to those who wait.
async fn listener(server: &Server) -> PgListener {
    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(server.port());
    let options = options.username("postgres").database("postgres").ssl_mode(PgSslMode::Disable);
    let pool = PgPoolOptions::new().connect_with(options).await.unwrap();
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    listener.listen("leasehold").await.unwrap();
    listener
}

async fn heard(listener: &mut PgListener) -> String {
    let next = tokio::time::timeout(Duration::from_secs(10), listener.recv()).await;
    next.expect("nothing was heard").unwrap().payload().to_owned()
}

/// So many waiters, each with a claim of its own: each counts itself when it is woken, and answers its claim.
fn wait_all(backend: &Arc<dyn LockBackend>, woken: &Arc<AtomicUsize>) -> JoinSet<Claim> {
    let mut crowd = JoinSet::new();
    for _ in 0..WAITERS {
        let (backend, woken, wanted) = (backend.clone(), Arc::clone(woken), claim("crowd"));
        crowd.spawn(async move {
            backend.changed(&wanted).await;
            woken.fetch_add(1, Ordering::SeqCst);
            wanted
        });
    }
    crowd
}
