use crate::context::Context;
use crate::observer::Event;
use crate::{Claim, Error, ErrorKind, HoldKind, Moment, Release, Renewal, Result};
use futures_util::FutureExt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Removes what a claim has in the store: its hold, or what its attempts may have left. After an outage the release is tried
/// again until the store has answered, or until the lease must have ended. A hold that is not a lease does not end by itself.
#[derive(Clone)]
pub(super) struct Cleanup {
    context: Arc<Context>,
    claim: Claim,
    /// True for a hold, false for an acquisition that ended without one.
    is_hold: bool,
    /// The hold keeps others out until then.
    linger_until: Option<Moment>,
    /// The failure of a release that may have been applied. A later answer "not held" then means success, and a later failure
    /// that changed nothing says nothing about this one.
    unknown: Option<Error>,
    /// True once the store has confirmed the hold after its work was done: a later end of the hold is no loss of that work.
    confirmed_after_work: bool,
    /// True once the store has answered, or the release was given up.
    is_over: bool,
}

impl Cleanup {
    pub(super) fn new(
        context: &Arc<Context>,
        claim: Claim,
        is_hold: bool,
        linger_until: Option<Moment>,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            claim,
            is_hold,
            linger_until,
            unknown: None,
            confirmed_after_work: false,
            is_over: false,
        }
    }

    /// Tries once, and after an outage once more; after another outage it goes on in the background.
    pub(super) async fn run_for_caller(mut self, runtime: &Handle) -> Result<Release> {
        let mut answer = self.try_release().await;
        if !self.is_over {
            tokio::time::sleep(FIRST_PAUSE).await;
            answer = self.try_release().await;
        }
        if !self.is_over {
            self.run_in_background(runtime);
        }
        answer
    }

    pub(super) fn run_in_background(self, runtime: &Handle) {
        let tracker = self.context.background.clone();
        // A runtime that has ended drops this at once, and `Drop` takes over.
        runtime.spawn(tracker.track_future(self.retry_until_over()));
    }

    async fn retry_until_over(mut self) {
        let is_lease = self.context.semantics.hold == HoldKind::Lease;
        let lease_ends_at = self.context.clock.now().plus(self.claim.ttl());
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(error) = self.try_release().await else { return };
            if self.is_over || is_lease && self.context.clock.now() >= lease_ends_at {
                self.finish(true);
                let (name, mode) = (self.claim.name(), self.claim.mode());
                return self.context.events.tell(&Event::ReleaseUnconfirmed { name, mode, error: &error });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn try_release(&mut self) -> Result<Release> {
        let mut linger = Duration::ZERO;
        match self.linger_until {
            Some(until) if self.context.semantics.hold == HoldKind::Lease => {
                linger = until.since(self.context.clock.now());
            }
            // The store cannot keep others out after this hold.
            Some(until) => self.keep_hold(until).await,
            None => {}
        }
        let release = async { self.context.backend.release(&self.claim, linger).await };
        let answer = AssertUnwindSafe(release).catch_unwind().await;
        let answer = self.unless_it_panicked(answer);
        if !answer.as_ref().is_err_and(Error::is_outage) {
            // A claim that had nothing in the store frees nothing.
            let is_released = matches!(answer, Ok(Release::Released));
            self.finish(self.is_hold || self.unknown.is_some() || is_released);
        }
        match answer {
            Ok(Release::NotHeld) if self.confirmed_after_work || self.unknown.is_some() => {
                Ok(Release::Released)
            }
            Err(it) if self.confirmed_after_work && it.kind() == ErrorKind::Lost => Ok(Release::Released),
            Err(error) if error.is_indeterminate() => {
                self.unknown = Some(error.clone());
                Err(error)
            }
            Err(error) if error.is_outage() => Err(self.unknown.clone().unwrap_or(error)),
            answer => answer,
        }
    }

    /// Renews a hold that is not a lease until then.
    async fn keep_hold(&mut self, until: Moment) {
        while self.context.clock.now() < until {
            let renewal = async { self.context.backend.renew(std::slice::from_ref(&self.claim)).await };
            let answer = AssertUnwindSafe(renewal).catch_unwind().await;
            match self.unless_it_panicked(answer).first() {
                Some(Ok(Renewal::Renewed)) => self.confirmed_after_work = true,
                Some(Ok(Renewal::Lost(_))) => return,
                Some(Err(error)) if error.kind() == ErrorKind::Closed => return,
                Some(Ok(Renewal::Held) | Err(_)) | None => {}
            }
            let clock = &self.context.clock;
            clock.sleep_until(clock.now().plus(self.claim.ttl() / 3).min(until)).await;
        }
    }

    /// A backend that has panicked is not asked again: it would do the same.
    fn unless_it_panicked<T>(&mut self, answer: std::thread::Result<T>) -> T {
        answer.unwrap_or_else(|panic| {
            self.finish(true);
            resume_unwind(panic)
        })
    }

    /// Wakes the next waiter of this client, if the lock may be free now.
    fn finish(&mut self, may_be_free: bool) {
        if !std::mem::replace(&mut self.is_over, true) && may_be_free {
            self.context.wait_queues.released(&self.claim, &*self.context.clock);
        }
    }
}

/// The runtime ended before the store answered: the release goes on elsewhere.
impl Drop for Cleanup {
    fn drop(&mut self) {
        if !self.is_over {
            self.context.fallback_runtime.spawn(|| {
                let tracker = &self.context.background;
                Box::pin(tracker.track_future(self.clone().retry_until_over()))
            });
        }
    }
}
