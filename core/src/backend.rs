//! The contract for authors of backends. For users of locks there is [`DistributedLock`](crate::DistributedLock).

use crate::{Claim, FencingToken, KnownServers, LockAdmin, LossCause, OwnerId, Result, Semantics};
use async_trait::async_trait;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

/// The most claims in one call of [`renew`](LockBackend::renew). Above a hundred or so the store gains little, and one long
/// script or transaction holds up all other clients.
pub const MAX_CLAIMS_PER_RENEWAL: usize = 128;

/// What a store does to serve locks. Only [`renewal_group`](LockBackend::renewal_group) and [`servers`](LockBackend::servers)
/// are optional; a wrapper must pass them on, and `#[deny(clippy::missing_trait_methods)]` on its `impl` sees that it does. [`MemoryBackend`](crate::memory::MemoryBackend) is the reference.
///
/// # Contract
///
/// * A claim is known by its [owner](Claim::owner) alone. Every call may be repeated for the same claim, also after a reply
///   that never came or while an earlier call for it is running; the answer is the one that the state of the store gives.
/// * Check and effect are one atomic step in the store. No decision reads a wall clock of the client: a lease ends by the
///   store's clock, or by the monotonic clock of the host that all processes share.
/// * `Err` distinguishes the outcomes: [`Indeterminate`](crate::ErrorKind::Indeterminate) if the call may have been applied,
///   [`Unavailable`](crate::ErrorKind::Unavailable) if it certainly was not. An error that is not an outage
///   ([`Denied`](crate::ErrorKind::Denied), [`Misconfigured`](crate::ErrorKind::Misconfigured) …) ends the
///   acquisition at once.
/// * Every call ends in bounded time by the backend's own time-outs.
/// * Once a release has been sent, nothing more is sent for that owner, except the release again and renewals that were
///   already on their way: the release may be carried out late, from a buffer of the store whose connection broke long ago.
///   The core keeps to that. A backend that takes something back *within* an attempt must name more than the owner, such
///   as the token of the grant: the same owner may ask again before that is carried out.
/// * A backend spawns no task per claim, owns no guard and keeps no timer for a lease: the core does.
///
/// # Cancel safety
///
/// [`changed`](Self::changed), [`suspects`](Self::suspects) and [`close`](Self::close) must be safe to drop at any time.
/// The core drops no other call half-way: a caller that leaves early leaves the call running in a task, and a
/// [`release`](Self::release) follows it. Only the end of the runtime drops a call; a release follows that too.
#[async_trait]
pub trait LockBackend: Debug + Send + Sync + 'static {
    /// The promises of this backend in its mode. Asked once, when the client is built.
    fn semantics(&self) -> Semantics;

    /// Makes one attempt to get the claim granted.
    ///
    /// * Free, or ended by the store's clock: granted with a new token, for one [`ttl`](Claim::ttl).
    /// * Held by this very claim (the reply to an earlier attempt was lost): granted again, with the same token; the
    ///   lease then lasts at least one ttl from now.
    /// * Held by another owner: [`Busy`](Attempt::Busy). May leave a place in a queue, and says so; for a claim that does
    ///   not [wait](Claim::waits), there is no use in one.
    /// * The store may hand the lock over to a claim that has a place, at any moment. The next attempt tells of it, as a
    ///   grant that was [handed over](Grant::handed_over) if it was not asked for by that attempt. It says so
    ///   in one answer only: the next attempt of this claim lengthens the lease to one ttl from then, and is answered without
    ///   the mark.
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt>;

    /// Extends held claims, and answers for each of them, in their order. They fall due together, so they should travel in
    /// one request. [`renew_each`] serves backends that renew one at a time.
    ///
    /// * Held by this claim: the lease lasts at least one ttl from now. Never shortens it, never changes the token.
    /// * On any other claim it changes nothing, least of all does it bring an ended lease back, and answers
    ///   [`Lost`](Renewal::Lost).
    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>>;

    /// Where the hold of a claim lives, as a number: claims of one number are renewed in one call, those of different
    /// numbers in calls that run beside each other. The answer to [`renew`](Self::renew) comes as a whole, so one node that
    /// hangs keeps all claims of the same call waiting, beyond their leases.
    ///
    /// Asked before each renewal: it may change, and must answer at once, from memory. An optimisation only: `renew` must
    /// serve claims of several groups too. Each of [`MAX_CLAIMS_PER_RENEWAL`] claims may be a group of its own.
    ///
    /// Default: all holds live in one place. A wrapper must pass it on.
    fn renewal_group(&self, claim: &Claim) -> u64 {
        let _ = claim;
        0
    }

    /// Ends the claim: the hold *and* any place in a queue, in whatever state it is.
    ///
    /// * Held by this claim and `linger` is zero: free at once.
    /// * Held by this claim and `linger` is longer: it has no holder from now on, but stays taken until `linger` is over by
    ///   the store's clock. Where a hold is not a lease, `linger` is always zero: the core keeps the hold for as long.
    /// * Anything else: nothing to end, [`NotHeld`](Release::NotHeld). Another owner's lock is never touched.
    /// * After a call whose outcome is unknown, the core takes "nothing to end" for its success. If the backend knows that
    ///   another owner has had the lock meanwhile, perhaps before that call, answer an error of kind
    ///   [`Lost`](crate::ErrorKind::Lost).
    /// * Where a hold is not a lease, nothing but this call ends it while the store is well: the core repeats the call until
    ///   it is answered. So it must be answered in bounded time after the session or connection is over.
    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release>;

    /// Returns when a claim that was busy may be granted if it is asked for again. A hint: it may be early and it may never
    /// come; the core asks again at the interval of [`WakeUp`](crate::WakeUp) in any case. A change since the last `Busy` of this
    /// claim should count; one that is missed costs an interval. Where waiters are served in no order, the core awaits it for the first
    /// waiter of a name of each client only.
    async fn changed(&self, claim: &Claim);

    /// Returns the owners of held claims that may be over, as the store has just told. The core renews them at once, except fixed leases, so
    /// that a loss is announced when it happens. A hint, as [`changed`](Self::changed) is. Each is told once, and a call that is
    /// dropped forgets none: [`Suspects`](crate::Suspects) does that. A backend that is told nothing between two renewals never returns.
    async fn suspects(&self) -> Vec<OwnerId>;

    /// The servers that answered, if the backend notes them. Asked once, when a client is built, whose observer then hears of each
    /// [change](crate::Event::ServerChanged).
    ///
    /// Default: none. A wrapper must pass it on.
    fn servers(&self) -> Option<&KnownServers> {
        None
    }

    /// The operator's side: inspect, list, release by force, initialise, purge, check. `None` if the store has none.
    fn admin(&self) -> Option<&dyn LockAdmin>;

    /// Gives connections back, in bounded time: the core waits for 5 s. Later calls of other methods fail; `close` itself may
    /// be called again, after one that was dropped too.
    async fn close(&self) -> Result<()>;
}

