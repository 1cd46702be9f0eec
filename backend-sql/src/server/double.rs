//! A server that says what a test wants, when the test wants it. Its texts are PostgreSQL's.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use crate::postgres::PostgresDialect;
use async_trait::async_trait;
use leasehold_core::{FencingToken, Finding};
use leasehold_store_url::StoreUrl;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What becomes of something that was said.
pub(crate) enum Reply {
    /// Answered a moment later.
    Rows(Vec<Vec<Value>>),
    /// The connection turns out to be dead.
    Breaks,
    /// Refused with this code of PostgreSQL's.
    Refused(&'static str),
    Never,
}

/// By the number of the connection, from 0 on, and by what was said.
type Replies = fn(usize, &str) -> Reply;

/// How long making the connection of this number takes.
type Connecting = fn(usize) -> Duration;

/// How long the server takes for everything that it answers.
pub(crate) const MOMENT: Duration = Duration::from_millis(5);

pub(crate) struct Double {
    texts: PostgresDialect,
    connecting: Connecting,
    replies: Replies,
    connections: AtomicUsize,
    asks_for_sessions: bool,
    said: Arc<Said>,
}

#[derive(Debug, Default)]
pub(crate) struct Said(Mutex<Vec<(usize, String)>>, AtomicUsize);

impl Said {
    /// How often something that contains this was said.
    pub(crate) fn times(&self, words: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(_, text)| text.contains(words)).count()
    }

    /// How many connections were closed.
    pub(crate) fn closed(&self) -> usize {
        self.1.load(Ordering::SeqCst)
    }

    /// On how many connections anything was said.
    pub(crate) fn connections(&self) -> usize {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(number, _)| number)
            .collect::<std::collections::HashSet<_>>()
            .len()
    }
}

/// A server without tables to look at.
pub(crate) fn server(query: &str, connecting: Connecting, replies: Replies) -> (Server, Arc<Said>) {
    server_that(query, connecting, replies, false)
}

/// The same, behind which there may be a pooler.
pub(crate) fn server_with_sessions(
    query: &str,
    connecting: Connecting,
    replies: Replies,
) -> (Server, Arc<Said>) {
    server_that(query, connecting, replies, true)
}

fn server_that(
    query: &str,
    connecting: Connecting,
    replies: Replies,
    asks_for_sessions: bool,
) -> (Server, Arc<Said>) {
    let url = StoreUrl::parse(&format!("postgres://u@127.0.0.1/d?{query}")).unwrap();
    let target = Arc::new(Target::of(&url, "postgres", 5432).unwrap());
    let (texts, said) = (PostgresDialect::new(Arc::clone(&target)), Arc::<Said>::default());
    let double = Double {
        texts,
        connecting,
        replies,
        connections: AtomicUsize::new(0),
        asks_for_sessions,
        said: Arc::clone(&said),
    };
    (Server::new(Arc::new(double), target, Vec::new()), said)
}

pub(crate) fn at_once(_: usize) -> Duration {
    Duration::ZERO
}

#[async_trait]
impl Dialect for Double {
    async fn log_in(&self) -> sqlx::Result<Box<dyn Link>> {
        self.connect().await
    }

    async fn connect_beside(&self) -> sqlx::Result<Box<dyn Link>> {
        self.connect().await
    }

    fn session(&self) -> String {
        String::new()
    }

    async fn connect(&self) -> sqlx::Result<Box<dyn Link>> {
        let number = self.connections.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep((self.connecting)(number)).await;
        Ok(Box::new(Line { number, replies: self.replies, said: Arc::clone(&self.said) }))
    }

    fn meaning(&self, error: &sqlx::Error) -> Meaning {
        self.texts.meaning(error)
    }

    fn now(&self) -> &'static str {
        self.texts.now()
    }

    fn parameter(&self, number: usize) -> String {
        self.texts.parameter(number)
    }

    fn parameters_have_numbers(&self) -> bool {
        self.texts.parameters_have_numbers()
    }

    fn quoted(&self, table: &TableName) -> String {
        self.texts.quoted(table)
    }

    fn leases(&self) -> Leases {
        self.texts.leases()
    }

    async fn listen(&self) -> Option<sqlx::Result<Box<dyn ReleaseListener>>> {
        None
    }

    fn lease_table(&self, name: TableName) -> Table {
        self.texts.lease_table(name)
    }

    fn for_update(&self) -> ForUpdate {
        self.texts.for_update()
    }

    fn for_update_tables(&self, holders: TableName, rows: TableName) -> [Table; 2] {
        self.texts.for_update_tables(holders, rows)
    }

    fn begin(&self, idle: Duration) -> String {
        self.texts.begin(idle)
    }

    fn end_connection(&self, number: i64, token: FencingToken) -> String {
        self.texts.end_connection(number, token)
    }

    async fn look_at(&self, _: &mut dyn Link, _: &TableName) -> sqlx::Result<Option<Found>> {
        Ok(None)
    }

    fn session_number(&self) -> Option<&'static str> {
        self.asks_for_sessions.then(|| self.texts.session_number()).flatten()
    }

    async fn check(&self, _: &mut dyn Link) -> sqlx::Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

struct Line {
    number: usize,
    replies: Replies,
    said: Arc<Said>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.said.1.fetch_add(1, Ordering::SeqCst);
    }
}

impl Line {
    async fn say(&self, text: &str) -> sqlx::Result<Answer> {
        self.said.0.lock().unwrap().push((self.number, text.to_owned()));
        let reply = (self.replies)(self.number, text);
        tokio::time::sleep(MOMENT).await;
        match reply {
            Reply::Rows(rows) => Ok(Answer { changed: rows.len() as u64, rows, ..Answer::default() }),
            Reply::Breaks => Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())),
            Reply::Refused(code) => Err(sqlx::Error::Database(Box::new(Refusal(code)))),
            Reply::Never => std::future::pending().await,
        }
    }
}

#[derive(Debug)]
struct Refusal(&'static str);

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.0)
    }
}

impl sqlx::error::DatabaseError for Refusal {
    fn message(&self) -> &str {
        self.0
    }

    fn code(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some(self.0.into())
    }

    fn kind(&self) -> sqlx::error::ErrorKind {
        sqlx::error::ErrorKind::Other
    }

    fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
        self
    }
}

#[async_trait]
impl Link for Line {
    async fn ask(&mut self, statement: &Statement, _: &[Value]) -> sqlx::Result<Answer> {
        self.say(&statement.text).await
    }

    async fn tell(&mut self, text: &str) -> sqlx::Result<()> {
        self.say(text).await.map(drop)
    }

    async fn close(self: Box<Self>) {}
}

impl fmt::Debug for Double {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Double")
    }
}
