//! Waking: by one poller of a process for all its waiters, and on PostgreSQL by messages.

use crate::kit::{Server, ask, both, claim, granted, on_both, until};
use leasehold_core::{DistributedLockExt, LockClient, LockName};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgSslMode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const NAME: &str = "wanted";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_wakes_a_waiter_of_another_process_and_a_hold_does_not() {
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
            // Longer than any interval between two polls.
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
async fn waiter_of_a_free_lock_is_woken_at_once() {
    for server in both().await {
        let backend = server.backend("");
        let held = claim("a");
        granted(&backend, &held).await;
        backend.release(&held, Duration::ZERO).await.unwrap();
        let woken = tokio::time::timeout(Duration::from_secs(10), backend.changed(&claim("a"))).await;
        assert!(woken.is_ok(), "a free lock was waited for");
    }
}

/// The answer that granted it was lost, so no release will come.
#[tokio::test]
async fn waiter_that_holds_the_lock_is_woken_at_once() {
    for server in both().await {
        let backend = server.backend("");
        let held = claim("a");
        granted(&backend, &held).await;
        let woken = tokio::time::timeout(Duration::from_secs(10), backend.changed(&held)).await;
        assert!(woken.is_ok(), "a holder waited for its own release");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn woken_waiter_that_is_dropped_delays_no_other() {
    for server in both().await {
        let (holder, client) = (server.backend(""), LockClient::new(server.backend("")));
        let held = claim(NAME);
        granted(&holder, &held).await;
        let wait = || {
            let client = client.clone();
            tokio::spawn(async move { client.acquire(NAME).await })
        };
        let first = wait();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let second = wait();
        tokio::time::sleep(Duration::from_millis(300)).await;
        holder.release(&held, Duration::ZERO).await.unwrap();
        first.abort();
        // A guard of a task that ended before is dropped with its result.
        drop(first.await);
        let granted = tokio::time::timeout(Duration::from_secs(10), second).await;
        granted.expect("a free lock was waited for").unwrap().unwrap().release().await.unwrap();
    }
}

/// A task that has released stands behind the others, although it could ask first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_one_process_are_served_in_turn() {
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
            assert!(twice <= TURNS / 4, "{twice} of {TURNS} grants went to the last holder");
        }
    }
}

/// A notification locks the whole database at the commit, so no release sends one in vain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_sends_a_message_only_if_a_poll_has_marked_the_row() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let (holder, waiter) = (server.backend(""), server.backend(""));
    let mut messages = listener(&server).await;
    let held = claim(NAME);
    granted(&holder, &held).await;
    holder.release(&held, Duration::ZERO).await.unwrap();
    server.run("SELECT pg_notify('leasehold', 'end')").await;
    assert_eq!(next(&mut messages).await, "end", "a release that no task waits for sent a message");

    let held = claim(NAME);
    granted(&holder, &held).await;
    let waiting = tokio::spawn(async move { waiter.changed(&claim(NAME)).await });
    until("the row is marked", &server, "SELECT count(*) FROM leasehold WHERE wanted_until > 0").await;
    holder.release(&held, Duration::ZERO).await.unwrap();
    let name_in_hex: String = NAME.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(next(&mut messages).await, name_in_hex);
    waiting.await.unwrap();
}

/// No order between processes is promised, but each gets its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_compete_all_get_the_lock() {
    on_both(async |server| {
        let start = Instant::now();
        let had: Arc<[AtomicUsize; 4]> = Arc::default();
        let mut tasks = JoinSet::new();
        for process in 0..4 {
            let client = LockClient::new(server.backend(""));
            for _ in 0..2 {
                let (client, had) = (client.clone(), Arc::clone(&had));
                tasks.spawn(async move {
                    let name = LockName::new("wanted").unwrap();
                    // Random pauses decide who is next: over five seconds alone, a process may have bad luck.
                    while start.elapsed() < Duration::from_secs(if is_fair(&had) { 5 } else { 30 }) {
                        let guard = client.acquire(&name).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(40)).await;
                        guard.release().await.unwrap();
                        had[process].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        assert!(is_fair(&had), "{had:?} turns");
    })
    .await;
}

/// True if each process has had a twelfth of all turns.
fn is_fair(had: &[AtomicUsize; 4]) -> bool {
    let had = had.each_ref().map(|turns| turns.load(Ordering::Relaxed));
    had.iter().all(|turns| turns * 12 >= had.iter().sum())
}

async fn listener(server: &Server) -> PgListener {
    let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(server.port());
    let options = options.username("postgres").database("postgres").ssl_mode(PgSslMode::Disable);
    let pool = PgPoolOptions::new().connect_with(options).await.unwrap();
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    listener.listen("leasehold").await.unwrap();
    listener
}

async fn next(messages: &mut PgListener) -> String {
    let next = tokio::time::timeout(Duration::from_secs(10), messages.recv()).await;
    next.expect("no message came").unwrap().payload().to_owned()
}
