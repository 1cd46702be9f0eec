//! A store in a directory of its own, and its rows as they lie in the file.

use leasehold_core::{
    Attempt, Claim, FencingToken, LockBackend, LockClient, LockName, Namespace, OwnerId, Renewal, Result,
};
use leasehold_store_url::StoreUrl;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Ends all leases and lingers, as time would.
pub(crate) const TIME_PASSES: &str =
    "UPDATE leasehold SET ends_at = min(ends_at, 1), linger_until = min(linger_until, 1)";

pub(crate) struct Store {
    directory: TempDir,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory().join("locks.db")
    }

    pub(crate) fn side_file(&self, suffix: &str) -> PathBuf {
        self.directory().join(format!("locks.db{suffix}"))
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.file().display())
    }

    pub(crate) fn open(&self) -> Arc<dyn LockBackend> {
        open(&self.url()).unwrap()
    }

    pub(crate) fn client(&self) -> LockClient {
        LockClient::new(self.open())
    }

    /// A connection past all of Leasehold.
    pub(crate) async fn raw(&self) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(self.file())
            .busy_timeout(Duration::from_secs(10))
            .connect()
            .await
            .unwrap()
    }

    /// Runs statements past all of Leasehold, and answers the last one's rows.
    pub(crate) async fn sql(&self, statements: &str) -> Vec<SqliteRow> {
        sql(&mut self.raw().await, statements).await
    }

    /// A number that a query answers.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.sql(query).await[0].get(0)
    }
}

pub(crate) async fn sql(raw: &mut SqliteConnection, statements: &str) -> Vec<SqliteRow> {
    let query = sqlx::query(AssertSqlSafe(statements.to_owned()));
    query.fetch_all(raw).await.unwrap()
}

pub(crate) fn open(url: &str) -> Result<Arc<dyn LockBackend>> {
    leasehold_sql::open(&StoreUrl::parse(url)?, &Namespace::default())
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// A claim of a new owner.
pub(crate) fn claim(lock: &str) -> Claim {
    claim_of(lock, OwnerId::random().unwrap(), TTL)
}

pub(crate) fn claim_of(lock: &str, owner: OwnerId, ttl: Duration) -> Claim {
    Claim::new(name(lock), owner, ttl, r#"{"user":"ada","pid":7}"#.into())
}

pub(crate) async fn granted(store: &Arc<dyn LockBackend>, claim: &Claim) -> FencingToken {
    match store.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => grant.token,
        Attempt::Busy(busy) => panic!("not granted: {busy:?}"),
    }
}

/// When the lease ends that is in the way.
pub(crate) async fn busy_for(store: &Arc<dyn LockBackend>, claim: &Claim) -> Duration {
    match store.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => panic!("granted: {grant:?}"),
        Attempt::Busy(busy) => {
            assert!(!busy.queued);
            busy.ends_in.unwrap()
        }
    }
}

/// The answer to one renewal.
pub(crate) fn only(answers: &[Result<Renewal>]) -> Renewal {
    let [answer] = answers else {
        panic!("one question, {} answers", answers.len());
    };
    *answer.as_ref().unwrap()
}

/// True if it is about this long: the clock goes on, and nothing else may differ.
pub(crate) fn is_about(time: Duration, expected: Duration) -> bool {
    time <= expected && time + Duration::from_secs(10) > expected
}
