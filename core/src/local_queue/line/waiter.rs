//! One who waits in line. Small on purpose: there may be thousands.

use crate::duration::Nanos;
use crate::{Claim, Listener, LockMode, Moment, OwnerId};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) owner: OwnerId,
    /// In a place of its own: whoever asks is looked for among all who wait, and a line that grows copies itself.
    pub(super) its: Box<State>,
}

#[derive(Debug)]
pub(super) struct State {
    terms: Terms,
    /// As whom it asks the store: itself, or another once the word was sent that releases what it had asked for.
    pub(super) asks_as: OwnerId,
    listener: Listener,
    /// When it asked last, or had the store's answer.
    pub(super) seen: Moment,
    /// True if it was told to wait, or does not know what became of its question: then its release will come.
    pub(super) told: bool,
}

/// What the hold is that somebody wants.
#[derive(Debug)]
struct Terms {
    ttl: Nanos,
    mode: LockMode,
    holder: Arc<str>,
}

impl Waiter {
    pub(super) fn new(claim: &Claim, asks_as: OwnerId, now: Moment) -> Self {
        let terms = Terms { ttl: claim.ttl().into(), mode: claim.mode(), holder: claim.shared_holder() };
        let its = State { terms, asks_as, listener: Listener::default(), seen: now, told: false };
        Self { owner: claim.owner(), its: Box::new(its) }
    }

    /// True if what the store keeps for this claim is what the waiter asks for, and what it shows is true of both.
    pub(super) fn shares(&self, claim: &Claim) -> bool {
        let Terms { ttl, mode, holder } = &self.its.terms;
        *ttl == claim.ttl().into() && *mode == claim.mode() && **holder == *claim.holder()
    }

    /// True if it has not asked for so long.
    pub(super) fn is_away_for(&self, time: Duration, now: Moment) -> bool {
        now >= self.its.seen.plus(time)
    }

    /// There is news for it; also if it listens later. Who is to be woken.
    #[must_use = "nobody is woken here"]
    pub(super) fn tell(&mut self) -> Option<Waker> {
        self.its.listener.tell()
    }

    pub(super) fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.its.listener.poll(cx)
    }
}
