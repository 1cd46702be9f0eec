//! Leader election: the exclusive lock of a name, with the words of an election. The leader is the holder, its term is the
//! fencing token.

use crate::admin::admin_of;
use crate::sync::Mutex;
use crate::{
    AcquireOptions, DistributedLock, Error, ErrorKind, FencingToken, HolderInfo, Lease, LockGuard, LockName,
    Result, Wait, locked,
};
use futures_util::stream::{Stream, StreamExt, unfold};
use std::fmt;
use std::future::ready;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// One candidate for the leadership of a name. Made by [`DistributedLockExt::elect`](crate::DistributedLockExt::elect), on every
/// store.
///
/// A service that must run once runs in [`lead`](Self::lead) on every host:
///
/// ```
/// # use leasehold_core::{DistributedLockExt, LockClient};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
/// # let locks = LockClient::in_memory();
/// let election = locks.elect("scheduler")?;
/// let done = election.lead(|leader| async move {
///     // Pass the term to what the leader writes, and refuse earlier terms there.
///     format!("did the work in term {}", leader.token().unwrap())
/// });
/// println!("{}", done.await?);
/// # Ok(()) }
/// ```
///
/// An election of a name **is** the [exclusive lock](crate::DistributedLockExt::acquire) of that name: a program that holds the
/// lock leads.
///
/// Not promised: exclusion of *effects*, as with any lock. A leader that is paused wakes up later, with requests under way, so the
/// resource must check the [term](Leadership::term). There may be no leader for a while, a leader may lose
/// its term, and the winner is the first in the [order of the store](crate::Fairness), not the healthiest candidate.
///
/// Cheap to clone. The clones are one candidate.
#[derive(Clone, Debug)]
pub struct Election {
    locks: Arc<dyn DistributedLock>,
    name: LockName,
    options: AcquireOptions,
    state: Arc<CandidateState>,
}

#[derive(Debug, Default)]
struct CandidateState {
    /// Locked while this candidate campaigns.
    campaign: tokio::sync::Mutex<()>,
    /// The last term of this candidate, also after its end.
    term: Mutex<Option<Arc<Term>>>,
}

#[derive(Debug)]
struct Term {
    lease: Lease,
    /// Taken by the call that ends the term: a resignation, or the drop of the [`Leadership`].
    guard: Mutex<Option<LockGuard>>,
}

impl Term {
    fn take_guard(&self) -> Option<LockGuard> {
        locked(&self.guard).take()
    }

