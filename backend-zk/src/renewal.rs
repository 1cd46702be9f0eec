//! Renewal. The server keeps no time for a node, so there is nothing to extend: a hold lasts as long as its session and its
//! node. One write proves the session for all holds that are renewed together. A watch tells of the deletion of the node; it is
//! set by the first renewal, which a grant wants soon: so a short hold costs nothing for it.

use crate::ZooKeeperBackend;
use crate::claims::{ClaimEntry, ClaimState, OwnNode, token};
use crate::notifier::Signal;
use crate::queue::Queue;
use crate::session::{SessionCall, WatchTarget, ZkResult};
use leasehold_core::{Claim, Error, ErrorKind, LockMode, LossCause, Moment, Renewal, Result};
use std::time::Duration;
use tokio::time::timeout;

/// The time that one claim may delay its batch: while another call has it, and while the cause of its loss is looked for.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(250);

impl ZooKeeperBackend {
    /// Renews one of the claims of a call that began at this moment.
    pub(crate) async fn renew_one(&self, claim: &Claim, started_at: Moment) -> Result<Renewal> {
        let Some(entry) = self.claims.get(claim.owner()) else {
            return Ok(Renewal::Lost(LossCause::Gone));
        };
        let node = match timeout(CLAIM_TIMEOUT, entry.state.lock()).await.as_deref() {
            Ok(ClaimState::Holding { node, .. }) => node.clone(),
            Ok(_) => return Ok(Renewal::Lost(LossCause::Gone)),
            Err(_) => return Err(Error::new(ErrorKind::Unavailable, "another call has this claim")),
        };
        match self.confirm(claim, &entry, &node, started_at).await {
            // The servers have ended the session, or the library has given it up.
            Err(_) | Ok(Renewal::Lost(_)) if node.session.has_ended() => {
                Ok(Renewal::Lost(LossCause::SessionOver))
            }
            answer => answer,
        }
    }

    /// Proves the session. Reads the node too if no watch is set on it.
    async fn confirm(
        &self,
        claim: &Claim,
        entry: &ClaimEntry,
        node: &OwnNode,
        started_at: Moment,
    ) -> Result<Renewal> {
        if !node.session.is_connected() {
            // At once: the holder is at risk now, and asks again soon.
            let help = "the library is connecting again; look at the ensemble and at the network";
            let error = Error::new(ErrorKind::Unavailable, "the connection to ZooKeeper is lost");
            return Err(error.with_help(help));
        }
        let call = self.sessions.call_in(&node.session)?;
        let directory = self.names.directory_of(claim.name());
        let read_node = || read_own_node(&call, &directory, entry, node);
        let is_watched = || entry.notifier.signal() == Signal::Watched;
        let trusts_watch = is_watched();
        let look = async { if trusts_watch { Ok(true) } else { read_node().await } };
        let (proof, mut exists) = tokio::join!(biased; call.prove_since(started_at), look);
        // The watch fired before the reply to the proof. Another renewal may have taken its signal.
        if trusts_watch && proof.is_ok() && !is_watched() {
            exists = read_node().await;
        }
        match (proof, exists) {
            // A missing node is a loss, also without a proof.
            (_, Ok(false)) => Ok(Renewal::Lost(loss_cause(&call, &directory, claim.mode()).await)),
            (Ok(()), Ok(true)) => Ok(Renewal::Renewed),
            (Err(error), _) | (_, Err(error)) => Err(error.into_read_error()),
        }
    }
}

/// Reads the claim's own node, and sets the watch on it. True if the transaction that made the node is the one of the grant.
async fn read_own_node(
    call: &SessionCall,
    directory: &str,
    entry: &ClaimEntry,
    node: &OwnNode,
) -> ZkResult<bool> {
    // Until the watch is set, another renewal of this claim reads the node too.
    let before = entry.notifier.take();
    let path = format!("{directory}/{}", node.name);
    let found = call.watch(&path, WatchTarget::Own, &entry.notifier.waker()).await?;
    let own = found.filter(|(stat, _)| token(stat) == node.token);
    let Some((_, new_watch)) = own else { return Ok(false) };
    // No watch while another call has the claim: a release may have it for long, and the batch waits.
    if let Ok(ClaimState::Holding { watch, .. }) = entry.state.try_lock().as_deref_mut() {
        entry.notifier.set(before, if new_watch.is_some() { Signal::Watched } else { Signal::Unwatched });
        *watch = new_watch;
    }
    Ok(true)
}

/// [`Taken`](LossCause::Taken) if the first in the queue, which holds the lock, conflicts with this mode. An unknown
/// cause is [`Gone`](LossCause::Gone).
async fn loss_cause(call: &SessionCall, directory: &str, mode: LockMode) -> LossCause {
    let list = timeout(CLAIM_TIMEOUT, call.sync_and_list(directory)).await;
    let queue = Queue::of(list.ok().and_then(ZkResult::ok).unwrap_or_default());
    match queue.contenders().first() {
        Some(holder) if holder.mode.conflicts_with(mode) => LossCause::Taken,
        _ => LossCause::Gone,
    }
}

#[cfg(test)]
mod tests;
