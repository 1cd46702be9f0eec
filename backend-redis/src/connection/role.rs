//! Whether a server still is a primary. A replica may take writes (`replica-read-only no`), and knows nothing of what its primary
//! grants, so nothing that it says of a lock counts.

use super::handshake::ServerFacts;
use crate::locked;
use redis::{Cmd, Value};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The server is asked in the round trip of the first script of each interval, so a lock costs no command more.
const INTERVAL: Duration = Duration::from_secs(1);

/// What one connection knows of the role of its server.
#[derive(Debug)]
pub(super) struct RoleCheck {
    question: Cmd,
    asked_at: Mutex<Instant>,
    is_replica: AtomicBool,
}

impl RoleCheck {
    /// `None` for a server that does not tell its role.
    pub(super) fn new(facts: &ServerFacts, takes_hello: bool) -> Option<Self> {
        (!facts.role.is_empty()).then(|| Self {
            // In RESP2 there is no `HELLO`.
            question: match takes_hello {
                true => redis::cmd("HELLO"),
                false => redis::cmd("INFO").arg("replication").take(),
            },
            asked_at: Mutex::new(Instant::now()),
            is_replica: AtomicBool::new(facts.is_replica()),
        })
    }

    pub(super) fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::SeqCst)
    }

    /// The question, if it is time for it.
    pub(super) fn question(&self) -> Option<Cmd> {
        let mut asked_at = locked(&self.asked_at);
        if asked_at.elapsed() < INTERVAL {
            return None;
        }
        *asked_at = Instant::now();
        Some(self.question.clone())
    }

    /// Takes the answer. An error tells nothing.
    pub(super) fn note(&self, reply: &Value) {
        self.is_replica.store(ServerFacts::read(reply).is_replica(), Ordering::SeqCst);
    }
}