    async fn resign(&self) -> Result<()> {
        match self.take_guard() {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

impl Election {
    pub(crate) fn new(locks: Arc<dyn DistributedLock>, name: LockName) -> Self {
        let options = locks.defaults().clone().with_wait(Wait::Forever);
        Self { locks, name, options, state: Arc::default() }
    }

    /// Campaigns with these options: the ttl bounds how long a crashed leader keeps the others out, the wait bounds one campaign.
    /// Default: the [defaults](DistributedLock::defaults) of the client but for their wait, because a candidate waits for as long as
    /// another leads.
    #[must_use]
    pub fn with_options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// The name of the election.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Waits to be the leader, without a limit unless [the options](Self::with_options) give one. Outages are waited out, also
    /// when the store cannot be reached yet; and once the store has answered this candidate, so are refusals that may pass, for
    /// instance while a password is changed.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) before any I/O if this candidate campaigns or leads already, and for a shared
    /// [mode](AcquireOptions::with_mode); else as [`acquire_named`](DistributedLock::acquire_named), and never
    /// [`Unavailable`](ErrorKind::Unavailable) without a limit.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_named`](DistributedLock::acquire_named): a dropped campaign is over.
    pub async fn campaign(&self) -> Result<Leadership> {
        let refused = |problem| {
            Error::invalid("campaign", problem, "use one election for each candidate, or resign first")
        };
        let Ok(_campaign) = self.state.campaign.try_lock() else {
            return Err(refused("this candidate campaigns already"));
        };
        // The lease is asked outside the mutex: a loss that it finds is told to an observer.
        let last_term = locked(&self.state.term).clone();
        if last_term.as_ref().is_some_and(|term| term.lease.is_held()) {
            return Err(refused("this candidate leads already"));
        }
        if self.options.mode.is_shared() {
            let fix = "leave it out: a leader holds the lock alone";
            return Err(Error::invalid("mode", "shared, for a candidate", fix));
        }
        let mut options = self.options.clone();
        (options.awaits_store, options.was_answered) = (true, last_term.is_some());
        let guard = self.locks.acquire_named(&self.name, &options).await?;
        let term = Arc::new(Term { lease: guard.lease(), guard: Mutex::new(Some(guard)) });
        *locked(&self.state.term) = Some(Arc::clone(&term));
        Ok(Leadership(term))
    }

    /// Campaigns, and runs `work` as the leader. If the leadership is lost or [resigned](Self::resign) meanwhile, `work` is dropped
    /// at its next await, and the campaign begins anew, until a `work` has come to its end. Then the leadership is resigned. A
    /// candidate that has resigned meanwhile first gives the others the time of one [wake-up](crate::WakeUp::bound).
    ///
    /// `work` gets the lease of its term, to [pass the term on](Lease::token).
    ///
    /// # Errors
    ///
    /// As [`campaign`](Self::campaign); by the wait of [the options](Self::with_options) `lead` ends, also after a term. [`Lost`](ErrorKind::Lost) if the release at the end found that the store had ended the term
    /// before: the result of `work` is not covered by it.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop as far as `work` is: the leadership is resigned in the background.
    pub async fn lead<F, W>(&self, mut work: F) -> Result<W::Output>
    where
        F: FnMut(Lease) -> W + Send,
        W: Future<Output: Send> + Send,
    {
        loop {
            let leadership = self.campaign().await?;
            // An error is the end of the term.
            if let Ok(output) = leadership.protect(work(leadership.lease())).await {
                return match leadership.resign().await {
                    Err(error) if error.kind() == ErrorKind::Lost => Err(error),
                    _ => Ok(output),
                };
            }
            if leadership.loss().is_none() {
                // It was resigned by hand, for another candidate to lead.
                tokio::time::sleep(self.locks.semantics().wake_up.bound()).await;
            }
        }
    }

    /// Ends the leadership of this candidate, as [`Leadership::resign`] does, with its errors and its cancel safety. Does nothing
    /// if it does not lead; to end a campaign, drop it.
    pub async fn resign(&self) -> Result<()> {
        let term = locked(&self.state.term).clone();
        match term {
            Some(term) => term.resign().await,
            None => Ok(()),
        }
    }

    /// The present leader; `None` if nobody leads. It is late by nature: it says who led when the store was asked. Errors and cancel
    /// safety are those of [`LockAdmin::inspect`](crate::LockAdmin::inspect), and [`Unsupported`](ErrorKind::Unsupported) if the store
    /// cannot show its locks.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let holds = admin_of(&*self.locks)?.inspect(&self.name).await?;
        // Readers are no leaders, and a hold without a token has no term.
        let leader = holds.into_iter().find(|hold| !hold.mode.is_shared() && !hold.is_released());
        Ok(leader
            .and_then(|hold| Some(Leader { who: hold.holder, since: hold.acquired_at, term: hold.token? })))
    }

    /// The leaders, from the present one on: an item for each change that is seen, and `None` when nobody leads. Never a smaller term
    /// after a larger one. It needs no campaign, it looks once a second with [`leader`](Self::leader), and never ends by itself.
    ///
    /// It is late by nature: an item says who led when the store was asked. What lasts for less than a second may be missed, and
    /// while the store does not answer there is no news. After a store has lost its data, terms may
    /// [begin anew](crate::TokenClass), and are shown once they are larger.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) if the store cannot show its locks. An item is an error if the store refuses to
    /// show them, and then the last one.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop; so is each `next`.
    pub fn observe(&self) -> Result<impl Stream<Item = Result<Option<Leader>>> + Send + Unpin + use<>> {
        admin_of(&*self.locks)?;
        // The pause before the next look, `None` after a refusal.
        let looks = unfold((self.clone(), Some(Duration::ZERO)), |(election, pause)| async move {
            tokio::time::sleep(pause?).await;
            let look = election.leader().await;
            let goes_on = look.as_ref().err().is_none_or(Error::is_outage);
            Some((look, (election, goes_on.then_some(POLL_INTERVAL))))
        });
        // The term of the last item, which is `None` if nobody led, and the largest term of all items.
        let (mut last, mut largest) = (None, None::<FencingToken>);
        let changes = looks.filter_map(move |look| {
            let is_shown = match &look {
                Ok(leader) => {
                    let term = leader.as_ref().map(|leader| leader.term);
                    let is_smaller = term.is_some() && term < largest;
                    largest = largest.max(term);
                    !is_smaller && last.replace(term) != Some(term)
                }
                Err(error) => !error.is_outage(),
            };
            ready(is_shown.then_some(look))
        });
        Ok(Box::pin(changes))
    }
}

/// The leadership of one term. It dereferences to its [`Lease`], with [`lost`](Lease::lost) and [`protect`](Lease::protect). Dropping
/// it resigns in the background.
#[must_use = "the leadership is resigned when this is dropped"]
#[derive(Debug)]
pub struct Leadership(Arc<Term>);

impl Leadership {
    /// The term: the fencing token of the hold. Each term is larger than all terms before, unless the store has lost its
    /// data and its tokens [begin anew](crate::TokenClass).
    pub fn term(&self) -> FencingToken {
        self.0.lease.hold().token()
    }

    /// True while this is certainly the leader, by the clock at this call. Once false, it stays false.
    pub fn is_leader(&self) -> bool {
        self.0.lease.is_held()
    }

    /// The guard of this term, for code that takes any guard; `None` if [`Election::resign`] was quicker. Releasing it resigns.
    pub fn into_guard(self) -> Option<LockGuard> {
        self.0.take_guard()
    }

    /// A handle that can be given away, and keeps nothing held.
    pub fn lease(&self) -> Lease {
        self.0.lease.clone()
    }

    /// Resigns, and waits for the confirmation of the store. The next candidate leads within its [wake-up](crate::WakeUp).
    ///
    /// Errors and cancel safety are those of [`LockGuard::release`]. If [`Election::resign`] was quicker, there is nothing left
    /// to do, and nothing fails.
    pub async fn resign(self) -> Result<()> {
        self.0.resign().await
    }
}

impl Deref for Leadership {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0.lease
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        drop(self.0.take_guard());
    }
}

/// A leader, as an observer saw it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leader {
    /// What the leader says about itself.
    pub who: HolderInfo,
    /// The beginning of the term by the clock of the store, for people.
    pub since: Option<SystemTime>,
    /// The term.
    pub term: FencingToken,
}

/// `ada@web-1:4711, term 7`.
impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, term {}", self.who, self.term)
    }
}
