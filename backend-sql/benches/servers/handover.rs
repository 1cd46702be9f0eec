//! The time from the release of one holder until the next one has the lock, among several contenders. A contender that has released
//! waits until another one holds before it asks again: every grant is a hand-over.

use crate::raw::{mysql, postgres};
use crate::waking::Running;
use crate::{Kind, MODES, Servers, backend, median, percentile};
use leasehold_core::{DistributedLockExt, LockClient, LockGuard};
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::query;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

const WAITERS: [usize; 2] = [8, 64];
const LENGTH: Duration = Duration::from_secs(4);
const NAME: &str = "handover";
const HELD_FOR: Duration = Duration::from_micros(500);

pub(super) async fn measure(servers: &Servers) {
    println!(
        "\nhand-over: release to next grant; each waiter a process of its own, if not said otherwise; held for {HELD_FOR:?}\n"
    );
    println!("| server | how | waiters | hand-overs/s | median, ms | p99, ms |");
    println!("|---|---|---|---|---|---|");
    for kind in Kind::BOTH {
        for waiters in WAITERS {
            let port = servers.port(kind);
            let how = if kind == Kind::MariaDb { "GET_LOCK, raw" } else { "pg_advisory_lock, raw" };
            let mut raw = Vec::new();
            for _ in 0..waiters {
                raw.push(match kind {
                    Kind::MariaDb => Contender::GetLock(mysql(port).await),
                    Kind::Postgres => Contender::Advisory(postgres(port).await),
                });
            }
            report(kind, how, waiters, play(raw, HELD_FOR, LENGTH).await);
            for mode in MODES {
                let contenders = processes(&servers.url(kind, mode), NAME, waiters, waiters);
                report(kind, mode, waiters, play(contenders, HELD_FOR, LENGTH).await);
            }
            let one = processes(&servers.url(kind, "lease"), NAME, waiters, 1);
            report(kind, "lease, in one process", waiters, play(one, HELD_FOR, LENGTH).await);
        }
    }
}

/// So many waiters in so many processes, as far as the server can tell: clients with connections of their own.
pub(crate) fn processes(url: &str, name: &'static str, waiters: usize, processes: usize) -> Vec<Contender> {
    let url = if processes == 1 { url.to_owned() } else { format!("{url}&connections=2&holds=2") };
    let clients: Vec<LockClient> = (0..processes).map(|_| LockClient::new(backend(&url))).collect();
    (0..waiters).map(|n| Contender::Client(clients[n % processes].clone(), name, None)).collect()
}

fn report(kind: Kind, how: &str, waiters: usize, mut gaps: Vec<f64>) {
    let server = kind.name();
    if gaps.is_empty() {
        println!("| {server} | {how} | {waiters} | none | | |");
        return;
    }
    let rate = f64::from(u32::try_from(gaps.len()).unwrap()) / LENGTH.as_secs_f64();
    let (median, p99) = (median(&mut gaps), percentile(&mut gaps, 99));
    println!("| {server} | {how} | {waiters} | {rate:.0} | {median:.2} | {p99:.2} |");
}

/// A contender for the lock, by a client or by hand.
pub(crate) enum Contender {
    Client(LockClient, &'static str, Option<LockGuard>),
    ByHand(Arc<Running>, Option<Vec<u8>>),
    GetLock(MySqlConnection),
    Advisory(PgConnection),
}

impl Contender {
    pub(crate) async fn acquire(&mut self) {
        match self {
            Self::Client(locks, name, guard) => *guard = Some(locks.acquire(*name).await.unwrap()),
            Self::ByHand(process, owner) => *owner = Some(process.process.acquire().await),
            Self::GetLock(connection) => {
                query("SELECT GET_LOCK('handover', 60)").execute(connection).await.unwrap();
            }
            Self::Advisory(connection) => {
                query("SELECT pg_advisory_lock(4711)").execute(connection).await.unwrap();
            }
        }
    }

    pub(crate) async fn release(&mut self) {
        match self {
            Self::Client(_, _, guard) => guard.take().unwrap().release().await.unwrap(),
            Self::ByHand(process, owner) => process.process.release(owner.take().unwrap()).await,
            Self::GetLock(connection) => {
                query("SELECT RELEASE_LOCK('handover')").execute(connection).await.unwrap();
            }
            Self::Advisory(connection) => {
                query("SELECT pg_advisory_unlock(4711)").execute(connection).await.unwrap();
            }
        }
    }
}

/// The gaps, in milliseconds.
pub(crate) async fn play(contenders: Vec<Contender>, held_for: Duration, length: Duration) -> Vec<f64> {
    let (grants, _) = watch::channel(0_u64);
    let (released, gaps) = (Arc::new(Mutex::new(None::<Instant>)), Arc::new(Mutex::new(Vec::new())));
    let start = Instant::now();
    let mut players = JoinSet::new();
    for mut contender in contenders {
        let (grants, released, gaps) = (grants.clone(), Arc::clone(&released), Arc::clone(&gaps));
        players.spawn(async move {
            while start.elapsed() < length {
                contender.acquire().await;
                let granted = Instant::now();
                if let Some(released) = released.lock().unwrap().take() {
                    gaps.lock()
                        .unwrap()
                        .push(granted.saturating_duration_since(released).as_secs_f64() * 1e3);
                }
                grants.send_modify(|count| *count += 1);
                let mut others = grants.subscribe();
                others.mark_unchanged();
                tokio::time::sleep(held_for).await;
                *released.lock().unwrap() = Some(Instant::now());
                contender.release().await;
                // Until another one holds, or there is nobody any more who could.
                let _ = tokio::time::timeout(Duration::from_secs(1), others.changed()).await;
            }
        });
    }
    while players.join_next().await.is_some() {}
    Arc::try_unwrap(gaps).unwrap().into_inner().unwrap()
}
