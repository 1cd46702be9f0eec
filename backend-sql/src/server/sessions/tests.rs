//! Poolers that keep prepared statements apart, poolers that mix them up, and none.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use crate::postgres::PostgresDialect;
use crate::server::Answer;
use async_trait::async_trait;
use leasehold_store_url::StoreUrl;
use std::collections::HashMap;
use std::sync::Arc;

/// A pooler that lends these sessions in turn, whoever asks, but for the one that is in a transaction.
struct Pooler {
    sessions: &'static [i64],
    turn: usize,
    held: Option<(usize, i64)>,
    /// What is prepared in which session, under the one name that all connections give it.
    prepared: HashMap<i64, String>,
    keeps_apart: bool,
}

struct Lent {
    who: usize,
    own: &'static [i64],
    pooler: Option<Arc<Mutex<Pooler>>>,
    begun: bool,
    asked: bool,
}

fn row_of(session: i64, statement: &str) -> Answer {
    let mark = statement.rsplit("CAST(").next().unwrap().split(' ').next().unwrap();
    let row = [session, mark.parse().unwrap()].map(|number| Value::Int(Some(number)));
    Answer { rows: vec![row.to_vec()], ..Answer::default() }
}

#[async_trait]
impl Link for Lent {
    async fn ask(&mut self, statement: &Statement, _: &[Value]) -> sqlx::Result<Answer> {
        let Some(pooler) = &self.pooler else { return Ok(row_of(self.own[0], &statement.text)) };
        let mut pooler = pooler.lock().unwrap();
        let session = match pooler.held {
            Some((who, session)) if who == self.who => session,
            held => {
                let mut session = pooler.sessions[pooler.turn % pooler.sessions.len()];
                pooler.turn += 1;
                if held.is_some_and(|(_, held)| held == session) {
                    session += 100;
                }
                session
            }
        };
        if self.begun && pooler.held.is_none() {
            pooler.held = Some((self.who, session));
        }
        let first = !std::mem::replace(&mut self.asked, true);
        if pooler.keeps_apart {
            return Ok(row_of(session, &statement.text));
        }
        match pooler.prepared.get(&session) {
            Some(_) if first => Err(sqlx::Error::Protocol("exists already".to_owned())),
            Some(text) => Ok(row_of(session, text)),
            None if first => {
                pooler.prepared.insert(session, statement.text.to_string());
                Ok(row_of(session, &statement.text))
            }
            None => Err(sqlx::Error::Protocol("does not exist".to_owned())),
        }
    }

    async fn tell(&mut self, text: &str) -> sqlx::Result<()> {
        self.begun = text == "BEGIN";
        if let (false, Some(pooler)) = (self.begun, &self.pooler) {
            pooler.lock().unwrap().held = None;
        }
        Ok(())
    }

    async fn close(self: Box<Self>) {}
}

async fn behind_connections(pooler: Option<Pooler>) -> sqlx::Result<Option<Sessions>> {
    let url = StoreUrl::parse("postgres://u@127.0.0.1/d").unwrap();
    let target = Arc::new(Target::of(&url, "postgres", 5432).unwrap());
    let dialect = PostgresDialect::new(Arc::clone(&target));
    let pooler = pooler.map(|pooler| Arc::new(Mutex::new(pooler)));
    let lent = |who, own| Lent { who, own, pooler: pooler.clone(), begun: false, asked: false };
    let (mut one, mut other) = (lent(0, &[1]), lent(1, &[2]));
    behind(&dialect, &target, [&mut one, &mut other]).await
}

fn pooler(sessions: &'static [i64], keeps_apart: bool) -> Pooler {
    Pooler { sessions, turn: 0, held: None, prepared: HashMap::new(), keeps_apart }
}

const LENT: [&[i64]; 4] = [&[1], &[1, 2], &[1, 2, 1, 2, 2, 1], &[1, 2, 3, 4, 5, 1, 3]];

#[tokio::test]
async fn sessions_that_are_lent_in_step_with_the_questions_are_seen() {
    for sessions in LENT {
        for _ in 0..20 {
            let found = behind_connections(Some(pooler(sessions, true))).await.unwrap();
            assert_eq!(found, Some(Sessions::Shared), "{sessions:?}");
        }
    }
    for _ in 0..20 {
        assert_eq!(behind_connections(None).await.unwrap(), Some(Sessions::Own));
    }
}

/// As where many begin at once: each has prepared its first statement, under the same name, in some session.
#[tokio::test]
async fn pooler_that_mixes_statements_up_is_not_taken_for_one_that_keeps_them_apart() {
    for sessions in LENT {
        for _ in 0..20 {
            let mut pooler = pooler(sessions, false);
            for session in [3, 4, 5, 101, 102] {
                pooler.prepared.insert(session, "SELECT 1, CAST(7 AS bigint)".to_owned());
            }
            let found = behind_connections(Some(pooler)).await;
            assert!(matches!(found, Ok(None) | Err(_)), "{sessions:?}: {found:?}");
        }
    }
}
