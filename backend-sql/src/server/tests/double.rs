//! A server that answers as a test wants, when the test wants it. Its texts are PostgreSQL's.

use crate::postgres::{PostgresDialect, codes};
use crate::server::{
    Answer, Dialect, ErrorClass, ExpectedTable, RawConnection, Server, Statement, Target, Texts, Value,
};
use async_trait::async_trait;
use leasehold_core::Finding;
use leasehold_store_url::StoreUrl;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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

#[derive(Debug)]
struct Double {
    postgres: PostgresDialect,
    texts: &'static Texts,
    connecting: Connecting,
    replies: Replies,
    connections: AtomicUsize,
    said: Arc<Transcript>,
}

#[derive(Debug, Default)]
pub(crate) struct Transcript(Mutex<Vec<(usize, String)>>, AtomicUsize);

impl Transcript {
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
        self.0.lock().unwrap().iter().map(|(number, _)| number).collect::<HashSet<_>>().len()
    }
}

/// A server without tables to look at.
pub(crate) fn server(query: &str, connecting: Connecting, replies: Replies) -> (Server, Arc<Transcript>) {
    server_of(query, connecting, replies, false)
}

/// The same, behind which there may be a pooler.
pub(crate) fn server_with_sessions(
    query: &str,
    connecting: Connecting,
    replies: Replies,
) -> (Server, Arc<Transcript>) {
    server_of(query, connecting, replies, true)
}

fn server_of(
    query: &str,
    connecting: Connecting,
    replies: Replies,
    asks_for_sessions: bool,
) -> (Server, Arc<Transcript>) {
    let url = StoreUrl::parse(&format!("postgres://u@127.0.0.1/d?{query}")).unwrap();
    let (postgres, said) = (PostgresDialect::open(&url).unwrap(), Arc::<Transcript>::default());
    let session_number = postgres.texts().session_number.filter(|_| asks_for_sessions);
    let texts = Box::leak(Box::new(Texts { session_number, ..*postgres.texts() }));
    let connections = AtomicUsize::new(0);
    let double = Double { postgres, texts, connecting, replies, connections, said: Arc::clone(&said) };
    (Server::new(Arc::new(double)), said)
}

pub(crate) fn at_once(_: usize) -> Duration {
    Duration::ZERO
}

#[async_trait]
impl Dialect for Double {
    fn texts(&self) -> &'static Texts {
        self.texts
    }

    fn target(&self) -> &Arc<Target> {
        self.postgres.target()
    }

    fn tables(&self) -> Vec<ExpectedTable> {
        Vec::new()
    }

    async fn log_in(&self) -> sqlx::Result<Box<dyn RawConnection>> {
        let number = self.connections.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep((self.connecting)(number)).await;
        Ok(Box::new(DoubleConnection { number, replies: self.replies, said: Arc::clone(&self.said) }))
    }

    /// Nothing, which takes no time.
    async fn set_up(&self, _: &mut dyn RawConnection) -> sqlx::Result<Option<String>> {
        Ok(None)
    }

    fn error_class(&self, error: &sqlx::Error) -> ErrorClass {
        match error {
            sqlx::Error::Configuration(code) => codes::class_of_code(&code.to_string()),
            error => self.postgres.error_class(error),
        }
    }

    fn begin(&self, idle: Duration) -> String {
        self.postgres.begin(idle)
    }

    fn findings(&self, _: &dyn Fn(&str) -> String) -> Vec<Finding> {
        Vec::new()
    }
}

#[derive(Debug)]
struct DoubleConnection {
    number: usize,
    replies: Replies,
    said: Arc<Transcript>,
}

impl Drop for DoubleConnection {
    fn drop(&mut self) {
        self.said.1.fetch_add(1, Ordering::SeqCst);
    }
}

impl DoubleConnection {
    async fn say(&self, text: &str) -> sqlx::Result<Answer> {
        self.said.0.lock().unwrap().push((self.number, text.to_owned()));
        let reply = (self.replies)(self.number, text);
        tokio::time::sleep(MOMENT).await;
        match reply {
            Reply::Rows(rows) => Ok(Answer { changed: rows.len() as u64, rows, ..Answer::default() }),
            Reply::Breaks => Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())),
            Reply::Refused(code) => Err(sqlx::Error::Configuration(code.into())),
            Reply::Never => std::future::pending().await,
        }
    }
}

#[async_trait]
impl RawConnection for DoubleConnection {
    async fn ask(&mut self, statement: &Statement, _: &[Value]) -> sqlx::Result<Answer> {
        self.say(&statement.text).await
    }

    async fn first_row(&mut self, _: &str) -> sqlx::Result<Vec<Option<String>>> {
        Ok(Vec::new())
    }

    async fn tell(&mut self, text: &str) -> sqlx::Result<()> {
        self.say(text).await.map(drop)
    }

    async fn close(self: Box<Self>) {}
}
