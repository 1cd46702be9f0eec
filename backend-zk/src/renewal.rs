//! Renewal. The server keeps no time for a node, so there is nothing to extend: a hold lasts as long as its session and its
//! node. One write proves the session for all holds that are renewed together. A watch tells of the deletion of the node; it is
//! set by the first renewal, so that a short hold costs nothing for it.

use crate::ZooKeeperBackend;
use crate::claims::{ClaimEntry, ClaimState, OwnNode};
use crate::notifier::Signal;
use crate::queue::Queue;
use crate::session::{SessionCall, WatchTarget, ZkResult};
use leasehold_core::{Claim, Error, ErrorKind, LockMode, LossCause, Moment, Renewal, Result};
use std::time::Duration;
use tokio::time::timeout;

/// The time to find out whether another owner has a lost lock.
const CAUSE_TIMEOUT: Duration = Duration::from_millis(250);

impl ZooKeeperBackend {
    /// Renews one of the claims of a call that began at this moment.
    pub(crate) async fn renew_one(&self, claim: &Claim, started_at: Moment) -> Result<Renewal> {
        let Some(entry) = self.claims.get(claim.owner()) else {
            return Ok(Renewal::Lost(LossCause::Gone));
        };
        let node = match &*entry.lock().await {
            ClaimState::Holding { node, .. } => node.clone(),
            _ => return Ok(Renewal::Lost(LossCause::Gone)),
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
        let read_if_unwatched =
            async { if entry.notifier.signal() == Signal::Watched { Ok(true) } else { read_node().await } };
        let (proof, mut exists) = tokio::join!(biased; call.prove_since(started_at), read_if_unwatched);
        // The watch fired before the reply to the proof.
        if matches!((&proof, &exists), (Ok(()), Ok(true))) && entry.notifier.signal() == Signal::Fired {
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

/// Reads the claim's own node, and sets the watch on it. True if the node is there, and is the one that was granted.
async fn read_own_node(
    call: &SessionCall,
    directory: &str,
    entry: &ClaimEntry,
    node: &OwnNode,
) -> ZkResult<bool> {
    // Until the watch is set, another renewal of this claim reads the node too.
    entry.notifier.take();
    let path = format!("{directory}/{}", node.name);
    let found = call.watch(&path, WatchTarget::Own, &entry.notifier.waker()).await?;
    let own = found.filter(|(stat, _)| stat.ephemeral_owner == call.session().id);
    let Some((_, new_watch)) = own else { return Ok(false) };
    if let ClaimState::Holding { watch, .. } = &mut *entry.lock().await {
        entry.notifier.set(if new_watch.is_some() { Signal::Watched } else { Signal::Unwatched });
        *watch = new_watch;
    }
    Ok(true)
}

/// [`Taken`](LossCause::Taken) if the first in the queue, which holds the lock, conflicts with this mode. The answer to the whole
/// batch waits for this, so an unknown cause is [`Gone`](LossCause::Gone) soon.
async fn loss_cause(call: &SessionCall, directory: &str, mode: LockMode) -> LossCause {
    let list = timeout(CAUSE_TIMEOUT, call.sync_and_list(directory)).await;
    let queue = Queue::of(list.ok().and_then(ZkResult::ok).unwrap_or_default());
    match queue.contenders().first() {
        Some(holder) if holder.mode.conflicts_with(mode) => LossCause::Taken,
        _ => LossCause::Gone,
    }
}
