//! One grant: what is known of it, and what the keeper does with it.

mod seen_by_guard;

use super::Core;
use super::pending::Granted;
use super::withdrawal::Withdrawal;
use crate::guard::{Hold, HoldStatus};
use crate::keeper::loss_rule::{End, HoldState, Limit};
use crate::keeper::{Key, Step, renewal_due, unanswered};
use crate::observer::Event;
use crate::sync::Mutex;
use crate::{
    AcquireOptions, Claim, Error, ErrorKind, FencingToken, Loss, LossCause, Moment, OwnerId, Renewal, Result,
    locked,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// One grant of a [`LockClient`](crate::LockClient), from its arrival to its end.
pub(crate) struct Held {
    core: Arc<Core>,
    runtime: Handle,
    claim: Claim,
    token: FencingToken,
    /// A moment before the grant.
    since: Moment,
    renewed: bool,
    linger_until: Moment,
    state: Mutex<State>,
    ended: Notify,
    /// Where it stands in the keeper's schedule. Changed only under the keeper's own lock.
    place: Mutex<Option<Key>>,
}

struct State {
    rule: HoldState,
    /// The length of the lease: the grant's, or what `extend` has made of it.
    ttl: Duration,
    /// The longest lease that was asked for, confirmed or not: what the store may have.
    asked: Duration,
    announced: bool,
    /// True if somebody waits, or has waited, to be told of its end.
    watched: bool,
}

impl Held {
    pub(super) fn new(
        core: &Arc<Core>,
        runtime: Handle,
        claim: Claim,
        options: &AcquireOptions,
        grant: &Granted,
    ) -> Arc<Self> {
        let limit = Limit::max_hold(grant.sent_at.plus(options.max_hold));
        // A fixed lease that the store does not keep for so long is kept up, to its end and no further.
        let kept_up = !options.renewed && grant.lease < claim.ttl();
        let limit = match kept_up {
            true => limit.and_fixed_lease(core.drift.valid_until(grant.since, claim.ttl())),
            false => limit,
        };
        let rule = HoldState::granted(core.drift.valid_until(grant.since, grant.lease), limit);
        let held = Arc::new(Self {
            core: Arc::clone(core),
            runtime,
            token: grant.token,
            since: grant.since,
            renewed: options.renewed || kept_up,
            linger_until: match options.hold_at_least {
                Duration::ZERO => Moment::ORIGIN,
                // From now, not from the send: the store granted it in between.
                at_least => core.clock.now().plus(at_least),
            },
            state: Mutex::new(State {
                rule,
                ttl: grant.lease,
                asked: claim.ttl(),
                announced: false,
                watched: false,
            }),
            claim,
            ended: Notify::new(),
            place: Mutex::new(None),
        });
        core.keeper.watch(core, &held, &held.runtime);
        core.lose_all_if_closed();
        held
    }

    /// Announces the loss of what was held, if the client was closed.
    pub(super) fn notice(&self) {
        self.look(|_, _| ());
    }

    pub(crate) fn still_held(&self) -> bool {
        matches!(self.status(), HoldStatus::Held { .. })
    }

    /// Looks at the state as it is now, and announces the loss if this is the first look that finds it.
    fn look<T>(&self, look: impl FnOnce(&mut State, Moment) -> T) -> T {
        let mut state = locked(&self.state);
        let now = self.core.clock.now();
        if self.core.is_closed() {
            // Whoever ends the holds of a closed client may stand between two of them.
            state.rule.end(now, End::Lost(Loss::new(LossCause::Closed)));
        }
        let seen = look(&mut state, now);
        let known = state.announced;
        let news = match state.rule.settle(now) {
            Some(End::Lost(loss)) if !known => Some(loss.clone()),
            _ => None,
        };
        state.announced |= news.is_some();
        drop(state);
        if let Some(loss) = news {
            self.ended.notify_waiters();
            let name = self.claim.name();
            self.core.tell(&Event::Lost { name, token: self.token, loss: &loss });
        }
        seen
    }

    /// Marks it released, so that belief ends before the store frees it. The loss, if it was lost already.
    fn give_back(&self) -> Option<Loss> {
        self.core.keeper.forget(self);
        let (loss, watched) = self.look(|state, now| {
            state.rule.end(now, End::Released);
            let loss = match state.rule.settle(now) {
                Some(End::Lost(loss)) => Some(loss.clone()),
                _ => None,
            };
            (loss, state.watched)
        });
        if watched {
            // Whoever works under its protection ends now, not at the deadline that it had.
            self.ended.notify_waiters();
        }
        loss
    }

    fn withdrawal(&self) -> Withdrawal {
        let claim = self.claim.clone().with_ttl(locked(&self.state).asked);
        Withdrawal::new(&self.core, claim, self.linger_until)
    }

    /// Asks for a longer lease, outside the keeper's turn.
    async fn extend_to(&self, ttl: Duration) -> Result<()> {
        let claim = self.claim.clone().with_ttl(ttl);
        let sent_at = self.core.clock.now();
        {
            let mut state = locked(&self.state);
            state.rule.renewal_sent();
            state.asked = state.asked.max(ttl);
        }
        let answer = self.core.backend.renew(&[claim]).await.pop().unwrap_or_else(|| Err(unanswered()));
        self.answered(sent_at, ttl, answer.clone());
        if let HoldStatus::Lost(loss) = self.status() {
            return Err(loss.into());
        }
        match answer? {
            Renewal::Renewed => {
                let mut state = locked(&self.state);
                state.ttl = state.ttl.max(ttl);
                Ok(())
            }
            Renewal::Held => {
                Err(Error::new(ErrorKind::Unavailable, "the store would not extend the lease now"))
            }
            Renewal::Lost(cause) => Err(Loss::new(cause).into()),
        }
    }

    /// When it is over by itself, `NEVER` if it was released; or its loss. A moment, and not what remains: a process that is
    /// stopped after the look would count that from when it goes on.
    fn watch_deadline(&self) -> std::result::Result<Moment, Loss> {
        self.look(|state, now| {
            state.watched = true;
            match state.rule.settle(now) {
                Some(End::Lost(loss)) => Err(loss.clone()),
                Some(End::Released) => Ok(Moment::NEVER),
                None => Ok(state.rule.valid_until()),
            }
        })
    }

    fn time_left(&self, until: Moment) -> Duration {
        until.since(self.core.clock.now())
    }
}

/// What the keeper needs.
impl Held {
    pub(crate) fn take_place(&self, key: Key) {
        *locked(&self.place) = Some(key);
    }

    pub(crate) fn leave_place(&self) -> Option<Key> {
        locked(&self.place).take()
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.claim.owner()
    }

    pub(crate) fn ttl(&self) -> Duration {
        locked(&self.state).ttl
    }

    /// Its end, unless a renewal moves it.
    pub(crate) fn valid_until(&self) -> Moment {
        locked(&self.state).rule.valid_until()
    }

    pub(crate) fn first_due(&self) -> Moment {
        let state = locked(&self.state);
        let end = state.rule.valid_until();
        if self.renewed { renewal_due(self.since, state.ttl).min(end) } else { end }
    }

    /// What to do with it now that it is due.
    pub(crate) fn step(&self, now: Moment) -> Step {
        self.look(|state, _| {
            if state.rule.settle(now).is_some() {
                return Step::Forget;
            }
            if !self.renewed || state.rule.at_limit() {
                return Step::LookAt(state.rule.valid_until());
            }
            state.rule.renewal_overdue();
            let again = renewal_due(now, state.ttl).min(state.rule.valid_until());
            Step::Renew { ask_again_at: again }
        })
    }

    /// Where it lives in the store.
    pub(crate) fn renewal_group(&self) -> u64 {
        self.core.backend.renewal_group(&self.claim)
    }

    /// What a renewal asks for that is sent now. Not when it falls due: until it is sent, the store owes no answer. And it may
    /// have been released since: nothing is asked for a claim after its release.
    pub(crate) fn begin_renewal(&self) -> Option<Claim> {
        self.look(|state, now| {
            state.rule.settle(now).is_none().then(|| {
                state.rule.renewal_sent();
                self.claim.clone().with_ttl(state.ttl)
            })
        })
    }

    /// The store answered a renewal, of a lease of `ttl`, that was sent at `sent_at`.
    pub(crate) fn answered(&self, sent_at: Moment, ttl: Duration, answer: Result<Renewal>) {
        let renewed_until = self.core.drift.valid_until(sent_at, ttl);
        let trouble = self.look(|state, now| {
            state.rule.answered(now, renewed_until, answer);
            let still = state.rule.settle(now).is_none();
            still
                .then(|| state.rule.trouble().cloned().map(|error| (error, state.rule.valid_until())))
                .flatten()
        });
        if let Some((error, until)) = trouble {
            let (name, remaining) = (self.claim.name(), self.time_left(until));
            self.core.tell(&Event::RenewalTrouble { name, error: &error, remaining });
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("claim", &self.claim).field("token", &self.token).finish_non_exhaustive()
    }
}
