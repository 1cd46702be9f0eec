//! Ways to wake who waits for a lease on MySQL and MariaDB, which tell nobody that a row has changed: how long after a
//! release the next one has the lock, and what waiting costs the server meanwhile. All but ours are played by hand
//! here, each as favourably as it can be: nothing is paid for finding out whom to wake, and nothing for safety.

use crate::handover::{Contender, play, processes};
use crate::raw::{Template, Value, mysql, run_on_mysql};
use crate::{Kind, Servers, median, percentile};
use leasehold_core::{FencingToken, OwnerId};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor, Row, query};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify, oneshot};
use tokio::task::JoinHandle;

const NAME: &str = "waking";
const HOLDS: [(Duration, Duration); 2] = [
    (Duration::from_micros(500), Duration::from_millis(1500)),
    (Duration::from_millis(500), Duration::from_secs(4)),
];
const CROWDS: [(usize, usize); 3] = [(8, 1), (64, 1), (64, 4)];
const PASSES: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Every waiter asks by itself, at pauses that double from 5 to 100 ms.
    EachAsks,
    /// One look for all waiters of the process, every 10 ms.
    LookEvery10Ms,
    /// One look for all waiters of the process, as soon as it is worth it: the library.
    Ours,
    /// One connection of the process sleeps in the server; whoever releases wakes one of them by `KILL QUERY`.
    KillQuery,
}

impl Way {
    const ALL: [Self; 4] = [Self::EachAsks, Self::LookEvery10Ms, Self::Ours, Self::KillQuery];

    fn name(self) -> &'static str {
        match self {
            Self::EachAsks => "each waiter asks, 5 to 100 ms",
            Self::LookEvery10Ms => "one look per process, 10 ms",
            Self::Ours => "one look per process, adaptive",
            Self::KillQuery => "`KILL QUERY` of a sleeper",
        }
    }
}

pub(super) async fn measure(servers: &Servers) {
    let port = servers.port(Kind::MariaDb);
    println!("\nways to wake on MariaDB; {PASSES} passes in turn\n");
    println!(
        "| held for | waiters in processes | way | hand-overs/s | median, ms | p99, ms | statements a hand-over |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (held, length) in HOLDS {
        for (waiters, processes) in CROWDS {
            let mut results = Way::ALL.map(|_| (Vec::new(), 0_u64));
            for _ in 0..PASSES {
                for (way, (gaps, statements)) in Way::ALL.into_iter().zip(&mut results) {
                    let contenders = contenders(servers, way, waiters, processes).await;
                    let before = questions(port).await;
                    gaps.extend(play(contenders, held, length).await);
                    *statements += questions(port).await - before;
                }
            }
            for (way, (mut gaps, statements)) in Way::ALL.into_iter().zip(results) {
                let count = f64::from(u32::try_from(gaps.len().max(1)).unwrap());
                let rate = count / (length.as_secs_f64() * f64::from(u32::try_from(PASSES).unwrap()));
                let each = f64::from(u32::try_from(statements).unwrap()) / count;
                let (median, p99) = (median(&mut gaps), percentile(&mut gaps, 99));
                println!(
                    "| {held:?} | {waiters} in {processes} | {} | {rate:.1} | {median:.2} | {p99:.2} | {each:.1} |",
                    way.name()
                );
            }
        }
    }
    println!("\nstatements a second of 64 waiters in one process, for a lock that stays held\n");
    for way in Way::ALL {
        println!("| {} | {:.0} |", way.name(), idle(servers, way).await);
    }
}

/// After a while, when every pause is as long as it will be.
async fn idle(servers: &Servers, way: Way) -> f64 {
    let port = servers.port(Kind::MariaDb);
    let mut holder = contenders(servers, Way::Ours, 1, 1).await.remove(0);
    holder.acquire().await;
    let waiting: Vec<JoinHandle<()>> = contenders(servers, way, 64, 1)
        .await
        .into_iter()
        .map(|mut waiter| tokio::spawn(async move { waiter.acquire().await }))
        .collect();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (start, before) = (Instant::now(), questions(port).await);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let rate =
        f64::from(u32::try_from(questions(port).await - before).unwrap()) / start.elapsed().as_secs_f64();
    waiting.iter().for_each(JoinHandle::abort);
    holder.release().await;
    rate
}

async fn contenders(servers: &Servers, way: Way, waiters: usize, count: usize) -> Vec<Contender> {
    let (port, url) = (servers.port(Kind::MariaDb), servers.url(Kind::MariaDb, "lease"));
    if way == Way::Ours {
        return processes(&url, NAME, waiters, count);
    }
    let sleepers = Arc::new(Sleepers::default());
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(Process::start(port, way, Arc::clone(&sleepers)).await);
    }
    (0..waiters).map(|n| Contender::ByHand(Arc::clone(&all[n % count]), None)).collect()
}

/// The numbers of the connections that sleep, in a place that costs nothing.
type Sleepers = Mutex<VecDeque<u64>>;

