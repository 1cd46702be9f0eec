//! The keeper: one task per client that renews leases at a third of their length, except fixed ones that the store keeps whole, and
//! announces a loss that was not announced yet.
//!
//! There is no task, timer or thread per lock. Leases stand in one [`LeaseSchedule`], and those that fall due together are
//! renewed by one call of the backend for each [group](crate::LockBackend::renewal_group), in a task of its own. What an answer means is the [loss rule](loss_rule).

mod lease;
mod loss_rule;
mod schedule;

pub(crate) use lease::{GrantedLease, KeptLease, renewal_due};
pub(crate) use loss_rule::valid_until;

use crate::context::Context;
use crate::sync::Mutex;
use crate::{
    AcquireOptions, Claim, Error, ErrorKind, HoldStatus, LockBackend, MAX_CLAIMS_PER_RENEWAL, Moment,
    OwnerId, Renewal, locked,
};
use futures_util::FutureExt;
use futures_util::future::join_all;
use schedule::LeaseSchedule;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tracing::Instrument;

/// How much earlier than due a lease may be renewed along with others, as a part of its length.
const SLACK_PARTS: u32 = 30;
/// The pause before an unconfirmed renewal is tried again: a fifteenth of the lease, within these bounds. A holder gains
/// little from the rest of a lease after an outage if it does not renew it soon, above all under `leasehold run`.
const RETRY_PARTS: u32 = 15;
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(crate) struct Keeper {
    pub(crate) context: Arc<Context>,
    state: Mutex<KeeperState>,
    wake: Arc<Notify>,
}

struct KeeperState {
    schedule: LeaseSchedule<Arc<KeptLease>>,
    task_runs: bool,
}

impl Keeper {
    pub(crate) fn new(context: Context) -> Self {
        let state = Mutex::new(KeeperState { schedule: LeaseSchedule::new(), task_runs: false });
        Self { context: Arc::new(context), state, wake: Arc::default() }
    }

    /// Makes the lease of a grant, and keeps it from now on; on the runtime of its acquisition, if the task does not run yet.
    pub(crate) fn keep(
        self: &Arc<Self>,
        hold: (Claim, Handle),
        options: &AcquireOptions,
        grant: &GrantedLease,
    ) -> Arc<KeptLease> {
        let lease = Arc::new(KeptLease::new(self, hold, options, grant));
        let due = lease.first_due();
        let mut state = locked(&self.state);
        let wake = state.schedule.enter(lease.claim.owner(), due, Arc::clone(&lease));
        let starts = !std::mem::replace(&mut state.task_runs, true);
        drop(state);
        if starts {
            lease.runtime.spawn(self.task().run());
        } else if wake {
            self.wake.notify_one();
        }
        // Either this sees that the client was closed, or the close sees the lease.
        self.end_all_if_closed();
        lease
    }

    fn task(self: &Arc<Self>) -> Task {
        Task { keeper: Arc::downgrade(self), wake: Arc::clone(&self.wake), has_panicked: false }
    }

    pub(crate) fn forget(&self, lease: &KeptLease) {
        locked(&self.state).schedule.remove(lease.claim.owner());
    }

    /// Announces the loss of all leases, if the client was closed.
    pub(crate) fn end_all_if_closed(&self) {
        if self.context.is_closed() {
            let all = locked(&self.state).schedule.drain();
            for lease in all {
                // The first look announces it.
                lease.status_now();
            }
        }
    }

    /// Moves a lease to another time. A lease that was forgotten meanwhile stays forgotten.
    fn reschedule(&self, lease: &KeptLease, due: Moment) {
        if locked(&self.state).schedule.move_to(lease.claim.owner(), due) {
            self.wake.notify_one();
        }
    }

    /// Renews these leases at once, because the store has said that they may be over: the answer shows whether they are.
    /// A lease that is not renewed is left alone: its end is fixed. So is one that the store names again and again.
    fn make_due(&self, owners: &[OwnerId], now: Moment) {
        let mut state = locked(&self.state);
        for owner in owners {
            if state.schedule.entry(*owner).is_some_and(|lease| lease.follows_hint(now)) {
                state.schedule.move_to(*owner, now);
            }
        }
    }

    /// The leases to be renewed now. All that are due are moved to their next step, so that a renewal that is never answered
    /// does not hide a deadline.
    fn take_due(&self, now: Moment) -> Vec<Arc<KeptLease>> {
        let mut due = locked(&self.state).schedule.due(now, slack);
        due.retain(|lease| {
            // A step runs outside the mutex: it may announce a loss, and an observer may do anything, such as drop a guard.
            let step = lease.step(now);
            let (owner, schedule) = (lease.claim.owner(), &mut locked(&self.state).schedule);
            match step {
                Some((is_renewed, next)) => {
                    schedule.move_to(owner, next);
                    is_renewed
                }
                None => {
                    schedule.remove(owner);
                    false
                }
            }
        });
        due
    }

