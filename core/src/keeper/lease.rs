use super::Keeper;
use super::loss_rule::{End, HoldState, valid_until};
use crate::context::Context;
use crate::guard::HoldStatus;
use crate::observer::Event;
use crate::sync::Mutex;
use crate::{AcquireOptions, Claim, FencingToken, Loss, LossCause, Moment, Renewal, Result, locked};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// A lease is renewed after one third: a renewal that is never answered leaves time for another.
const RENEWAL_PARTS: u32 = 3;
/// When a hold is renewed first that a [grant](crate::Grant::renewed_soon) wants renewed soon.
const SOON: Duration = Duration::from_millis(100);
/// Hints of a store that a lease may be over which are followed between two renewals. The next renewal finds what more of them would.
const FREE_HINTS: u32 = 3;

/// A grant, with the moments from which its lease is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantedLease {
    pub(crate) token: FencingToken,
    /// How long it lasts without a renewal: the ttl of its claim, or less.
    pub(crate) length: Duration,
    /// A moment before the grant. The lease is counted from here.
    pub(crate) since: Moment,
    /// When the attempt was sent that the grant answers. Later than the grant if the store handed the lock over by itself.
    pub(crate) asked_at: Moment,
    pub(crate) renewed_soon: bool,
}

/// The lease of one grant: what its holder may believe, and when it is renewed. It is the hold behind a guard.
#[derive(Debug)]
pub(crate) struct KeptLease {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) claim: Claim,
    pub(crate) token: FencingToken,
    /// The runtime of the acquisition.
    pub(crate) runtime: Handle,
    /// The hold keeps others out until then, also if it is released earlier.
    pub(crate) linger_until: Option<Moment>,
    /// A moment before the grant.
    since: Moment,
    first_renewal: Moment,
    is_renewed: bool,
    state: Mutex<LeaseState>,
    ended: Notify,
}

#[derive(Debug)]
struct LeaseState {
    rule: HoldState,
    /// The length of the lease: the grant's, or what an extension has made of it.
    length: Duration,
    /// The longest lease that was asked for, confirmed or not: the store may have it.
    longest_asked: Duration,
    is_loss_announced: bool,
    /// Since when hints are counted, and how many came since.
    hints: (Moment, u32),
}

/// When a lease is renewed that was granted, or confirmed, at `sent_at`.
pub(crate) fn renewal_due(sent_at: Moment, length: Duration) -> Moment {
    sent_at.plus(length / RENEWAL_PARTS)
}

