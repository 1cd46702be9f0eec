use super::attempt::NumberedAttempt;
use super::nodes::Node;
use super::reply::Claimed;
use super::unfinished::Underway;
use leasehold_core::{ErrorKind, FencingToken, Result};
use std::sync::Arc;
use tokio::sync::watch;

/// What has become of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptResult {
    Open,
    Granted(FencingToken),
    Failed,
}

/// Goes on with the nodes that answer only after an attempt was decided without them: they get the token as well, or are
/// freed again.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    pub(super) attempt: Arc<NumberedAttempt>,
    pub(super) underway: Arc<Underway>,
    pub(super) told: watch::Receiver<AttemptResult>,
}

impl Follower {
    pub(super) async fn follow(mut self, node: Arc<Node>, answer: Result<Claimed>) {
        let holds = matches!(answer, Ok(Claimed::Mine(_)));
        let unknown = answer.is_err_and(|error| error.kind() == ErrorKind::Indeterminate);
        if !holds && !unknown {
            return;
        }
        let fate = self
            .told
            .wait_for(|fate| *fate != AttemptResult::Open)
            .await
            .map_or(AttemptResult::Failed, |fate| *fate);
        let attempt = Arc::clone(&self.attempt);
        // What a node does not answer here ends with its lease.
        let _ = match fate {
            AttemptResult::Granted(token) if holds => attempt.write_token(Arc::clone(&node), token).await,
            AttemptResult::Granted(_) | AttemptResult::Open => Ok(false),
            AttemptResult::Failed => attempt.take_back(Arc::clone(&node)).await,
        };
        if fate != AttemptResult::Failed && self.underway.is_ended() {
            // Released meanwhile: the word of that may have come to the node before the lock did.
            let _ = self.attempt.withdraw(node).await;
        }
    }
}
