use super::timing::FaultTiming;
use crate::cannot::Cannot;
use crate::history::Recorder;
use crate::stop::Verdict;
use crate::subject::Store;
use crate::worker::Worker;
use async_trait::async_trait;
use leasehold_core::{DistributedLock, Fault, LockName};
use std::time::Duration;

/// A fault that can be made and healed.
#[allow(unused_variables, reason = "a hook that is not there, or does nothing, needs none of them")]
#[async_trait]
pub(crate) trait Injection: Send {
    /// How it is made, in a sentence.
    fn words(&self) -> &'static str;

    /// When, and for how long.
    fn timing(&self) -> FaultTiming;

    /// What it changes beside the hold.
    fn side_effect(&self) -> SideEffect {
        SideEffect::None
    }

    /// False if it is all that happens to a store: nobody who uses it lives on, or it stands before all of them from the
    /// start.
    fn is_one_of_many(&self) -> bool {
        true
    }

    /// True if it ends connections to the store, as somebody must see who has one.
    fn ends_connections(&self) -> bool {
        false
    }

    /// What must be done before anybody has a connection: proxies, clocks, poolers. Answers how clients are to connect.
    async fn prepare(&mut self, store: &dyn Store, lease: Duration) -> Result<ClientSetup, Cannot> {
        Ok(ClientSetup::direct(store, lease))
    }

    /// What must be done before the lock is taken: what a store is to forget must have a beginning.
    async fn before_the_hold(&mut self, ground: &mut Ground<'_>) -> Verdict {
        Ok(())
    }

    /// Makes it.
    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict;

    /// Waits until it has hit somebody, if it was made before there was anybody to hit: who wants this lock. `other` is a
    /// client that it does not hit.
    async fn has_struck(&mut self, other: &dyn DistributedLock, name: &LockName) -> Verdict {
        Ok(())
    }

    /// Undoes it.
    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        Ok(())
    }
}

/// What a fault changes for all that is done in a store, before or after it. A store can meet one fault that has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideEffect {
    None,
    /// By which clock processes run: it is chosen when they start.
    Clocks,
    /// Which server is the store: another one from then on.
    Primary,
}

/// What a fault is made on.
pub(crate) struct Ground<'a> {
    pub(crate) store: &'a dyn Store,
    /// The process of the holder, which may be that of all others too.
    pub(crate) holder: &'a mut Worker,
    /// That of the others, where it is known and another one.
    pub(crate) others: Option<&'a mut Worker>,
    pub(crate) name: &'a LockName,
    pub(crate) recorder: &'a Recorder,
}

impl Ground<'_> {
    /// Kills the holder in the course of another fault, which stands in the history for itself.
    pub(super) fn kill_holder(&mut self) -> Verdict {
        kill(self.holder, self.recorder)
    }

    /// Kills all others in the same way.
    pub(super) fn kill_others(&mut self) -> Verdict {
        self.others.iter_mut().try_for_each(|others| kill(others, self.recorder))
    }
}

fn kill(worker: &mut Worker, recorder: &Recorder) -> Verdict {
    recorder.injected(Fault::HolderKilled, Some(worker.process()))?;
    worker.kill();
    Ok(())
}

/// How the clients of a run connect.
#[derive(Debug)]
pub(crate) struct ClientSetup {
    pub(crate) holder: String,
    pub(crate) others: String,
    /// How others connect that come anew when the fault is healed, in the place of those before.
    pub(crate) healed: Option<String>,
    pub(crate) holder_environment: Vec<(String, String)>,
    pub(crate) others_environment: Vec<(String, String)>,
}

impl ClientSetup {
    /// Everybody connects to the store itself.
    pub(crate) fn direct(store: &dyn Store, lease: Duration) -> Self {
        let address = store.address_for_holds_of(lease);
        Self::through(address.clone(), address)
    }

    /// The holder connects differently.
    pub(crate) fn through(holder: String, others: String) -> Self {
        Self { holder, others, healed: None, holder_environment: Vec::new(), others_environment: Vec::new() }
    }
}