impl KeptLease {
    pub(super) fn new(
        keeper: &Arc<Keeper>,
        (claim, runtime): (Claim, Handle),
        options: &AcquireOptions,
        grant: &GrantedLease,
    ) -> Self {
        let until = |length| valid_until(grant.since, length);
        // A fixed lease that the store keeps for less than was asked: it is renewed to its end and no further.
        let is_renewed_to_its_end = !options.renewed && grant.length < claim.ttl();
        let fixed_end = if is_renewed_to_its_end { until(claim.ttl()) } else { Moment::NEVER };
        let max_hold = grant.asked_at.plus(options.max_hold);
        // From now, not from the send: the store granted it in between.
        let linger_until = || keeper.context.clock.now().plus(options.hold_at_least);
        Self {
            keeper: Arc::clone(keeper),
            token: grant.token,
            runtime,
            linger_until: (!options.hold_at_least.is_zero()).then(linger_until),
            since: grant.since,
            first_renewal: if grant.renewed_soon { grant.asked_at.plus(SOON) } else { Moment::NEVER },
            is_renewed: options.renewed || is_renewed_to_its_end,
            state: Mutex::new(LeaseState {
                rule: HoldState::granted(until(grant.length), max_hold, fixed_end),
                length: grant.length,
                longest_asked: claim.ttl(),
                is_loss_announced: false,
                hints: (grant.since, 0),
            }),
            claim,
            ended: Notify::new(),
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.keeper.context
    }

    pub(crate) fn status_now(&self) -> HoldStatus {
        self.look(|state, now| match state.rule.settle(now) {
            Some(End::Lost(loss)) => HoldStatus::Lost(loss.clone()),
            Some(End::Released) => HoldStatus::Released,
            None => HoldStatus::Held {
                remaining: state.rule.valid_until.since(now),
                at_risk: state.rule.failure.is_some(),
            },
        })
    }

    /// Waits for the end: the loss, or `None` if it was released.
    pub(crate) async fn wait_for_end(&self) -> Option<Loss> {
        loop {
            // Made before the look: `notify_waiters` reaches it from here on, although it is not polled yet.
            let ended = self.ended.notified();
            match self.status_now() {
                HoldStatus::Lost(loss) => return Some(loss),
                HoldStatus::Released => return None,
                HoldStatus::Held { .. } => {}
            }
            // The sleep ends at a moment: a duration would begin late in a process that is stopped here.
            tokio::select! {
                () = ended => {}
                () = self.context().clock.sleep_until(self.valid_until()) => {}
            }
        }
    }

    /// Ends belief, before the store is told. Returns the loss, if it was lost already.
    pub(crate) fn mark_released(&self) -> Option<Loss> {
        let (loss, held) = self.look(|state, now| {
            state.rule.end(now, End::Released);
            (state.rule.loss(now), now.since(self.since))
        });
        self.ended.notify_waiters();
        if loss.is_none() {
            let (name, mode) = (self.claim.name(), self.claim.mode());
            self.context().events.tell(&Event::Released { name, mode, token: self.token, held });
        }
        loss
    }

    /// Looks at the state as it is now. The first look that finds a loss announces it.
    fn look<T>(&self, look: impl FnOnce(&mut LeaseState, Moment) -> T) -> T {
        let mut state = locked(&self.state);
        let now = self.context().clock.now();
        if self.context().is_closed() {
            // The keeper ends the leases of a closed client one by one. None of them is held meanwhile.
            state.rule.end(now, End::Lost(Loss::new(LossCause::Closed)));
        }
        let seen = look(&mut state, now);
        let new_loss =
            state.rule.loss(now).filter(|_| !std::mem::replace(&mut state.is_loss_announced, true));
        drop(state);
        if let Some(loss) = new_loss {
            self.ended.notify_waiters();
            let (name, mode) = (self.claim.name(), self.claim.mode());
            self.context().events.tell(&Event::Lost { name, mode, token: self.token, loss: &loss });
        }
        seen
    }

    /// The deadline, unless a renewal moves it.
    pub(crate) fn valid_until(&self) -> Moment {
        locked(&self.state).rule.valid_until
    }

    pub(crate) fn length(&self) -> Duration {
        locked(&self.state).length
    }

    /// The claim of a release: the store may have the longest lease that was asked for.
    pub(crate) fn claim_to_release(&self) -> Claim {
        self.claim.clone().with_ttl(locked(&self.state).longest_asked)
    }

    /// True if a hint of the store that this lease may be over is followed by a renewal.
    pub(super) fn follows_hint(&self, now: Moment) -> bool {
        let mut state = locked(&self.state);
        let (since, count) = state.hints;
        state.hints = if now < renewal_due(since, state.length) { (since, count + 1) } else { (now, 1) };
        state.hints.1 <= FREE_HINTS
    }

    pub(super) fn first_due(&self) -> Moment {
        let state = locked(&self.state);
        let end = state.rule.valid_until;
        let due = renewal_due(self.since, state.length).min(self.first_renewal);
        if self.is_renewed { due.min(end) } else { end }
    }

    /// The next step of a lease that is due: true for a renewal that is sent now, and when it is due again. `None` if it is
    /// over.
    pub(super) fn step(&self, now: Moment) -> Option<(bool, Moment)> {
        self.look(|state, _| {
            if state.rule.settle(now).is_some() {
                return None;
            }
            let end = state.rule.valid_until;
            if !self.is_renewed || state.rule.at_limit() {
                return Some((false, end));
            }
            state.rule.renewal_overdue();
            Some((true, renewal_due(now, state.length).min(end)))
        })
    }

    /// The claim of a renewal that is sent now; `None` if the lease is over. A release from
    /// here on may reach the store before this renewal, which then changes nothing.
    /// Only from the send on does it count as unanswered.
    pub(super) fn begin_renewal(&self) -> Option<Claim> {
        self.look(|state, now| {
            state.rule.settle(now).is_none().then(|| {
                state.rule.renewal_sent();
                self.claim.clone().with_ttl(state.length)
            })
        })
    }

    /// The claim of an extension that is sent now.
    pub(crate) fn begin_extension(&self, length: Duration) -> Claim {
        let mut state = locked(&self.state);
        state.rule.renewal_sent();
        state.longest_asked = state.longest_asked.max(length);
        self.claim.clone().with_ttl(length)
    }

    /// The store answered a renewal of this length that was sent at `sent_at`.
    pub(crate) fn answered(&self, sent_at: Moment, length: Duration, answer: Result<Renewal>) {
        let renewed_until = valid_until(sent_at, length);
        let is_confirmed = matches!(answer, Ok(Renewal::Renewed));
        let (is_held, failure, left_before, left) = self.look(|state, now| {
            let left_before = state.rule.valid_until.since(now);
            state.rule.answered(now, renewed_until, answer);
            if is_confirmed {
                // Renewals keep to an extension from now on.
                state.length = state.length.max(length);
            }
            let is_held = state.rule.settle(now).is_none();
            (is_held, state.rule.failure.clone(), left_before, state.rule.valid_until.since(now))
        });
        let (name, mode, token) = (self.claim.name(), self.claim.mode(), self.token);
        let events = &self.context().events;
        match failure {
            _ if !is_held => {}
            Some(error) => events.tell(&Event::RenewalFailed { name, mode, error: &error, remaining: left }),
            None if is_confirmed => events.tell(&Event::Renewed { name, mode, token, margin: left_before }),
            None => {}
        }
    }
}
