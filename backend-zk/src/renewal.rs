//! Renewal. The server keeps no time for a node, so there is nothing to extend: a hold lasts as long as its session and its
//! node. One write proves the session for all holds that are renewed together. A watch tells of the deletion of the node; it is
//! set by the first renewal, so that a short hold costs nothing for it.

use crate::claims::{ClaimEntry, ClaimState, ClaimTable, OwnNode};
use crate::names::Names;
use crate::notifier::Signal;
use crate::queue::Queue;
use crate::session::{Session, SessionCall, Sessions, WatchTarget, ZkError};
use futures_util::future::join_all;
use leasehold_core::{Claim, Clock, Error, ErrorKind, LossCause, Moment, Renewal, Result, SystemClock};

/// Renews holds.
#[derive(Debug)]
pub(crate) struct Renewals<'a> {
    pub(crate) sessions: &'a Sessions,
    pub(crate) names: &'a Names,
    pub(crate) claims: &'a ClaimTable,
}

impl Renewals<'_> {
    /// Answers for each claim.
    pub(crate) async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let started_at = SystemClock::new().now();
        join_all(claims.iter().map(|claim| self.renew_one(claim, started_at))).await
    }

    async fn renew_one(&self, claim: &Claim, started_at: Moment) -> Result<Renewal> {
        let Some(entry) = self.claims.get(claim.owner()) else {
            return Ok(Renewal::Lost(LossCause::Gone));
        };
        let node = match &*entry.lock().await {
            ClaimState::Holding { node, .. } => node.clone(),
            _ => return Ok(Renewal::Lost(LossCause::Gone)),
        };
        match self.confirm(claim, &entry, &node, started_at).await {
            // Told by the servers, or found out by the library, which is later.
            Err(_) if node.session.has_ended() => Ok(Renewal::Lost(LossCause::SessionOver)),
            answer => answer,
        }
    }

    /// Proves the session, and reads the node in the same round trip if no watch would have told of its deletion.
    async fn confirm(
        &self,
        claim: &Claim,
        entry: &ClaimEntry,
        node: &OwnNode,
        started_at: Moment,
    ) -> Result<Renewal> {
        check_connected(&node.session)?;
        let call = self.sessions.call_in(&node.session)?;
        let directory = self.names.directory_of(claim.name());
        let looked = async {
            if entry.notifier.needs_look() { look(&call, &directory, entry, node).await } else { Ok(true) }
        };
        let (proved, exists) = tokio::join!(biased; call.prove_since(started_at), looked);
        proved.map_err(ZkError::into_read_error)?;
        if exists? { Ok(Renewal::Renewed) } else { Ok(Renewal::Lost(loss_cause(&call, &directory).await)) }
    }
}

/// At once: the holder is at risk now, and asks again soon.
fn check_connected(session: &Session) -> Result<()> {
    if session.is_connected() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unavailable, "the connection to ZooKeeper is lost")
        .with_help("the library is connecting again; look at the ensemble and at the network"))
}

/// Reads the claim's own node, and sets the watch on it. True if the node is there, and is the one that was granted.
async fn look(call: &SessionCall, directory: &str, entry: &ClaimEntry, node: &OwnNode) -> Result<bool> {
    entry.notifier.set(Signal::Watched);
    let unless_found = NoWatchOnDrop(entry);
    let path = format!("{directory}/{}", node.name);
    let read = call.watch(&path, WatchTarget::Own, &entry.notifier.waker()).await;
    let (stat, new_watch) = match read {
        Err(ZkError::NoNode) => return Ok(false),
        read => read.map_err(ZkError::into_read_error)?,
    };
    if stat.ephemeral_owner != call.session().id() {
        return Ok(false);
    }
    if new_watch.is_some() {
        std::mem::forget(unless_found);
    }
    if let ClaimState::Holding { watch, .. } = &mut *entry.lock().await {
        *watch = new_watch;
    }
    Ok(true)
}

/// Has the next renewal look again, after a look that set no watch, found nothing, or was dropped with its runtime.
struct NoWatchOnDrop<'a>(&'a ClaimEntry);

impl Drop for NoWatchOnDrop<'_> {
    fn drop(&mut self) {
        self.0.notifier.set(Signal::Unwatched);
    }
}

/// Whether another owner holds the lock already.
async fn loss_cause(call: &SessionCall, directory: &str) -> LossCause {
    match call.sync_and_list(directory).await.map(Queue::of) {
        Ok(queue) if !queue.contenders().is_empty() => LossCause::Taken,
        _ => LossCause::Gone,
    }
}
