//! The keeper: one task per client that renews every held lease at a third of its length and announces losses.
//!
//! There is no task, timer or thread per lock. Leases stand in one [`Schedule`], and those that fall due together are
//! renewed by one call of the backend, in a task of its own. What an answer means is the [loss rule](loss_rule); when to ask
//! is here.
//!
//! | word | meaning |
//! |---|---|
//! | [`GrantedLease`] | a grant as it arrived: token, length, and the moment from which it is counted |
//! | [`KeptLease`] | the lease of one guard, from its grant to its end |
//! | [`HoldState`](loss_rule::HoldState) | the loss rule applied to one lease |
//! | [`Hold`](crate::Hold) | what a guard needs of a lock library; `client/hold.rs` implements it over a `KeptLease` |

mod lease;
mod loss_rule;
mod renewal;
mod schedule;

pub(crate) use lease::{GrantedLease, KeptLease, renewal_due};
pub(crate) use renewal::unanswered;

use crate::context::Context;
use crate::sync::Mutex;
use crate::{LockBackend, MAX_CLAIMS_PER_RENEWAL, Moment, OwnerId, locked};
use futures_util::FutureExt;
use lease::Step;
use schedule::Schedule;
use std::collections::HashSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How much earlier than due a lease may be renewed along with others, as a part of its length.
const SLACK_PARTS: u32 = 30;

pub(crate) struct Keeper {
    context: Arc<Context>,
    state: Mutex<State>,
    wake: Arc<Notify>,
}

struct State {
    schedule: Schedule<Arc<KeptLease>>,
    task: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        let state = Mutex::new(State { schedule: Schedule::new(), task: None });
        Self { context: Arc::clone(context), state, wake: Arc::default() }
    }

    /// Keeps a new lease from now on, on this runtime if the task does not run yet.
    pub(crate) fn watch(self: &Arc<Self>, lease: &Arc<KeptLease>, runtime: &Handle) {
        let due = lease.first_due();
        let mut state = locked(&self.state);
        let wake = enter(&mut state.schedule, lease, due);
        // The task may have ended with its runtime, while the client goes on in another.
        if state.task.as_ref().is_none_or(JoinHandle::is_finished) {
            state.task = Some(runtime.spawn(run(Arc::downgrade(self), Arc::clone(&self.wake))));
        } else if wake {
            self.wake.notify_one();
        }
        drop(state);
        // Either this sees that the client was closed, or the close sees the lease.
        self.end_all_if_closed();
    }

    /// Keeps it no longer.
    pub(crate) fn forget(&self, lease: &KeptLease) {
        remove(&mut locked(&self.state).schedule, lease);
    }

    /// Announces the loss of all leases, if the client was closed.
    pub(crate) fn end_all_if_closed(&self) {
        if !self.context.is_closed() {
            return;
        }
        let mut state = locked(&self.state);
        let all = state.schedule.drain();
        // Still under the lock: a lease that is entered again meanwhile must know its new key.
        for lease in &all {
            lease.take_key();
        }
        drop(state);
        for lease in all {
            lease.check();
        }
    }

    /// Moves a lease to another time. A lease that was forgotten meanwhile stays forgotten.
    fn reschedule(&self, lease: &Arc<KeptLease>, due: Moment) {
        if move_to(&mut locked(&self.state).schedule, lease, due) {
            self.wake.notify_one();
        }
    }

    /// Renews these leases at once, because the store has said that they may be over: the answer shows whether they are.
    /// A lease that is not renewed is left alone: its end is fixed.
    fn renew_now(&self, owners: &[OwnerId], now: Moment) {
        let owners: HashSet<OwnerId> = owners.iter().copied().collect();
        let mut state = locked(&self.state);
        let suspected = |lease: &&Arc<KeptLease>| owners.contains(&lease.owner());
        let suspected: Vec<Arc<KeptLease>> = state.schedule.entries().filter(suspected).cloned().collect();
        for lease in suspected {
            move_to(&mut state.schedule, &lease, now);
        }
    }

    /// Takes the leases that are due, and enters each again for its next step, so that a renewal that is never answered does
    /// not hide a deadline. Answers those to be renewed.
    fn take_due(&self, now: Moment) -> Vec<Arc<KeptLease>> {
        let mut due = locked(&self.state).schedule.take_due(now, slack);
        // Not under the lock: a step may announce a loss, and an observer may do anything, such as drop a guard.
        let steps: Vec<Step> = due.iter().map(|lease| lease.step(now)).collect();
        let mut state = locked(&self.state);
        let mut steps = steps.into_iter();
        due.retain(|lease| match steps.next() {
            Some(Step::Renew { again_at }) => {
                move_to(&mut state.schedule, lease, again_at);
                true
            }
            Some(Step::WaitUntil(moment)) => {
                move_to(&mut state.schedule, lease, moment);
                false
            }
            Some(Step::Forget) | None => {
                // An answer may have entered it again meanwhile.
                remove(&mut state.schedule, lease);
                false
            }
        });
        due
    }

    fn begin_renewals(self: &Arc<Self>) {
        let due = self.take_due(self.context.clock.now());
        self.end_all_if_closed();
        for batch in due.chunks(MAX_CLAIMS_PER_RENEWAL) {
            // A task of its own: a batch that hangs, or a backend that panics, does not hold up the others.
            tokio::spawn(renewal::renew(Arc::clone(self), batch.to_vec()));
        }
    }

    fn plan(&self) -> Moment {
        locked(&self.state).schedule.plan(self.context.clock.now())
    }
}

/// Without its leases: writing may block, and a drop of a guard would wait for that.
impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

/// The client and its guards are gone: the task ends.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

async fn run(keeper: Weak<Keeper>, wake: Arc<Notify>) {
    while let Some(this) = keeper.upgrade() {
        this.begin_renewals();
        let sleep = this.context.clock.sleep_until(this.plan());
        let backend = Arc::clone(&this.context.backend);
        drop(this);
        let suspects = tokio::select! {
            () = sleep => continue,
            () = wake.notified() => continue,
            suspects = suspects(&*backend) => suspects,
        };
        if let Some(this) = keeper.upgrade() {
            this.renew_now(&suspects, this.context.clock.now());
        }
    }
}

/// A backend that panics here names no suspects. Its locks are renewed all the same.
async fn suspects(backend: &dyn LockBackend) -> Vec<OwnerId> {
    match AssertUnwindSafe(backend.suspects()).catch_unwind().await {
        Ok(suspects) => suspects,
        Err(_) => std::future::pending().await,
    }
}

/// No slack for a lease whose end is due: that is announced when it comes.
fn slack(lease: &Arc<KeptLease>, due: Moment) -> Duration {
    if due < lease.valid_until() { lease.length() / SLACK_PARTS } else { Duration::ZERO }
}

/// Moves a lease that is in the schedule. True if the keeper must be woken for it.
fn move_to(schedule: &mut Schedule<Arc<KeptLease>>, lease: &Arc<KeptLease>, due: Moment) -> bool {
    remove(schedule, lease) && enter(schedule, lease, due)
}

/// False if it was not in the schedule: it was forgotten.
fn remove(schedule: &mut Schedule<Arc<KeptLease>>, lease: &KeptLease) -> bool {
    let key = lease.take_key();
    if let Some(key) = key {
        schedule.remove(key);
    }
    key.is_some()
}

fn enter(schedule: &mut Schedule<Arc<KeptLease>>, lease: &Arc<KeptLease>, due: Moment) -> bool {
    schedule.enter(due, |key| {
        lease.set_key(key);
        Arc::clone(lease)
    })
}