/// The answer to [`LockBackend::try_acquire`].
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "complete: every other answer is an error")]
pub enum Attempt {
    /// The claim holds the lock now.
    Granted(Grant),
    /// Another owner holds it.
    Busy(Busy),
}

/// A grant.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Grant {
    /// The grant's fencing token.
    pub token: FencingToken,
    /// The time after the send of the attempt for which the store certainly keeps the lock without a renewal. `None`: the
    /// claim's [`ttl`](Claim::ttl).
    pub lease: Option<Duration>,
    /// True if the store granted it by itself, before this attempt and after the last one that it answered
    /// [`Busy`](Attempt::Busy). The lease is then counted from before that one was sent.
    pub handed_over: bool,
    /// True if the store tells of a loss only after a renewal: the first one then comes a tenth of a second after the attempt.
    pub renewed_soon: bool,
}

impl Grant {
    /// A grant with this token, for the ttl of its claim.
    pub fn new(token: FencingToken) -> Self {
        Self { token, lease: None, handed_over: false, renewed_soon: false }
    }

    /// Sets [`lease`](Self::lease), for a hold that lasts as long as a session: renewals are sent, and counted, in leases of
    /// this length. A time longer than the ttl changes nothing. Default: the ttl.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Marks a grant as [handed over](Self::handed_over). Default: it is the effect of the attempt that it answers.
    #[must_use]
    pub fn from_hand_over(mut self) -> Self {
        self.handed_over = true;
        self
    }

    /// Asks for a renewal [soon](Self::renewed_soon). Default: the first one comes after a third of the lease.
    #[must_use]
    pub fn with_renewal_soon(mut self) -> Self {
        self.renewed_soon = true;
        self
    }
}

/// What is known of a lock that another owner holds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Busy {
    /// When the present lease ends by the store's clock if nobody renews it. A hint for when to ask again.
    pub ends_in: Option<Duration>,
    /// True if the attempt left something in the store, such as a place in a queue, that only a release removes.
    pub queued: bool,
}

impl Busy {
    /// Held, and nothing else is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the end of the present lease. Default: not known.
    #[must_use]
    pub fn with_end(mut self, ends_in: Duration) -> Self {
        self.ends_in = Some(ends_in);
        self
    }

    /// Marks that a place in a queue was left. Default: none.
    #[must_use]
    pub fn with_place_in_queue(mut self) -> Self {
        self.queued = true;
        self
    }
}

/// The answer to [`LockBackend::renew`] for one claim. The fourth answer, *unknown*, is `Err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "complete: the four answers are the keeper's rule")]
pub enum Renewal {
    /// Held, and extended.
    Renewed,
    /// Held, but the store would not extend it now: ask again before the lease ends.
    Held,
    /// Not held, for this cause.
    Lost(LossCause),
}

/// The answer to [`LockBackend::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "complete: a release finds something to end or does not")]
pub enum Release {
    /// The claim held the lock and does no longer.
    Released,
    /// There was no hold of this claim to end.
    NotHeld,
}

/// [`LockBackend::renew`] for a backend that renews one claim at a time: all at once, answers and errors in order. Dropped,
/// it drops the calls that are under way.
pub async fn renew_each<'a, F, Fut>(claims: &'a [Claim], renew_one: F) -> Vec<Result<Renewal>>
where
    F: FnMut(&'a Claim) -> Fut,
    Fut: Future<Output = Result<Renewal>>,
{
    futures_util::future::join_all(claims.iter().map(renew_one)).await
}
