use super::Core;
use super::refuge::Refuge;
use crate::observer::Event;
use crate::{Claim, Error, ErrorKind, HoldKind, Moment, Release, Renewal, Result};
use futures_util::future::BoxFuture;
use std::future::poll_fn;
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
    /// True once the store has confirmed the hold after its work was over: that it has ended since costs that work nothing.
    covered: bool,
    /// True once the store has answered, or nobody asks any more.
    is_over: bool,
    /// True while the backend has the thread.
    is_calling: bool,
}

impl Withdrawal {
    pub(super) fn new(core: &Arc<Core>, claim: Claim, linger_until: Moment) -> Self {
        let core = Arc::clone(core);
        Self { core, claim, linger_until, unknown: None, covered: false, is_over: false, is_calling: false }
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
        // A store whose holds are leases is told for how long others are to be kept out.
        let linger = match (self.linger_until, self.core.semantics.hold) {
            (Moment::ORIGIN, _) => Duration::ZERO,
            (until, HoldKind::Lease) => until.since(self.core.clock.now()),
            _ => {
                self.hold_on().await;
                Duration::ZERO
            }
        };
        let Self { core, claim, is_calling, .. } = self;
        let answer = called(is_calling, || core.backend.release(claim, linger)).await;
        self.is_over = !answer.as_ref().is_err_and(Error::is_outage);
        match answer {
            Ok(Release::NotHeld) if self.covered || self.unknown.is_some() => Ok(Release::Released),
            Err(error) if error.is_indeterminate() => {
                self.unknown = Some(error.clone());
                Err(error)
            }
            Err(error) if error.is_outage() => Err(self.unknown.clone().unwrap_or(error)),
            answer => answer,
        }
    }

    /// A hold that is no lease is kept up from here, for as long as there is one.
    async fn hold_on(&mut self) {
        let Self { core, claim, linger_until, covered, is_calling, .. } = self;
        let clock = &core.clock;
        while clock.now() < *linger_until {
            let answers = called(is_calling, || core.backend.renew(std::slice::from_ref(claim))).await;
            match answers.first() {
                Some(Ok(Renewal::Renewed)) => *covered = true,
                Some(Ok(Renewal::Lost(_))) => return,
                Some(Err(error)) if error.kind() == ErrorKind::Closed => return,
                Some(Ok(Renewal::Held) | Err(_)) | None => {}
            }
            let next = clock.now().plus(claim.ttl() / 3).min(*linger_until);
            clock.sleep_until(next).await;
        }
    }
}

/// The answer of the backend. `is_calling` stays true if it panics.
fn called<'a, T, F>(is_calling: &'a mut bool, call: F) -> impl Future<Output = T> + Send + use<'a, T, F>
where
    T: 'a,
    F: FnOnce() -> BoxFuture<'a, T>,
{
    *is_calling = true;
    let mut call = call();
    *is_calling = false;
    poll_fn(move |cx| {
        *is_calling = true;
        let answer = call.as_mut().poll(cx);
        *is_calling = false;
        answer
    })
}

/// Its runtime has ended before the store has answered; perhaps while a panic of its user's unwinds.
impl Drop for Withdrawal {
    fn drop(&mut self) {
        // A backend that panics would do it again.
        if !self.is_over && !self.is_calling {
            let mut rest = Self::new(&self.core, self.claim.clone(), self.linger_until);
            (rest.unknown, rest.covered) = (self.unknown.take(), self.covered);
            Refuge::take_in(&self.core, rest);
        }
    }
}
