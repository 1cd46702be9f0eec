//! Where a withdrawal goes on whose runtime has ended before it did.
//!
//! What a claim has in the store is taken back by a task on the runtime that asked for it. A runtime that ends drops its tasks,
//! and where a hold is no lease nothing else would ever end it: a session lives on another runtime of the same process, and keeps
//! a node for which nobody is left. So the first time that this happens, the client gets a thread with a small runtime of its
//! own, which lives as long as the client: connections that are made there are of use to others later.

use super::Core;
use super::withdrawal::Withdrawal;
use crate::locked;
use crate::sync::Mutex;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Time for connections to be closed, after the last handle to the client is gone.
const PARTING: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Refuge {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Orphan>,
    /// Wakes the thread; `None` if there is none.
    thread: Option<Arc<Notify>>,
}

/// [Closing](crate::DistributedLock::close) waits for it.
#[derive(Debug)]
struct Orphan {
    withdrawal: Withdrawal,
    _background: TaskTrackerToken,
}

impl Refuge {
    /// Has it carried on. Where the system has no thread to give, it ends with its lease or with the session.
    pub(super) fn take_in(core: &Arc<Core>, withdrawal: Withdrawal) {
        let orphan = Orphan { withdrawal, _background: core.background.token() };
        let mut state = locked(&core.refuge.state);
        state.waiting.push(orphan);
        if state.thread.is_none() {
            state.thread = begin(core);
        }
        let thread = state.thread.clone();
        drop(state);
        match thread {
            Some(wake) => wake.notify_one(),
            None => core.refuge.give_up(),
        }
    }

    fn take_waiting(&self) -> Vec<Orphan> {
        std::mem::take(&mut locked(&self.state).waiting)
    }

    /// Or each would be taken in again.
    fn give_up(&self) {
        for orphan in self.take_waiting() {
            orphan.withdrawal.give_up();
        }
    }
}

/// The last handle to the client is gone: let the thread notice.
impl Drop for Refuge {
    fn drop(&mut self) {
        if let Some(wake) = &locked(&self.state).thread {
            wake.notify_one();
        }
    }
}

fn begin(core: &Arc<Core>) -> Option<Arc<Notify>> {
    let (core, wake) = (Arc::downgrade(core), Arc::<Notify>::default());
    let woken = Arc::clone(&wake);
    let thread = thread::Builder::new().name("leasehold".to_owned());
    thread.spawn(move || live(&core, &woken)).ok()?;
    Some(wake)
}

fn live(core: &Weak<Core>, wake: &Notify) {
    if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
        return runtime.block_on(carry_on(core, wake));
    }
    if let Some(core) = core.upgrade() {
        locked(&core.refuge.state).thread = None;
        core.refuge.give_up();
    }
}

async fn carry_on(core: &Weak<Core>, wake: &Notify) {
    while let Some(core) = core.upgrade() {
        for orphan in core.refuge.take_waiting() {
            orphan.withdrawal.in_background(&Handle::current());
        }
        drop(core);
        wake.notified().await;
    }
    tokio::time::sleep(PARTING).await;
}
