//! An uncontended acquire and release of a row lease through `LockClient`, against the two statements by hand on as many
//! connections; in windows that take turns, so that what else the machine does falls on both alike.

use crate::raw::Raw;
use crate::{Kind, Servers, backend, median};
use leasehold_core::{Attempt, Claim, DistributedLockExt, LockBackend, LockClient, LockName, OwnerId};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const WINDOW: Duration = Duration::from_millis(150);
const ROUNDS: usize = 41;
const HOLDER: &str = r#"{"user":"root","host":"vm","pid":12345,"doing":"servers"}"#;
const TASKS: [usize; 2] = [1, 64];

pub(super) async fn measure(servers: &Servers) {
    println!("\nacquire + release, uncontended; medians of {ROUNDS} turns of {WINDOW:?} each\n");
    println!(
        "| server | tasks | by hand, pairs/s | row lease, pairs/s | ratio | middle half | without the client, ratio |"
    );
    println!("|---|---|---|---|---|---|---|");
    for kind in Kind::BOTH {
        let client = Subject::Client(LockClient::new(backend(&servers.url(kind, "lease"))));
        let store = Subject::Store(backend(&servers.url(kind, "lease")));
        let raw = Subject::Raw(Raw::connect(kind, servers.port(kind)).await);
        for tasks in TASKS {
            compare(kind, [&raw, &client, &store], tasks).await;
        }
    }
}

async fn compare(kind: Kind, [raw, client, store]: [&Subject; 3], tasks: usize) {
    let (mut by_hand, mut through, mut ratios, mut stores) = (vec![], vec![], vec![], vec![]);
    for round in 0..=ROUNDS {
        let (raw, client) = (window(raw, tasks).await, window(client, tasks).await);
        let store = window(store, tasks).await;
        // The first round warms up.
        if round > 0 {
            by_hand.push(raw);
            through.push(client);
            ratios.push(client / raw);
            stores.push(store / raw);
        }
    }
    let ratio = median(&mut ratios);
    println!(
        "| {} | {tasks} | {:.0} | {:.0} | {ratio:.2} | {:.2}..{:.2} | {:.2} |",
        kind.name(),
        median(&mut by_hand),
        median(&mut through),
        ratios[ROUNDS / 4],
        ratios[ROUNDS * 3 / 4],
        median(&mut stores),
    );
}

/// Pairs per second of so many tasks, each on a name of its own.
async fn window(subject: &Subject, tasks: usize) -> f64 {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (subject, name) = (subject.clone(), LockName::new(format!("bench/{task}")).unwrap());
        running.spawn(async move {
            let mut pairs = 0_u32;
            while start.elapsed() < WINDOW {
                subject.pair(&name).await;
                pairs += 1;
            }
            pairs
        });
    }
    let pairs: u32 = running.join_all().await.into_iter().sum();
    f64::from(pairs) / start.elapsed().as_secs_f64()
}

#[derive(Clone)]
enum Subject {
    Client(LockClient),
    /// The backend alone, by the calls that the client makes.
    Store(Arc<dyn LockBackend>),
    Raw(Raw),
}

impl Subject {
    async fn pair(&self, name: &LockName) {
        match self {
            Self::Client(locks) => locks.acquire(name.clone()).await.unwrap().release().await.unwrap(),
            Self::Store(store) => {
                let (owner, ttl) = (OwnerId::random().unwrap(), Duration::from_secs(30));
                let claim = Claim::new(name.clone(), owner, ttl, HOLDER.into()).with_waiting(true);
                assert!(matches!(store.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
                store.release(&claim, Duration::ZERO).await.unwrap();
            }
            Self::Raw(raw) => raw.pair(name.as_str()).await,
        }
    }
}
