//! What many tasks ask in the same moment, asked in one request.
//!
//! Where many tasks have locks on one server, the server's one core is the limit, and half of what it does for a request is
//! not the lock: reading the command, calling the script, asking for the clock, answering. A script that does this once
//! for 32 names serves half as many again. So whoever asks while others wait for their answers leaves its claim in a list, and a
//! task takes the list when those that are ready to run have had their turn. Who asks alone, or nearly, asks by itself:
//! no task is started for it, and it waits for nobody.
//!
//! Why it is right:
//!
//! * In the script each name is decided by itself. One that is not simply free, or simply its owner's, is left as it is, and
//!   its caller asks for it in full (`acquire_batch.lua`, `release_batch.lua`).
//! * An error of the server means that nothing was done for any of them. Each caller asks by itself then, and has the
//!   error that concerns it, if there is one: one name that is forbidden refuses the whole.
//! * No answer is an unknown outcome for each, as it is alone. So is an error that is not known, which may be a proxy's.
//! * The task is nobody's: a caller may keep its future and not poll it, and holds up no other. Nor does a runtime that stands
//!   still or ends: whoever comes from another sends a task of its own, and for those who are left each asks by itself.
//! * A claim whose caller is gone is not asked for: that caller's runtime has ended, and a release follows on another. If the
//!   batch was on its way already, and comes behind that release, the grant is taken back.
//!
//! Not for a cluster, where names lie on several servers, nor where replicas must confirm each grant.

mod errand;
mod gathering;

use crate::keys::Keys;
use crate::servers::{PrimaryNode, Servers};
use crate::target::Replicas;
use errand::{Acquire, Release};
use gathering::Gathering;
use leasehold_core::{Claim, ErrorKind, FencingToken, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names in one request at most. Twice as many would save a twentieth of what each costs the server, and keep it twice as
/// long from answering others: these take it a seventh of a millisecond.
const AT_MOST: usize = 32;

/// Of all that ask, one request is for one of so many parts.
const PARTS: usize = 4;

/// So many go alone when a batch was refused, or nobody knows what became of it: where that is no passing trouble, most have
/// one round trip and not two.
const AFTER_A_REFUSAL: usize = 1000;

/// The requests of a client to its one server.
#[derive(Debug)]
pub(super) struct Batches {
    acquiring: Arc<Gathering<Acquire>>,
    releasing: Arc<Gathering<Release>>,
    /// Those that wait for an answer, together or alone.
    asking: AtomicUsize,
    /// How many go alone before it is tried again together.
    alone: AtomicUsize,
}

/// What came of a request that may have gone together with others.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined<T> {
    /// The answer.
    Done(T),
    /// It takes all keys of the name. Nothing was done.
    AskInFull,
    /// It did not go with others. Nothing was done.
    AskAlone,
    /// The server has refused all that went together. Nothing was done.
    Refused,
}

/// A request that is under way; it is over when this is dropped.
pub(super) struct Asking<'a>(&'a Batches);

impl Batches {
    /// None where requests go by themselves.
    pub(super) fn of(servers: &Servers, keys: &Keys, replicas: Option<Replicas>) -> Option<Self> {
        match (servers, replicas) {
            (Servers::One(node), None) => Some(Self::to(node, keys)),
            _ => None,
        }
    }

    fn to(node: &Arc<PrimaryNode>, keys: &Keys) -> Self {
        Self {
            acquiring: Gathering::new(node, keys),
            releasing: Gathering::new(node, keys),
            asking: AtomicUsize::new(0),
            alone: AtomicUsize::new(0),
        }
    }

    /// Counts a request, however it goes.
    pub(super) fn enter(&self) -> Asking<'_> {
        self.asking.fetch_add(1, Ordering::Relaxed);
        Asking(self)
    }

    /// True for so many after a refusal.
    fn has_to_go_alone(&self) -> bool {
        // Read first: as a rule there are none, and nothing to write that others share. Never below nothing, or none would
        // go together again.
        let count_down = |left: usize| left.checked_sub(1);
        self.alone.load(Ordering::Relaxed) > 0
            && self.alone.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count_down).is_ok()
    }

    fn learn<T>(&self, answer: Result<Joined<T>>) -> Result<Joined<T>> {
        let went_wrong = match &answer {
            Ok(joined) => matches!(joined, Joined::Refused),
            Err(why) => why.kind() == ErrorKind::Indeterminate,
        };
        if went_wrong {
            self.alone.store(AFTER_A_REFUSAL, Ordering::Relaxed);
        }
        answer
    }
}

impl Asking<'_> {
    /// Asks for what is probably free.
    pub(super) async fn acquire(&self, claim: &Claim) -> Result<Joined<FencingToken>> {
        match self.size_of_batch() {
            0 | 1 => Ok(Joined::AskAlone),
            size => self.0.learn(self.0.acquiring.ask(claim, size).await),
        }
    }

    /// Ends a hold for which probably nobody waits.
    pub(super) async fn release(&self, claim: &Claim) -> Result<Joined<()>> {
        match self.size_of_batch() {
            0 | 1 => Ok(Joined::AskAlone),
            size => self.0.learn(self.0.releasing.ask(claim, size).await),
        }
    }

    /// With how many it is worth going: a quarter of all that ask. Claims and releases go apart, so there are four parts on
    /// their way, and the server has the next to work at when it has answered one; with two, it and this process wait for each
    /// other. One of a few goes by itself: together with one more it saves the server some microseconds, which nobody notices
    /// until it has no others to spare, and costs the client one, which one of a few does notice.
    fn size_of_batch(&self) -> usize {
        if self.0.has_to_go_alone() {
            return 1;
        }
        (self.0.asking.load(Ordering::Relaxed) / PARTS).min(AT_MOST)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Deployment;
    use leasehold_core::Namespace;
    use leasehold_store_url::StoreUrl;
    use std::thread;

    fn batches() -> Batches {
        let (deployment, _) = Deployment::of(&StoreUrl::parse("redis://127.0.0.1:1").unwrap()).unwrap();
        let servers = Servers::new(deployment, &Arc::default(), "channel".to_owned());
        let keys = Keys::new(&Namespace::new("leasehold:").unwrap()).unwrap();
        Batches::of(&servers, &keys, None).unwrap()
    }

    #[test]
    fn few_go_alone_and_many_by_quarters() {
        let batches = batches();
        let mut asking = Vec::new();
        for (so_many, size) in [(1, 0), (7, 1), (8, 2), (64, 16), (1000, 32)] {
            while asking.len() < so_many {
                asking.push(batches.enter());
            }
            assert_eq!(asking[0].size_of_batch(), size, "{so_many}");
        }
        drop(asking);
        assert_eq!(batches.enter().size_of_batch(), 0);
    }

    /// Counted by many threads at once, it ends at nothing and stays there.
    #[test]
    fn after_a_refusal_a_thousand_go_alone_and_no_more() {
        let batches = batches();
        let asking: Vec<_> = (0..64).map(|_| batches.enter()).collect();
        for _ in 0..50 {
            assert!(matches!(batches.learn(Ok(Joined::<()>::Refused)), Ok(Joined::Refused)));
            let alone = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let went = (0..AFTER_A_REFUSAL).filter(|_| asking[0].size_of_batch() == 1).count();
                        alone.fetch_add(went, Ordering::Relaxed);
                    });
                }
            });
            assert_eq!(alone.into_inner(), AFTER_A_REFUSAL);
            assert_eq!(asking[0].size_of_batch(), 16);
        }
    }
}
