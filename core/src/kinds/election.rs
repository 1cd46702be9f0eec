//! Leader election: the exclusive lock of a name, with the words of an election. The leader is the holder, its term is the
//! fencing token.

use crate::sync::Mutex;
use crate::{
    AcquireOptions, DistributedLock, Error, ErrorKind, FencingToken, HolderInfo, Lease, LockAdmin, LockGuard,
    LockName, Result, locked,
};
use futures_util::Stream;
use futures_util::stream::unfold;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How often an observer looks, and how often a campaign is begun again while the store does not answer.
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

/// The hold of a leader.
#[derive(Debug)]
struct Term {
    lease: Lease,
    token: FencingToken,
    /// Taken by the call that ends the term: a resignation, or the drop of the [`Leadership`].
    guard: Mutex<Option<LockGuard>>,
}

impl Term {
    fn take_guard(&self) -> Option<LockGuard> {
        locked(&self.guard).take()
    }
}

impl Election {
    pub(crate) fn new(locks: Arc<dyn DistributedLock>, name: LockName) -> Self {
        let options = locks.defaults().clone();
        Self { locks, name, options, state: Arc::default() }
    }

    /// Campaigns with these options instead of the [defaults](DistributedLock::defaults): the ttl bounds how long a crashed leader
    /// keeps the others out, the wait bounds one campaign.
    #[must_use]
    pub fn with_options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// The name of the election.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Waits to be the leader.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) before any I/O if this candidate campaigns or leads already, and for a shared
    /// [mode](AcquireOptions::with_mode); else as [`acquire_named`](DistributedLock::acquire_named).
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
        let term = locked(&self.state.term).clone();
        if term.is_some_and(|term| term.lease.is_held()) {
            return Err(refused("this candidate leads already"));
        }
        if self.options.mode.is_shared() {
            let fix = "leave it out: a leader holds the lock alone";
            return Err(Error::invalid("mode", "shared, for a candidate", fix));
        }
        let guard = self.locks.acquire_named(&self.name, &self.options).await?;
        let (lease, token) = (guard.lease(), guard.lease().hold().token());
        let term = Arc::new(Term { lease, token, guard: Mutex::new(Some(guard)) });
        *locked(&self.state.term) = Some(Arc::clone(&term));
        Ok(Leadership(term))
    }

    /// Campaigns, and runs `work` as the leader. If the leadership is lost or [resigned](Self::resign) meanwhile, `work` is dropped
    /// at its next await, and the campaign begins anew, until a `work` has come to its end. Then the leadership is resigned. A
    /// candidate that has resigned meanwhile first gives the others the time of one [wake-up](crate::WakeUp::bound).
    ///
    /// After the first term, a store that does not answer is asked again each second. `work` gets the lease of its term, to
    /// [pass the term on](Lease::token).
    ///
    /// # Errors
    ///
    /// As [`campaign`](Self::campaign). [`Lost`](ErrorKind::Lost) if the release at the end found that the store had ended the term
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
        let mut has_led = false;
        loop {
            let leadership = match self.campaign().await {
                Err(error) if has_led && error.is_outage() => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
                leadership => leadership?,
            };
            has_led = true;
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
        match term.and_then(|term| term.take_guard()) {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }

    /// The leaders, from the present one on: one item for each term that is seen, never a smaller term after a larger one. It needs no
    /// campaign, it looks once a second with [`LockAdmin::inspect`], and never ends by itself.
    ///
    /// It is late by nature: an item says who led when the store was asked. A term that is shorter than a second may be missed, a
    /// time without a leader is not shown, and while the store does not answer there is no news. After a store has lost its data,
    /// terms may [begin anew](crate::TokenClass), and are shown once they are larger.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) if the store cannot show its locks. An item is an error if the store refuses to
    /// show them, and then the last one.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop; so is each `next`.
    pub fn observe(&self) -> Result<impl Stream<Item = Result<Leader>> + Send + Unpin + use<>> {
        if self.locks.admin().is_none() {
            return Err(Error::new(ErrorKind::Unsupported, "this store cannot show who leads"));
        }
        let watch = LeaderWatcher { locks: Arc::clone(&self.locks), name: self.name.clone(), last: None };
        Ok(Box::pin(unfold(Some(watch), |watch| async {
            let mut watch = watch?;
            match watch.next().await {
                Ok(leader) => Some((Ok(leader), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        })))
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
        self.0.token
    }

    /// True while this is certainly the leader, by the clock at this call. Once false, it stays false.
    pub fn is_leader(&self) -> bool {
        self.0.lease.is_held()
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
        match self.0.take_guard() {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
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

/// The state of an observer.
struct LeaderWatcher {
    locks: Arc<dyn DistributedLock>,
    name: LockName,
    last: Option<FencingToken>,
}

impl LeaderWatcher {
    /// The next leader with a larger term. Asks again after an outage; any other error is returned.
    async fn next(&mut self) -> Result<Leader> {
        if self.last.is_some() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        loop {
            match leader(self.locks.admin(), &self.name).await {
                Ok(Some(leader)) if Some(leader.term) > self.last => {
                    self.last = Some(leader.term);
                    return Ok(leader);
                }
                Err(error) if !error.is_outage() => return Err(error),
                Ok(_) | Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }
}

/// The present leader. A hold without a token has no term, and is no leader.
async fn leader(admin: Option<&dyn LockAdmin>, name: &LockName) -> Result<Option<Leader>> {
    let Some(admin) = admin else { return Ok(None) };
    let holds = admin.inspect(name).await?;
    // Readers are no leaders.
    let leader = holds.into_iter().find(|hold| !hold.mode.is_shared() && !hold.is_released());
    Ok(leader.and_then(|hold| Some(Leader { who: hold.holder, since: hold.acquired_at, term: hold.token? })))
}