    fn begin_renewals(self: &Arc<Self>) {
        let due = self.take_due(self.context.clock.now());
        self.end_all_if_closed();
        for batch in due.chunks(MAX_CLAIMS_PER_RENEWAL) {
            // A task of its own: a batch that hangs, or a backend that panics, does not hold up the others.
            tokio::spawn(renew(Arc::clone(self), batch.to_vec()));
        }
    }
}

/// Without its leases: writing may block, and a drop of a guard would wait for that.
impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("backend", &self.context.backend).finish_non_exhaustive()
    }
}

/// The client and its guards are gone: the task ends.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

struct Task {
    keeper: Weak<Keeper>,
    wake: Arc<Notify>,
    has_panicked: bool,
}

impl Task {
    async fn run(mut self) {
        self.has_panicked = AssertUnwindSafe(self.renew_when_due()).catch_unwind().await.is_err();
    }

    async fn renew_when_due(&self) {
        while let Some(keeper) = self.keeper.upgrade() {
            keeper.begin_renewals();
            let wake_at = locked(&keeper.state).schedule.plan(keeper.context.clock.now());
            let sleep = keeper.context.clock.sleep_until(wake_at);
            let backend = Arc::clone(&keeper.context.backend);
            drop(keeper);
            let suspects = tokio::select! {
                () = sleep => continue,
                () = self.wake.notified() => continue,
                suspects = suspects(&*backend) => suspects,
            };
            if let Some(keeper) = self.keeper.upgrade() {
                let now = keeper.context.clock.now();
                keeper.make_due(&suspects, now);
                keeper.begin_renewals();
                // A backend whose hint is always ready does not make the client spin.
                let rest = keeper.context.clock.sleep_until(now.plus(SHORTEST_PAUSE));
                drop(keeper);
                rest.await;
            }
        }
    }
}

/// The runtime of the task ended before the client: another task goes on on the fallback runtime.
impl Drop for Task {
    fn drop(&mut self) {
        let Some(keeper) = self.keeper.upgrade() else { return };
        let mut state = locked(&keeper.state);
        // A task that has panicked would do so again. The next acquisition makes another.
        state.task_runs = !self.has_panicked && !state.schedule.is_empty();
        let goes_on = state.task_runs;
        drop(state);
        if goes_on && !keeper.context.fallback_runtime.spawn(|| Box::pin(keeper.task().run())) {
            locked(&keeper.state).task_runs = false;
        }
    }
}

/// Renews these leases, in one call for each [group](crate::LockBackend::renewal_group).
async fn renew(keeper: Arc<Keeper>, batch: Vec<Arc<KeptLease>>) {
    let mut groups = BTreeMap::<u64, Vec<Arc<KeptLease>>>::new();
    for lease in batch {
        groups.entry(keeper.context.backend.renewal_group(&lease.claim)).or_default().push(lease);
    }
    join_all(groups.into_values().map(|group| renew_group(&keeper, group))).await;
}

async fn renew_group(keeper: &Keeper, batch: Vec<Arc<KeptLease>>) {
    let held = batch.into_iter().filter_map(|lease| lease.begin_renewal().map(|claim| (lease, claim)));
    let (batch, claims): (Vec<Arc<KeptLease>>, Vec<Claim>) = held.unzip();
    if claims.is_empty() {
        return;
    }
    let context = &keeper.context;
    let span = tracing::trace_span!(target: "leasehold", "leasehold.renew", lock.backend = context.semantics.backend, leases = claims.len());
    let sent_at = context.clock.now();
    let mut answers = context.backend.renew(&claims).instrument(span).await.into_iter();
    for (lease, claim) in batch.iter().zip(&claims) {
        let (length, answer) = (claim.ttl(), answers.next().unwrap_or_else(|| Err(unanswered())));
        let is_confirmed = matches!(answer, Ok(Renewal::Renewed));
        lease.answered(sent_at, length, answer);
        if is_confirmed {
            keeper.reschedule(lease, renewal_due(sent_at, length));
        } else if let HoldStatus::Held { .. } = lease.status_now() {
            // The retry comes by the lease's end at the latest: a loss is announced when it comes.
            let again = context.clock.now().plus(retry_pause(length));
            keeper.reschedule(lease, again.min(lease.valid_until()));
        } else {
            keeper.forget(lease);
        }
    }
}

/// Jittered, so that the holders of many locks do not come back in step after an outage.
fn retry_pause(length: Duration) -> Duration {
    let pause = (length / RETRY_PARTS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// A backend gave fewer answers than it was asked for.
pub(crate) fn unanswered() -> Error {
    Error::new(ErrorKind::Indeterminate, "the backend left a renewal without an answer")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_pause_is_between_half_and_all_of_a_fifteenth_of_the_lease() {
        let leases = [(1, 5), (10, 5), (1_500, 100), (30_000, 2_000), (600_000, 5_000)];
        for (length, pause) in
            leases.map(|(length, pause)| (Duration::from_millis(length), Duration::from_millis(pause)))
        {
            for _ in 0..200 {
                let drawn = retry_pause(length);
                assert!(pause / 2 <= drawn && drawn <= pause, "{drawn:?} for {length:?}");
            }
        }
    }
}
