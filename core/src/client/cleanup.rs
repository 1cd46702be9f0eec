use crate::context::Context;
use crate::observer::Event;
use crate::{Claim, Error, ErrorKind, HoldKind, Moment, Release, Renewal, Result};
use futures_util::FutureExt;
use std::any::Any;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// How often a release is tried while its caller waits.
const TRIES_FOR_CALLER: u32 = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Removes what a claim has in the store: its hold, or what its attempts may have left. The release is tried again after
/// an outage until the store has answered, or until the lease must have ended by itself; a hold that is not a lease
/// does not end by itself.
#[derive(Debug)]
pub(super) struct Cleanup {
    context: Arc<Context>,
    claim: Claim,
    /// True for a hold, false for an acquisition that ended without one.
    is_hold: bool,
    /// Others are kept out until then.
    linger_until: Option<Moment>,
    /// The failure of a release that may have been applied. "Nothing to end" is then what a success looks like, and a
    /// later try that was certainly not applied says nothing about the first.
    unknown: Option<Error>,
    /// True once the store has confirmed the hold after its work was done: a later end of the hold is no loss of that work.
    confirmed_after_work: bool,
    /// True once the store has answered, or the release was given up.
    is_over: bool,
}

impl Cleanup {
    /// The cleanup of a hold, which keeps others out until `linger_until`.
    pub(super) fn of_hold(context: &Arc<Context>, claim: Claim, linger_until: Option<Moment>) -> Self {
        Self {
            context: Arc::clone(context),
            claim,
            is_hold: true,
            linger_until,
            unknown: None,
            confirmed_after_work: false,
            is_over: false,
        }
    }

    /// The cleanup of an acquisition that ended without a hold.
    pub(super) fn of_pending(context: &Arc<Context>, claim: Claim) -> Self {
        let mut cleanup = Self::of_hold(context, claim, None);
        cleanup.is_hold = false;
        cleanup
    }

    /// Tries for as long as a caller can be expected to wait. After an outage it goes on in the background.
    pub(super) async fn run_for_caller(mut self, runtime: &Handle) -> Result<Release> {
        for _ in 1..TRIES_FOR_CALLER {
            match self.try_release().await {
                Err(error) if error.is_outage() => tokio::time::sleep(FIRST_PAUSE).await,
                answer => return answer,
            }
        }
        let answer = self.try_release().await;
        if !self.is_over {
            self.run_in_background(runtime);
        }
        answer
    }

    /// Tries without a caller, until the lease must be over, if it is a lease.
    pub(super) fn run_in_background(self, runtime: &Handle) {
        let tracker = self.context.background.clone();
        // A runtime that has ended drops this at once, and `Drop` takes over.
        runtime.spawn(tracker.track_future(self.retry_until_over()));
    }

    async fn retry_until_over(mut self) {
        let give_up_at = match self.context.semantics.hold {
            HoldKind::Lease => self.context.clock.now().plus(self.claim.ttl()),
            _ => Moment::NEVER,
        };
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(error) = self.try_release().await else { return };
            if self.is_over || self.context.clock.now() >= give_up_at {
                self.finish(true);
                let name = self.claim.name();
                return self.context.events.tell(&Event::ReleaseUnconfirmed { name, error: &error });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn try_release(&mut self) -> Result<Release> {
        let linger = match (self.linger_until, self.context.semantics.hold) {
            (None, _) => Duration::ZERO,
            (Some(until), HoldKind::Lease) => until.since(self.context.clock.now()),
            (Some(until), _) => {
                // The store cannot keep others out after this hold.
                self.keep_hold(until).await;
                Duration::ZERO
            }
        };
        let answer = caught(async { self.context.backend.release(&self.claim, linger).await }).await;
        let answer = self.unless_panicked(answer);
        if !answer.as_ref().is_err_and(Error::is_outage) {
            // A claim that had nothing in the store frees nothing.
            let is_released = matches!(answer, Ok(Release::Released));
            self.finish(self.is_hold || self.unknown.is_some() || is_released);
        }
        match answer {
            Ok(Release::NotHeld) if self.confirmed_after_work || self.unknown.is_some() => {
                Ok(Release::Released)
            }
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
        let clock = Arc::clone(&self.context.clock);
        while clock.now() < until {
            let claims = std::slice::from_ref(&self.claim);
            let answers = caught(async { self.context.backend.renew(claims).await }).await;
            match self.unless_panicked(answers).first() {
                Some(Ok(Renewal::Renewed)) => self.confirmed_after_work = true,
                Some(Ok(Renewal::Lost(_))) => return,
                Some(Err(error)) if error.kind() == ErrorKind::Closed => return,
                Some(Ok(Renewal::Held) | Err(_)) | None => {}
            }
            clock.sleep_until(clock.now().plus(self.claim.ttl() / 3).min(until)).await;
        }
    }

    /// A backend that has panicked is not asked again: it would do the same.
    fn unless_panicked<T>(&mut self, answer: std::result::Result<T, Panic>) -> T {
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

type Panic = Box<dyn Any + Send>;

async fn caught<T>(call: impl Future<Output = T>) -> std::result::Result<T, Panic> {
    AssertUnwindSafe(call).catch_unwind().await
}

/// The runtime ended before the store answered: the release goes on elsewhere.
impl Drop for Cleanup {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.context.fallback_runtime.spawn(|| {
            let rest = Self {
                context: Arc::clone(&self.context),
                claim: self.claim.clone(),
                is_hold: self.is_hold,
                linger_until: self.linger_until,
                unknown: self.unknown.take(),
                confirmed_after_work: self.confirmed_after_work,
                is_over: false,
            };
            let tracker = &self.context.background;
            Box::pin(tracker.track_future(rest.retry_until_over()))
        });
    }
}
