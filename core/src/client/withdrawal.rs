use super::Core;
use super::refuge::Refuge;
use crate::observer::Event;
use crate::{Claim, Error, HoldKind, Moment, Release, Result};
use futures_util::FutureExt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// How often a release is tried while its caller waits.
const TRIES_IN_FRONT: u32 = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The way of a claim out of the store. Tried again after a lost reply until the store has answered, or until the lease
/// must have ended by itself; a hold that is no lease does not end by itself.
#[derive(Debug)]
pub(super) struct Withdrawal {
    core: Arc<Core>,
    claim: Claim,
    /// Until when others are to be kept out nevertheless.
    linger_until: Moment,
    /// The failure of a release that may have been applied: "nothing to end" is what a success looks like then, and that
    /// a later try was certainly not applied says nothing of the first.
    unknown: Option<Error>,
    /// True once the store has answered, or nobody asks any more.
    is_over: bool,
}

impl Withdrawal {
    pub(super) fn new(core: &Arc<Core>, claim: Claim, linger_until: Moment) -> Self {
        Self { core: Arc::clone(core), claim, linger_until, unknown: None, is_over: false }
    }

    /// Of whatever a claim without a hold may have in the store.
    pub(super) fn of_pending(core: &Arc<Core>, claim: Claim) -> Self {
        Self::new(core, claim, Moment::ORIGIN)
    }

    /// Tries, for as long as a caller can be expected to wait; then goes on in the background and answers the error.
    pub(super) async fn in_front(mut self, runtime: &Handle) -> Result<Release> {
        for _ in 1..TRIES_IN_FRONT {
            match self.once().await {
                Err(error) if error.is_outage() => tokio::time::sleep(FIRST_PAUSE).await,
                answer => return answer,
            }
        }
        let answer = self.once().await;
        if answer.as_ref().is_err_and(Error::is_outage) {
            self.in_background(runtime);
        }
        answer
    }

    /// Tries without a caller, until the lease must be over, if it is a lease.
    pub(super) fn in_background(self, runtime: &Handle) {
        let tracker = self.core.background.clone();
        runtime.spawn(tracker.track_future(self.persist()));
    }

    /// Nobody asks any more.
    pub(super) fn give_up(mut self) {
        self.is_over = true;
    }

    async fn persist(mut self) {
        let give_up = match self.core.semantics.hold {
            HoldKind::Lease => self.core.clock.now().plus(self.claim.ttl()),
            _ => Moment::NEVER,
        };
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(error) = self.once().await else { return };
            if !error.is_outage() || self.core.clock.now() >= give_up {
                self.is_over = true;
                let name = self.claim.name();
                return self.core.tell(&Event::ReleaseUnconfirmed { name, error: &error });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn once(&mut self) -> Result<Release> {
        let answer = AssertUnwindSafe(self.send()).catch_unwind().await;
        let answer = answer.unwrap_or_else(|panic| {
            // A backend that panics would do it again.
            self.is_over = true;
            resume_unwind(panic)
        });
        self.is_over = !answer.as_ref().is_err_and(Error::is_outage);
        match answer {
            Ok(Release::NotHeld) if self.unknown.is_some() => Ok(Release::Released),
            Err(error) if error.is_indeterminate() => {
                self.unknown = Some(error.clone());
                Err(error)
            }
            Err(error) if error.is_outage() => Err(self.unknown.clone().unwrap_or(error)),
            answer => answer,
        }
    }

    /// A store whose holds are leases is told for how long others are to be kept out; any other hold is kept up from here.
    async fn send(&self) -> Result<Release> {
        let linger = match (self.linger_until, self.core.semantics.hold) {
            (Moment::ORIGIN, _) => Duration::ZERO,
            (until, HoldKind::Lease) => until.since(self.core.clock.now()),
            _ => {
                self.hold_on().await;
                Duration::ZERO
            }
        };
        self.core.backend.release(&self.claim, linger).await
    }

    async fn hold_on(&self) {
        let clock = &self.core.clock;
        while clock.now() < self.linger_until {
            self.core.backend.renew(std::slice::from_ref(&self.claim)).await;
            let next = clock.now().plus(self.claim.ttl() / 3).min(self.linger_until);
            clock.sleep_until(next).await;
        }
    }
}

/// Its runtime has ended before the store has answered; perhaps while a panic of its user's unwinds.
impl Drop for Withdrawal {
    fn drop(&mut self) {
        if !self.is_over {
            let mut rest = Self::new(&self.core, self.claim.clone(), self.linger_until);
            rest.unknown = self.unknown.take();
            Refuge::take_in(&self.core, rest);
        }
    }
}
