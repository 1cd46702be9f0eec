//! What becomes of what passes.

use super::Network;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::WriteHalf;
use tokio::sync::SemaphorePermit;

/// What the proxy does with what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Traffic {
    /// Passes everything.
    Pass,
    /// Passes nothing and closes nothing: packets vanish.
    BlackHole,
    /// Passes requests, keeps the replies back: what is asked is done, and nobody hears of it.
    HoldReplies,
    /// The same, from the reply of this number on, over all connections, counted from the moment in which this is set:
    /// with 0 it is the next.
    HoldRepliesFrom(u64),
    /// Passes replies, keeps the requests back: what is asked does not arrive, and what the store says by itself does.
    HoldRequests,
    /// Passes at most so many bytes at a time, each piece after a pause: every message is late, or there is little bandwidth, or
    /// whoever reads them reads half a message.
    Slow(NonZeroUsize, Duration),
    /// Passes so many bytes, in both directions and over all connections, counted from the moment in which this is set.
    /// Then it resets the connection of the next one (RST, where [`Proxy::cut`](super::Proxy::cut) says FIN), and
    /// passes everything that follows.
    ResetAfter(u64),
}

/// How it is since it was set, and what has passed since then of what is counted: replies, or bytes.
#[derive(Clone, Debug)]
pub(super) struct TrafficState {
    traffic: Traffic,
    passed: Arc<AtomicU64>,
}

impl TrafficState {
    pub(super) fn new(traffic: Traffic) -> Self {
        Self { traffic, passed: Arc::default() }
    }

    fn pass(&self, count: usize) -> u64 {
        self.passed.fetch_add(count as u64, Ordering::SeqCst)
    }

    /// What of a piece still passes, if the connection is reset within it.
    fn last_before_a_reset<'a>(&self, piece: &'a [u8], bytes: u64) -> Option<&'a [u8]> {
        let left = usize::try_from(bytes.checked_sub(self.pass(piece.len()))?).ok()?;
        piece.get(..left).filter(|last| last.len() < piece.len())
    }
}

/// What decides over one connection.
pub(super) struct Gate {
    pub(super) network: Arc<Network>,
    /// The number of the connection.
    pub(super) number: u64,
}

/// Where something comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

impl Gate {
    /// Waits until what came from this side may go on.
    pub(super) async fn wait_until_passing(&self, from: Side) {
        match from {
            Side::Client => {
                self.wait_for(|now| !matches!(now, Traffic::BlackHole | Traffic::HoldRequests)).await;
                let _ = self.network.stranded.subscribe().wait_for(|first| self.number >= *first).await;
            }
            Side::Server => tokio::select! {
                biased;
                () = self.wait_for(|now| {
                    !matches!(now, Traffic::BlackHole | Traffic::HoldReplies | Traffic::HoldRepliesFrom(_))
                }) => {}
                single = self.network.singles.acquire() => single.map_or((), SemaphorePermit::forget),
            },
        }
    }

    pub(super) async fn wait_for(&self, passes: fn(Traffic) -> bool) {
        // It never fails: the network has the sender.
        let _ = self.network.state.subscribe().wait_for(|state| passes(state.traffic)).await;
    }

    /// True for a reply that comes before the first that is kept back.
    pub(super) fn is_in_time(&self, from: Side) -> bool {
        let state = self.network.state.borrow();
        let Traffic::HoldRepliesFrom(first) = state.traffic else { return false };
        from == Side::Server && state.pass(1) < first
    }

    /// Passes on what may pass, in the way of the moment. The error is `ConnectionReset` if this is where the connection is to be reset.
    pub(super) async fn pass_on(&self, piece: &[u8], to: &mut WriteHalf<'_>) -> io::Result<()> {
        let state = self.network.state.borrow().clone();
        match state.traffic {
            Traffic::Slow(bytes, pause) => {
                for part in piece.chunks(bytes.get()) {
                    tokio::time::sleep(pause).await;
                    to.write_all(part).await?;
                }
                return Ok(());
            }
            Traffic::ResetAfter(bytes) => {
                if let Some(last) = state.last_before_a_reset(piece, bytes) {
                    to.write_all(last).await?;
                    self.network.resets.fetch_add(1, Ordering::SeqCst);
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
            }
            _ => {}
        }
        to.write_all(piece).await
    }
}
