//! The one who reads: a task with a connection of its own, so that who looks does not wait for who writes.

use super::Shared;
use super::connection::Query;
use super::link::Link;
use super::service::{Asked, Reply, Service};
use super::time_limit::TimeLimit;
use crate::names::range;
use leasehold_core::{ErrorKind, Result};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteRow;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

#[derive(Debug)]
pub(super) struct Reader {
    shared: Arc<Shared>,
    service: Service<Job>,
}

/// What can be read.
#[derive(Debug)]
pub(super) enum Reading {
    /// The row of this stored name.
    Row(Vec<u8>),
    /// The rows whose stored names begin so.
    RowsThatBegin(Vec<u8>),
    /// The last of some names from the first of these on, and before the second.
    LastOfSome(Vec<u8>, Vec<u8>),
    JournalMode,
}

#[derive(Debug)]
enum Job {
    Read(Asked<Reading, Vec<SqliteRow>>),
    Leave(Reply<()>),
    Close(Reply<()>),
}

impl Reader {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), service: Service::new() }
    }

    /// None if there is no table.
    pub(super) async fn rows(&self, reading: Reading) -> Result<Vec<SqliteRow>> {
        self.ask(reading, Job::Read).await
    }

    /// Makes it let go of the file, until it is next used.
    pub(super) async fn leave_file(&self) {
        self.service.tell(Job::Leave).await;
    }

    pub(super) async fn close(&self) {
        self.service.tell(Job::Close).await;
    }

    async fn ask<What, Answer>(
        &self,
        what: What,
        job: impl FnOnce(Asked<What, Answer>) -> Job,
    ) -> Result<Answer> {
        let task = |queue| serve(Arc::clone(&self.shared), queue);
        self.service.ask(what, job, task).await
    }
}

async fn serve(shared: Arc<Shared>, mut queue: UnboundedReceiver<Job>) {
    let mut link = Link::of_reader(&shared);
    let mut limit = TimeLimit::new(shared.answers_within(), ErrorKind::Unavailable);
    while let Some(job) = queue.recv().await {
        match job {
            Job::Read(asked) if asked.is_given_up() => {}
            Job::Read(asked) => {
                let query = || asked.what.query(&shared);
                let rows = limit.on(link.rows(query)).await;
                asked.answer(rows);
            }
            Job::Leave(reply) => {
                link.disconnect().await;
                let _ = reply.send(Ok(()));
            }
            Job::Close(reply) => {
                link.close();
                let _ = reply.send(Ok(()));
            }
        }
    }
}

impl Reading {
    fn query(&self, shared: &Shared) -> Query {
        let statements = &shared.statements;
        match self {
            Self::Row(name) => sqlx::query(AssertSqlSafe(Arc::clone(&statements.look))).bind(name.clone()),
            Self::RowsThatBegin(prefix) => {
                let (first, behind) = range(prefix.clone());
                sqlx::query(AssertSqlSafe(Arc::clone(&statements.list))).bind(first).bind(behind)
            }
            Self::LastOfSome(first, behind) => sqlx::query(AssertSqlSafe(Arc::clone(&statements.some_names)))
                .bind(first.clone())
                .bind(behind.clone()),
            Self::JournalMode => sqlx::query("PRAGMA journal_mode"),
        }
    }
}
