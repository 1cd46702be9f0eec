//! One who waits in line. Small on purpose: there may be thousands.

use crate::duration::Nanos;
use crate::{Claim, LockMode, Moment, OwnerId};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

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
    wake: Option<Waker>,
    /// When it asked last.
    pub(super) seen: Moment,
    /// True if there is news that it has not heard.
    is_woken: bool,
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
    pub(super) fn new(claim: &Claim, now: Moment) -> Self {
        let terms = Terms { ttl: claim.ttl().into(), mode: claim.mode(), holder: claim.shared_holder() };
        let owner = claim.owner();
        let its = State { terms, asks_as: owner, wake: None, seen: now, is_woken: false, told: false };
        Self { owner, its: Box::new(its) }
    }

    /// True if what the store keeps for this claim is what the waiter asks for, and what it shows is true of both.
    pub(super) fn shares(&self, claim: &Claim) -> bool {
        let Terms { ttl, mode, holder } = &self.its.terms;
        *ttl == claim.ttl().into() && *mode == claim.mode() && **holder == *claim.holder()
    }

    /// There is news for it; also if it listens later.
    pub(super) fn wake(&mut self) {
        self.its.is_woken = true;
        if let Some(waker) = self.its.wake.take() {
            waker.wake();
        }
    }

    /// Ready when there was news since it was ready last. Whoever has asked last is woken.
    pub(super) fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.its.is_woken) {
            return Poll::Ready(());
        }
        match &mut self.its.wake {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockName;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waiter() -> Waiter {
        let name = LockName::new("job").unwrap();
        let claim = Claim::new(name, OwnerId::from_u128(1), Duration::from_secs(10), "me".into());
        Waiter::new(&claim, Moment::ORIGIN)
    }

    #[test]
    fn news_is_heard_once_also_if_it_came_before_anybody_listened() {
        let (mut waiter, mut cx) = (waiter(), Context::from_waker(Waker::noop()));
        assert!(waiter.poll_news(&mut cx).is_pending());
        for _ in 0..2 {
            waiter.wake();
            waiter.wake();
            assert!(waiter.poll_news(&mut cx).is_ready());
            assert!(waiter.poll_news(&mut cx).is_pending());
        }
    }

    #[test]
    fn who_listens_last_is_woken() {
        let (mut waiter, woken) = (waiter(), [Arc::<Woken>::default(), Arc::default()]);
        for listener in &woken {
            let waker = Waker::from(Arc::clone(listener));
            assert!(waiter.poll_news(&mut Context::from_waker(&waker)).is_pending());
        }
        waiter.wake();
        assert_eq!(woken.map(|it| it.0.load(Ordering::Relaxed)), [0, 1]);
    }
}
