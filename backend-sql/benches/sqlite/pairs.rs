//! An uncontended acquire and release through `LockClient`, against the very statements that do it, issued directly on a
//! connection of the same kind; in windows that take turns, so that what else the machine does falls on both alike.

use super::{client, median, options, url};
use leasehold_core::{DistributedLock as _, LockClient, LockName, OwnerId};
use rustix::time::{ClockId, clock_gettime};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const WINDOW: Duration = Duration::from_millis(200);
const ROUNDS: usize = 21;
const TASKS: [usize; 2] = [1, 64];

pub(super) async fn measure(directories: &[PathBuf]) {
    println!(
        "| where | tasks | raw, pairs/s | LockClient, pairs/s | ratio | middle half | CPU a pair, raw | LockClient |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for directory in directories {
        for tasks in TASKS {
            compare(directory, tasks).await;
        }
    }
}

async fn compare(directory: &Path, tasks: usize) {
    let scratch = tempfile::tempdir_in(directory).unwrap();
    let client = Subject::Client(client(&url(&scratch.path().join("locks.db"))));
    let raw = Subject::Raw(Raw::open(&scratch.path().join("raw.db")).await);
    let mut windows = Vec::new();
    for round in 0..=ROUNDS {
        let pair = (window(&raw, tasks).await, window(&client, tasks).await);
        // The first round warms up.
        if round > 0 {
            windows.push(pair);
        }
    }
    let median_of =
        |of: fn(&(Window, Window)) -> f64| median(&mut windows.iter().map(of).collect::<Vec<_>>());
    let mut ratios: Vec<f64> = windows.iter().map(|(raw, client)| client.rate / raw.rate).collect();
    println!(
        "| {} | {tasks} | {:.0} | {:.0} | {:.2} | {:.2}..{:.2} | {:.0} us | {:.0} us |",
        directory.display(),
        median_of(|(raw, _)| raw.rate),
        median_of(|(_, client)| client.rate),
        median(&mut ratios),
        ratios[ratios.len() / 4],
        ratios[ratios.len() * 3 / 4],
        median_of(|(raw, _)| raw.cpu),
        median_of(|(_, client)| client.cpu),
    );
}

struct Window {
    /// Pairs per second.
    rate: f64,
    /// Microseconds of processor time for one pair, of all threads.
    cpu: f64,
}

/// So many tasks, each on a name of its own.
async fn window(subject: &Subject, tasks: usize) -> Window {
    let (start, cpu_before) = (Instant::now(), clock(ClockId::ProcessCPUTime));
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let subject = subject.clone();
        running.spawn(async move {
            let name = LockName::new(format!("bench/{task}")).unwrap();
            let mut pairs = 0_u32;
            while start.elapsed() < WINDOW {
                subject.pair(&name).await;
                pairs += 1;
            }
            pairs
        });
    }
    let pairs = f64::from(running.join_all().await.into_iter().sum::<u32>());
    let cpu = clock(ClockId::ProcessCPUTime) - cpu_before;
    Window {
        rate: pairs / start.elapsed().as_secs_f64(),
        cpu: f64::from(u32::try_from(cpu).unwrap()) / pairs,
    }
}

#[derive(Clone)]
enum Subject {
    Client(LockClient),
    Raw(Raw),
}

impl Subject {
    async fn pair(&self, name: &LockName) {
        match self {
            Self::Client(locks) => {
                let guard = locks.acquire_with(name, &options()).await.unwrap();
                guard.release().await.unwrap();
            }
            Self::Raw(raw) => raw.pair(name).await,
        }
    }
}

/// The two statements, and nothing around them.
#[derive(Clone)]
struct Raw {
    sqlite: Arc<Mutex<SqliteConnection>>,
    acquire: Arc<str>,
    release: Arc<str>,
}

impl Raw {
    async fn open(file: &Path) -> Self {
        // The table, and WAL mode, are made by a client.
        let maker = client(&url(file));
        Subject::Client(maker).pair(&LockName::new("first").unwrap()).await;
        let sqlite = SqliteConnectOptions::new()
            .filename(file)
            .busy_timeout(Duration::from_secs(2))
            .synchronous(SqliteSynchronous::Full)
            .pragma("trusted_schema", "OFF")
            .disable_statement_logging()
            .connect()
            .await
            .unwrap();
        Self {
            sqlite: Arc::new(Mutex::new(sqlite)),
            acquire: statement(include_str!("../../src/sqlite/acquire.sql"), "(?4, ?5, ?6, ?7)"),
            release: statement(include_str!("../../src/sqlite/release.sql"), "(?3, ?4, ?5)"),
        }
    }

    async fn pair(&self, name: &LockName) {
        let owner = OwnerId::random().unwrap().as_u128().to_be_bytes();
        let now = clock(ClockId::Boottime);
        let acquire = sqlx::query(AssertSqlSafe(Arc::clone(&self.acquire)))
            .bind(now)
            .bind(unix_now())
            .bind("e62f90c2-20ad-4017-858a-445fc59441ff")
            .bind(name.as_str().as_bytes())
            .bind(&owner[..])
            .bind(now + 30_000_000)
            .bind(r#"{"user":"root","host":"vm","pid":12345,"doing":"sqlite"}"#);
        self.expect_one_row(acquire).await;
        let release = sqlx::query(AssertSqlSafe(Arc::clone(&self.release)))
            .bind(clock(ClockId::Boottime))
            .bind("e62f90c2-20ad-4017-858a-445fc59441ff")
            .bind(name.as_str().as_bytes())
            .bind(&owner[..])
            .bind(0_i64);
        self.expect_one_row(release).await;
    }

    async fn expect_one_row(
        &self,
        query: sqlx::query::Query<'_, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>,
    ) {
        let mut sqlite = self.sqlite.lock().await;
        assert_eq!(query.fetch_all(&mut *sqlite).await.unwrap().len(), 1);
    }
}

fn statement(template: &str, claim: &str) -> Arc<str> {
    let lines = template.lines().filter(|line| !line.starts_with("--"));
    let text = lines.collect::<Vec<_>>().join("\n");
    text.replace("{table}", "leasehold").replace("{claims}", claim).into()
}

/// In microseconds.
fn clock(id: ClockId) -> i64 {
    let time = clock_gettime(id);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

fn unix_now() -> i64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(time.as_micros()).unwrap()
}
