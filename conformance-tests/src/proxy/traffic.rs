//! What becomes of what passes.

use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::WriteHalf;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

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
    /// The same, after so many bytes of replies, over all connections, counted from the moment in which this is set: between
    /// two answers, also where they come in one piece.
    HoldRepliesAfter(u64),
    /// Passes replies, keeps the requests back: what is asked does not arrive, and what the store says by itself does.
    HoldRequests,
    /// Passes everything, each piece so much later.
    Delay(Duration),
    /// Passes so many bytes a second, in each direction of each connection.
    Throttle(NonZeroU32),
    /// Passes at most so many bytes at a time, with a pause of a millisecond: whoever reads them reads half a message.
    Slice(NonZeroUsize),
    /// Passes so many bytes, in both directions and over all connections, counted from the moment in which this is set.
    /// Then it resets the connection of the next one (RST, where [`Proxy::cut`](super::Proxy::cut) says FIN), and
    /// passes everything that follows.
    ResetAfter(u64),
}

impl Traffic {
    fn passes_replies(self) -> bool {
        use Traffic::{BlackHole, HoldReplies, HoldRepliesAfter, HoldRepliesFrom};
        !matches!(self, BlackHole | HoldReplies | HoldRepliesFrom(_) | HoldRepliesAfter(_))
    }
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
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) way: watch::Receiver<TrafficState>,
    pub(super) resets: Arc<AtomicU64>,
    pub(super) singles: Arc<Semaphore>,
    pub(super) stranded: watch::Receiver<u64>,
    pub(super) number: u64,
}

/// Where something comes from.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Client,
    Server,
}

impl Gate {
    /// Waits until what came from this side may go on; false if the proxy has ended.
    pub(super) async fn lets_pass(&mut self, from: Side) -> bool {
        match from {
            Side::Client => {
                self.passes(|now| !matches!(now, Traffic::BlackHole | Traffic::HoldRequests)).await
                    && self.stranded.wait_for(|first| self.number >= *first).await.is_ok()
            }
            Side::Server => {
                let singles = Arc::clone(&self.singles);
                tokio::select! {
                    biased;
                    passes = self.passes(Traffic::passes_replies) => passes,
                    single = singles.acquire() => single.map(SemaphorePermit::forget).is_ok(),
                }
            }
        }
    }

    /// How many bytes of a piece come before the first that are kept back.
    pub(super) fn in_time(&self, from: Side, length: usize) -> usize {
        let way = self.way.borrow();
        match (from, way.traffic) {
            (Side::Server, Traffic::HoldRepliesFrom(number)) if way.pass(1) < number => length,
            (Side::Server, Traffic::HoldRepliesAfter(bytes)) => {
                let left = bytes.saturating_sub(way.pass(length));
                usize::try_from(left).map_or(length, |left| left.min(length))
            }
            _ => 0,
        }
    }

    pub(super) async fn passes(&mut self, passes: fn(Traffic) -> bool) -> bool {
        self.way.wait_for(|way| passes(way.traffic)).await.is_ok()
    }

    /// Passes on what may pass, in the way of the moment.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` if this is where the connection is to be reset.
    pub(super) async fn pass_on(&self, piece: &[u8], to: &mut WriteHalf<'_>) -> io::Result<()> {
        let way = self.way.borrow().clone();
        match way.traffic {
            Traffic::Delay(time) => tokio::time::sleep(time).await,
            Traffic::Throttle(rate) => {
                for part in piece.chunks((rate.get() as usize).div_ceil(100)) {
                    tokio::time::sleep(Duration::from_secs(part.len() as u64) / rate.get()).await;
                    to.write_all(part).await?;
                }
                return Ok(());
            }
            Traffic::Slice(bytes) => {
                for part in piece.chunks(bytes.get()) {
                    to.write_all(part).await?;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return Ok(());
            }
            Traffic::ResetAfter(bytes) => {
                if let Some(last) = way.last_before_a_reset(piece, bytes) {
                    to.write_all(last).await?;
                    self.resets.fetch_add(1, Ordering::SeqCst);
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
            }
            _ => {}
        }
        to.write_all(piece).await
    }
}
