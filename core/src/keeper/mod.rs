//! The keeper: one task per client that renews every held lease at a third of its length and announces losses.
//!
//! Not a task, a timer or a thread per lock: holds stand in one [`Schedule`], and those that fall due together are
//! renewed by one call of the backend. What an answer means is the [loss rule](loss_rule); when to ask is here.

pub(crate) mod loss_rule;
mod renewal;
mod schedule;

pub(crate) use renewal::unanswered;
pub(crate) use schedule::Key;

use crate::client::{Core, Held};
use crate::sync::Mutex;
use crate::{LockBackend, MAX_CLAIMS_PER_RENEWAL, Moment, OwnerId, locked};
use futures_util::FutureExt;
use renewal::renew;
use schedule::Schedule;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The parts of a lease after which it is renewed: two more attempts fit in before it ends.
const PARTS: u32 = 3;
/// How much earlier than due a renewal may go along with others, as a part of its lease.
const SLACK_PARTS: u32 = 30;

#[derive(Debug)]
pub(crate) struct Keeper {
    state: Mutex<State>,
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    schedule: Schedule<Arc<Held>>,
    task: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { schedule: Schedule::new(), task: None }), wake: Arc::default() }
    }

    /// Looks after a new hold, from now on.
    pub(crate) fn watch(&self, core: &Arc<Core>, held: &Arc<Held>, runtime: &Handle) {
        let due = held.first_due();
        let mut state = locked(&self.state);
        let wake = place(&mut state.schedule, held, due);
        // The task may have ended with the runtime that it ran on, while the client goes on in another.
        if state.task.as_ref().is_none_or(JoinHandle::is_finished) {
            state.task = Some(runtime.spawn(keep(Arc::downgrade(core), Arc::clone(&self.wake))));
        } else if wake {
            self.wake.notify_one();
        }
    }

    /// Looks at a hold at another time than planned. One that was forgotten meanwhile stays forgotten.
    fn reschedule(&self, held: &Arc<Held>, due: Moment) {
        if move_to(&mut locked(&self.state).schedule, held, due) {
            self.wake.notify_one();
        }
    }

    /// Looks at these now, of which the store has said that they may be over: they are renewed at once, and the answer
    /// shows whether they are. Nothing is asked for a hold that is not renewed: its end is fixed already.
    fn hurry(&self, owners: &[OwnerId], now: Moment) {
        let owners: HashSet<OwnerId> = owners.iter().copied().collect();
        let mut state = locked(&self.state);
        let suspected = |held: &&Arc<Held>| owners.contains(&held.owner());
        let suspected: Vec<Arc<Held>> = state.schedule.entries().filter(suspected).cloned().collect();
        for held in suspected {
            move_to(&mut state.schedule, &held, now);
        }
    }

    /// Looks after it no longer.
    pub(crate) fn forget(&self, held: &Held) {
        take_out(&mut locked(&self.state).schedule, held);
    }

    /// Looks after none any longer, and answers which there were.
    pub(crate) fn forget_all(&self) -> Vec<Arc<Held>> {
        let mut state = locked(&self.state);
        let all = state.schedule.drain();
        // Still under the lock: who was given another place after it would stay there without knowing.
        for held in &all {
            held.leave_place();
        }
        all
    }

    /// Takes the holds that are due, and enters each again for when it must be looked at next, so that a renewal
    /// that is never answered does not hide its deadline. Answers those to be renewed.
    fn due(&self, now: Moment) -> Vec<Arc<Held>> {
        let mut due = locked(&self.state).schedule.take_due(now, slack);
        // Not under the lock: a step may announce a loss, and an observer may do anything, such as drop a guard.
        let steps: Vec<Step> = due.iter().map(|held| held.step(now)).collect();
        let mut state = locked(&self.state);
        let mut steps = steps.into_iter();
        due.retain(|held| match steps.next() {
            Some(Step::Renew { ask_again_at }) => {
                move_to(&mut state.schedule, held, ask_again_at);
                true
            }
            Some(Step::LookAt(moment)) => {
                move_to(&mut state.schedule, held, moment);
                false
            }
            Some(Step::Forget) | None => {
                // An answer may have entered it again meanwhile.
                take_out(&mut state.schedule, held);
                false
            }
        });
        due
    }

    fn plan(&self, now: Moment) -> Moment {
        locked(&self.state).schedule.plan(now)
    }
}

/// The last handle to a client is gone: let its task notice.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

/// What to do with a hold that is due.
#[derive(Debug)]
pub(crate) enum Step {
    /// It is over.
    Forget,
    /// It is not to be renewed; look again then.
    LookAt(Moment),
    /// Renew it, and if nothing was heard by then, again.
    Renew { ask_again_at: Moment },
}

/// When a lease that was granted or confirmed at `sent_at` is renewed.
pub(crate) fn renewal_due(sent_at: Moment, ttl: Duration) -> Moment {
    sent_at.plus(ttl / PARTS)
}

/// None for one whose end is due: that comes when it comes.
fn slack(held: &Arc<Held>, due: Moment) -> Duration {
    if due < held.valid_until() { held.ttl() / SLACK_PARTS } else { Duration::ZERO }
}

/// Gives a hold another place, if it has one at all. True if the keeper must be woken for it.
fn move_to(schedule: &mut Schedule<Arc<Held>>, held: &Arc<Held>, due: Moment) -> bool {
    take_out(schedule, held) && place(schedule, held, due)
}

/// False if it has no place: it was forgotten.
fn take_out(schedule: &mut Schedule<Arc<Held>>, held: &Held) -> bool {
    let key = held.leave_place();
    if let Some(key) = key {
        schedule.remove(key);
    }
    key.is_some()
}

fn place(schedule: &mut Schedule<Arc<Held>>, held: &Arc<Held>, due: Moment) -> bool {
    schedule.enter(due, |key| {
        held.take_place(key);
        Arc::clone(held)
    })
}

async fn keep(this: Weak<Core>, wake: Arc<Notify>) {
    while let Some(core) = this.upgrade() {
        begin_renewals(&core);
        let sleep = core.clock.sleep_until(core.keeper.plan(core.clock.now()));
        let backend = Arc::clone(&core.backend);
        drop(core);
        let suspects = tokio::select! {
            () = sleep => continue,
            () = wake.notified() => continue,
            suspects = suspected_by(&*backend) => suspects,
        };
        if let Some(core) = this.upgrade() {
            core.keeper.hurry(&suspects, core.clock.now());
        }
    }
}

/// Of a backend that panics here, nobody hears of suspects; its locks are to be renewed all the same.
async fn suspected_by(backend: &dyn LockBackend) -> Vec<OwnerId> {
    match AssertUnwindSafe(backend.suspects()).catch_unwind().await {
        Ok(suspects) => suspects,
        Err(_) => std::future::pending().await,
    }
}

/// Not in the loop: a hold keeps its client alive, and one that the loop had in its hands while it sleeps would keep that
/// alive after its last handle.
fn begin_renewals(core: &Arc<Core>) {
    let due = core.keeper.due(core.clock.now());
    core.lose_all_if_closed();
    for batch in due.chunks(MAX_CLAIMS_PER_RENEWAL) {
        // A task of its own: a batch that hangs, or a backend that panics, holds up no other.
        tokio::spawn(renew(Arc::clone(core), batch.to_vec()));
    }
}
