//! Who waits for one name in this process, in the order in which they came.

use super::room::GRACE;
use leasehold_core::OwnerId;
use std::collections::VecDeque;
use tokio::sync::oneshot;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Line(VecDeque<Waiter>);

#[derive(Debug)]
struct Waiter {
    owner: OwnerId,
    wake: oneshot::Sender<()>,
    /// Since when he is not here: he asks for himself, and will be back in a moment, or he has given up.
    away: Option<Instant>,
}

impl Line {
    /// At the end, or where he stood a moment ago.
    pub(super) fn enter(&mut self, owner: OwnerId, now: Instant) -> oneshot::Receiver<()> {
        self.0.retain(|waiter| waiter.owner == owner || waiter.is_expected(now));
        let (waiter, woken) = Waiter::new(owner);
        match self.0.iter_mut().find(|waiter| waiter.owner == owner) {
            Some(place) => *place = waiter,
            None => self.0.push_back(waiter),
        }
        woken
    }

    /// Before everybody else.
    pub(super) fn enter_first(&mut self, owner: OwnerId) -> oneshot::Receiver<()> {
        let (waiter, woken) = Waiter::new(owner);
        self.0.push_front(waiter);
        woken
    }

    /// Some have dropped their end.
    pub(super) fn leave(&mut self, now: Instant) {
        let left = self.0.iter_mut().filter(|waiter| waiter.away.is_none() && waiter.wake.is_closed());
        left.for_each(|waiter| waiter.away = Some(now));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|waiter| waiter.away.is_some())
    }

    /// Wakes the first who is here, and takes him out.
    pub(super) fn wake_first(&mut self) -> Option<OwnerId> {
        while let Some(at) = self.0.iter().position(|waiter| waiter.away.is_none()) {
            let waiter = self.0.remove(at)?;
            if waiter.wake.send(()).is_ok() {
                return Some(waiter.owner);
            }
        }
        None
    }

    /// Wakes one of them, if he is here.
    pub(super) fn wake(&mut self, owner: OwnerId) {
        if let Some(at) = self.0.iter().position(|waiter| waiter.owner == owner)
            && let Some(waiter) = self.0.remove(at)
        {
            let _ = waiter.wake.send(());
        }
    }
}

impl Waiter {
    fn new(owner: OwnerId) -> (Self, oneshot::Receiver<()>) {
        let (wake, woken) = oneshot::channel();
        (Self { owner, wake, away: None }, woken)
    }

    fn is_expected(&self, now: Instant) -> bool {
        self.away.is_none_or(|since| now < since + GRACE)
    }
}
