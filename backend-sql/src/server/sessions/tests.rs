//! Poolers that lend sessions in turn, and none.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use crate::names::TableName;
use crate::postgres::TEXTS;
use crate::server::Answer;
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A connection that is lent these sessions, in turn with the other one.
#[derive(Debug)]
struct Lent {
    sessions: &'static [i64],
    turn: Arc<AtomicUsize>,
}

#[async_trait]
impl RawConnection for Lent {
    async fn ask(&mut self, _: &Statement, _: &[Value]) -> sqlx::Result<Answer> {
        let turn = self.turn.fetch_add(1, Ordering::SeqCst);
        let session = self.sessions[turn % self.sessions.len()];
        Ok(Answer { rows: vec![vec![Value::Int(Some(session))]], ..Answer::default() })
    }

    async fn first_row(&mut self, _: &str) -> sqlx::Result<Vec<Option<String>>> {
        Ok(Vec::new())
    }

    async fn tell(&mut self, _: &str) -> sqlx::Result<()> {
        Ok(())
    }

    async fn close(self: Box<Self>) {}
}

async fn behind_connections(mut one: Lent, mut other: Lent) -> Sessions {
    let table = TableName::parse(None, TableName::DEFAULT, 58).unwrap();
    let question = Statement::new("SELECT 1", &TEXTS, &table);
    behind(&question, [&mut one, &mut other]).await.unwrap()
}

#[tokio::test]
async fn pooler_that_lends_sessions_in_turn_is_found() {
    const LENT: [&[i64]; 4] = [&[1], &[1, 2], &[1, 2, 1, 2, 2, 1], &[1, 2, 3, 4, 5, 1, 3]];
    for sessions in LENT {
        for _ in 0..20 {
            let turn = Arc::<AtomicUsize>::default();
            let lent = || Lent { sessions, turn: Arc::clone(&turn) };
            assert_eq!(behind_connections(lent(), lent()).await, Sessions::Shared, "{sessions:?}");
        }
    }
    for _ in 0..20 {
        let own = |sessions| Lent { sessions, turn: Arc::default() };
        assert_eq!(behind_connections(own(&[1]), own(&[2])).await, Sessions::Own);
    }
}
