//! How much a session may listen to.
//!
//! When it has connected anew, the client library asks for all its watches again, by one request for each 128 KiB of
//! paths. All of these have one number, so of two it knows the answer to one: it takes the other for a breach of the
//! protocol, closes the connection, and does the same at the next server, until the session is over and every lock of it
//! lost (zookeeper-client 0.11.2, `WatchManager::resend_watches`). It hears of a watch that is taken back only while it is
//! connected. So there are never more than fit into one request.
//!
//! Who finds no room looks from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How many bytes of paths are listened to. What is missing to 128 KiB is for watches that nobody wants any more, and the
/// library does not know yet: those of requests whose caller was gone when the answer came.
const MOST: usize = 112 * 1024;
/// How many of them may be of one's own nodes. Who waits for another process's node needs to hear of it more.
const MOST_OF_OWN: usize = 80 * 1024;
/// In which time one of those who hear nothing looks, whoever's turn it is: a hundred thousand of them ask a thousand
/// times a second.
const LOOK: Duration = Duration::from_millis(1);

/// The room of one session.
#[derive(Debug)]
pub(crate) struct Room {
    made: Instant,
    taken: AtomicUsize,
    /// How many there are who found none.
    outside: AtomicU64,
}

/// Whose node somebody listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The claim's own.
    Own,
    /// That in front of it.
    Another,
}

/// Room for one watch, given back when this is dropped: not before the watch is.
#[derive(Debug)]
pub(super) struct Share {
    room: Arc<Room>,
    bytes: usize,
}

/// One who found no room.
#[derive(Debug)]
pub(super) struct Outside {
    room: Arc<Room>,
    /// In milliseconds since the room was made: a hundred thousand of these are kept.
    looked: u64,
}

impl Default for Room {
    fn default() -> Self {
        Self { made: Instant::now(), taken: AtomicUsize::default(), outside: AtomicU64::default() }
    }
}

impl Room {
    /// Room for a watch of this path; `None` if there is none left.
    pub(super) fn share(self: &Arc<Self>, whose: Whose, path: &str) -> Option<Share> {
        let most = match whose {
            Whose::Own => MOST_OF_OWN,
            Whose::Another => MOST,
        };
        let bytes = path.len();
        let with = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= most);
        let entered = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        entered.is_ok().then(|| Share { room: Arc::clone(self), bytes })
    }

    /// For whoever has found none, and has looked just now.
    pub(super) fn outside(self: &Arc<Self>) -> Outside {
        self.outside.fetch_add(1, Ordering::Relaxed);
        Outside { room: Arc::clone(self), looked: self.age() }
    }

    /// In milliseconds.
    fn age(&self) -> u64 {
        self.made.elapsed().as_millis().try_into().unwrap_or(u64::MAX)
    }
}

impl Outside {
    /// How long after its last look it is its turn again.
    pub(super) fn pause(&self) -> Duration {
        let outside = self.room.outside.load(Ordering::Relaxed);
        LOOK.saturating_mul(outside.try_into().unwrap_or(u32::MAX))
    }

    pub(super) fn is_look_due(&self) -> bool {
        Duration::from_millis(self.room.age().saturating_sub(self.looked)) >= self.pause()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.room.outside.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the client library sends in one request.
    const ONE_REQUEST: usize = 128 * 1024;

    #[test]
    fn there_is_room_for_no_more_than_one_request_carries() {
        let (room, path) = (Arc::<Room>::default(), "x".repeat(87));
        let own: Vec<_> = std::iter::from_fn(|| room.share(Whose::Own, &path)).collect();
        let others: Vec<_> = std::iter::from_fn(|| room.share(Whose::Another, &path)).collect();
        assert!((900..1_000).contains(&own.len()), "{}", own.len());
        assert!(others.len() > 300, "{}: holders leave none to who waits", others.len());
        assert!((own.len() + others.len()) * path.len() < ONE_REQUEST);
        assert!(room.share(Whose::Own, &path).is_none());
        drop(others);
        assert!(room.share(Whose::Own, &path).is_none() && room.share(Whose::Another, &path).is_some());
        drop(own);
        assert_eq!(room.taken.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_those_outside_looks_in_its_turn_and_all_together_no_more_often_than_a_thousand_times_a_second()
     {
        let room = Arc::<Room>::default();
        let one = room.outside();
        let others: Vec<_> = (1..100_000).map(|_| room.outside()).collect();
        tokio::time::advance(Duration::from_secs(99)).await;
        assert!(!one.is_look_due());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(one.is_look_due());
        assert_eq!(room.outside().pause(), Duration::from_millis(100_001));
        drop(others);
        assert_eq!(one.pause(), LOOK);
    }
}