/// A process, as far as the server can tell, whose waiters are woken one way or another.
pub(crate) struct Process {
    way: Way,
    asking: Mutex<MySqlConnection>,
    keeping: Mutex<MySqlConnection>,
    acquire: Template,
    release: Template,
    look: String,
    waiting: Mutex<VecDeque<oneshot::Sender<()>>>,
    more: Notify,
    sleepers: Arc<Sleepers>,
}

/// With the task that looks for its waiters.
pub(crate) struct Running {
    pub(crate) process: Arc<Process>,
    task: JoinHandle<()>,
}

impl Process {
    async fn start(port: u16, way: Way, sleepers: Arc<Sleepers>) -> Arc<Running> {
        let process = Arc::new(Self {
            way,
            asking: Mutex::new(mysql(port).await),
            keeping: Mutex::new(mysql(port).await),
            acquire: Template::new(Kind::MariaDb, include_str!("../../src/mysql/acquire.sql")),
            // The last line is for servers that send messages.
            release: Template::new(
                Kind::MariaDb,
                include_str!("../../src/lease/release.sql").split("{returning}").next().unwrap(),
            ),
            look: format!("SELECT ends_at > {} FROM leasehold WHERE name = '{NAME}'", Template::MYSQL_NOW),
            waiting: Mutex::default(),
            more: Notify::new(),
            sleepers,
        });
        let (of, sleeping) = (Arc::clone(&process), mysql(port).await);
        let task = tokio::spawn(async move { of.keep_looking(sleeping).await });
        Arc::new(Running { process, task })
    }

    pub(crate) async fn acquire(&self) -> Vec<u8> {
        let owner = OwnerId::random().unwrap().as_u128().to_be_bytes().to_vec();
        let values = [
            Value::Bytes(NAME.as_bytes().to_vec()),
            Value::Bytes(owner.clone()),
            Value::Int(30_000_000),
            Value::Text("{}"),
            Value::Int(2_000_000),
        ];
        loop {
            let answer = run_on_mysql(&mut *self.asking.lock().await, &self.acquire, &values).await;
            // The token of a grant; a refusal is answered with a larger number.
            if (3..=FencingToken::MAX_COUNTED).contains(&answer) {
                return owner;
            }
            self.wait().await;
        }
    }

    pub(crate) async fn release(&self, owner: Vec<u8>) {
        let values = [Value::Int(0), Value::Bytes(NAME.as_bytes().to_vec()), Value::Bytes(owner)];
        let mut keeping = self.keeping.lock().await;
        assert_eq!(run_on_mysql(&mut keeping, &self.release, &values).await, 1, "not released");
        if let Some(sleeper) = self.sleepers.lock().await.pop_front() {
            let _ = keeping.execute(AssertSqlSafe(format!("KILL QUERY {sleeper}"))).await;
        }
    }

    async fn wait(&self) {
        let mut pause = Duration::from_millis(5);
        if self.way == Way::EachAsks {
            loop {
                let part = 1.0 / 4.0 + 3.0 / 4.0 * f64::from(random()) / f64::from(u32::MAX);
                tokio::time::sleep(pause.mul_f64(part)).await;
                if !self.is_held(&mut *self.asking.lock().await).await {
                    return;
                }
                pause = (pause * 2).min(Duration::from_millis(100));
            }
        }
        let (wake, woken) = oneshot::channel();
        self.waiting.lock().await.push_back(wake);
        self.more.notify_one();
        woken.await.unwrap();
    }

    async fn is_held(&self, connection: &mut MySqlConnection) -> bool {
        let row = loop {
            match query(AssertSqlSafe(self.look.clone())).fetch_optional(&mut *connection).await {
                // A `KILL QUERY` that came late, when the sleeper was no longer asleep.
                Err(sqlx::Error::Database(error)) if error.message().contains("interrupted") => {}
                row => break row.unwrap(),
            }
        };
        row.is_some_and(|row| row.get_unchecked::<i64, _>(0) == 1)
    }

    async fn keep_looking(&self, mut sleeping: MySqlConnection) {
        let number: u64 = query("SELECT CAST(CONNECTION_ID() AS SIGNED)")
            .fetch_one(&mut sleeping)
            .await
            .unwrap()
            .get_unchecked::<i64, _>(0)
            .unsigned_abs();
        loop {
            if self.waiting.lock().await.is_empty() {
                self.more.notified().await;
                continue;
            }
            if self.way == Way::KillQuery {
                self.sleepers.lock().await.push_back(number);
            }
            if !self.is_held(&mut sleeping).await {
                if let Some(waiter) = self.waiting.lock().await.pop_front() {
                    let _ = waiter.send(());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else if self.way == Way::KillQuery {
                let _ = query("DO SLEEP(0.5)").execute(&mut sleeping).await;
            } else {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            self.sleepers.lock().await.retain(|sleeper| *sleeper != number);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn random() -> u32 {
    let owner = OwnerId::random().unwrap().as_u128();
    u32::try_from(owner & u128::from(u32::MAX)).unwrap()
}

/// How many statements the server has executed so far.
async fn questions(port: u16) -> u64 {
    let count = query("SHOW GLOBAL STATUS LIKE 'Questions'").fetch_one(&mut mysql(port).await).await;
    count.unwrap().get::<String, _>(1).parse().unwrap()
}
