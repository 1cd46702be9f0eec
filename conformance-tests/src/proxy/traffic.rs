//! What becomes of what passes.

use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::WriteHalf;
use tokio::sync::watch;

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
    /// The same, from the reply of this number on, over all connections, counted from the moment in which this is set: with 0 it is
    /// the next.
    HoldRepliesFrom(u64),
    /// Passes replies, keeps the requests back: what is asked does not arrive, and what the store says by itself does.
    HoldRequests,
    /// Passes everything, each piece so much later.
    Delay(Duration),
    /// Passes so many bytes a second, in each direction of each connection.
    Throttle(NonZeroU32),
    /// Passes at most so many bytes at a time, with a pause of a millisecond: whoever reads them reads half a message.
    Slice(NonZeroUsize),
    /// Passes so many bytes, in both directions and over all connections, counted from the moment in which this is set. Then it
    /// resets the connection of the next one (RST, where [`Proxy::cut`](super::Proxy::cut) says FIN), and passes everything that follows.
    ResetAfter(u64),
}

impl Traffic {
    fn passes_replies(self) -> bool {
        !matches!(self, Self::BlackHole | Self::HoldReplies | Self::HoldRepliesFrom(_))
    }
}

/// What decides over one connection.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) traffic: watch::Receiver<Traffic>,
    pub(super) passed: Arc<AtomicU64>,
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
            Side::Server => self.is_in_time() || self.passes(Traffic::passes_replies).await,
        }
    }

    /// True for a reply that comes before the first that is kept back.
    fn is_in_time(&self) -> bool {
        match *self.traffic.borrow() {
            Traffic::HoldRepliesFrom(number) => self.passed.fetch_add(1, Ordering::SeqCst) < number,
            _ => false,
        }
    }

    pub(super) async fn passes(&mut self, passes: fn(Traffic) -> bool) -> bool {
        self.traffic.wait_for(|now| passes(*now)).await.is_ok()
    }

    /// Passes on what may pass, in the way of the moment.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` if this is where the connection is to be reset.
    pub(super) async fn pass_on(&self, piece: &[u8], to: &mut WriteHalf<'_>) -> io::Result<()> {
        let way = *self.traffic.borrow();
        match way {
            Traffic::Delay(time) => tokio::time::sleep(time).await,
            Traffic::Throttle(rate) => {
                let at_a_time = (rate.get() as usize).div_ceil(100);
                return in_parts(piece, at_a_time, Duration::from_millis(10), to).await;
            }
            Traffic::Slice(bytes) => return in_parts(piece, bytes.get(), Duration::from_millis(1), to).await,
            Traffic::ResetAfter(bytes) => {
                if let Some(last) = self.last_before_the_reset(piece, bytes) {
                    to.write_all(last).await?;
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
            }
            _ => {}
        }
        to.write_all(piece).await
    }

    /// What of a piece still passes, if the connection is reset within it.
    fn last_before_the_reset<'a>(&self, piece: &'a [u8], bytes: u64) -> Option<&'a [u8]> {
        let before = self.passed.fetch_add(piece.len() as u64, Ordering::SeqCst);
        let left = usize::try_from(bytes.checked_sub(before)?).ok()?;
        piece.get(..left).filter(|last| last.len() < piece.len())
    }
}

async fn in_parts(piece: &[u8], at_a_time: usize, pause: Duration, to: &mut WriteHalf<'_>) -> io::Result<()> {
    for part in piece.chunks(at_a_time) {
        to.write_all(part).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}
