//! The claims of this process: what is known of the key of each, and of the lease on which it lives.
//!
//! A lease that a deleted key has left is used again, because to grant one is a write.

use crate::members::Members;
use crate::rpc::{GRANT, LeaseGrantRequest, LeaseRequest, REVOKE};
use crate::server_error::{is_ended_lease, of_read};
use crate::watches::Watch;
use leasehold_core::sync::locked;
use leasehold_core::{Claim, Clock, Moment, OwnerId, Result, Suspects, SystemClock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::sleep;

/// The pause of a waiter without a watch, in milliseconds. Random, because all waiters of a process lose their member together.
const RETRY_MILLIS: std::ops::Range<u64> = 100..400;
/// The most leases that are kept.
const MAX_KEPT: usize = 128;

/// The claims that have, or may have, a key.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable {
    claims: Mutex<HashMap<OwnerId, Arc<ClaimState>>>,
    /// The claims whose last release failed, and when each is forgotten.
    failed_releases: Mutex<HashMap<OwnerId, Moment>>,
    /// The leases without a key.
    kept: Mutex<Vec<Lease>>,
    /// The holds that may be over.
    pub(crate) suspects: Arc<Suspects>,
}

/// Locked for the length of a call: the calls for one claim follow each other. `None`: the claim has no key.
pub(crate) type ClaimState = tokio::sync::Mutex<Option<OwnKey>>;

/// The key that a claim has, or may have.
#[derive(Debug, Default)]
pub(crate) struct OwnKey {
    pub(crate) key: Vec<u8>,
    /// The revision at which it was created. `None` while no answer to the write is seen.
    pub(crate) revision: Option<i64>,
    /// True if a create without an answer may still be carried out: its lease must be revoked, and is not used again.
    pub(crate) is_unsure: bool,
    pub(crate) lease: Lease,
    /// The lease of a move that may still be carried out: it is repeated before anything but a release. After a release it does nothing.
    pub(crate) moving_to: Option<Lease>,
    pub(crate) place: Place,
    /// True once the claim was granted: its lease is not shortened any more.
    pub(crate) is_granted: bool,
    /// True once a release was begun: a renewal that was on its way extends nothing behind it.
    pub(crate) is_released: bool,
    /// On the key in front of a waiter, or on a holder's own.
    pub(crate) watch: Option<Watch>,
}

/// The place of a key in its queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    #[default]
    Unknown,
    /// Behind the youngest of the keys that are older and conflict with it: that key, and the revision at which it was created.
    Behind(Vec<u8>, i64),
    /// No older key conflicts with it, and none can come: it holds the lock.
    First,
}

impl ClaimTable {
    /// The state of a claim, new if there is none.
    pub(crate) async fn lock(&self, owner: OwnerId) -> OwnedMutexGuard<Option<OwnKey>> {
        // Not while a call has its state: the table has one of the two that are counted here.
        let is_idle = |owner| self.get(owner).is_none_or(|state| Arc::strong_count(&state) == 2);
        let is_over = |it: &OwnerId, end: &mut Moment| *end <= SystemClock::new().now() && is_idle(*it);
        for (forgotten, _) in locked(&self.failed_releases).extract_if(is_over) {
            locked(&self.claims).remove(&forgotten);
        }
        loop {
            let state = Arc::clone(locked(&self.claims).entry(owner).or_default());
            let guard = Arc::clone(&state).lock_owned().await;
            // Another call may have removed the claim while this one waited for it.
            if self.get(owner).is_some_and(|current| Arc::ptr_eq(&current, &state)) {
                return guard;
            }
        }
    }

    pub(crate) fn get(&self, owner: OwnerId) -> Option<Arc<ClaimState>> {
        locked(&self.claims).get(&owner).cloned()
    }

    /// Forgets a claim that has no key. The caller has its state locked.
    pub(crate) fn remove_without_key(&self, owner: OwnerId, state: &Option<OwnKey>) {
        if state.is_none() {
            locked(&self.failed_releases).remove(&owner);
            locked(&self.claims).remove(&owner);
        }
    }

    /// Keeps a claim for another try of its release, while a lease of it may live: for twice the length, because a leader that is
    /// elected meanwhile starts each lease anew. Without an end, a client that outlives many outages would keep every such claim.
    pub(crate) fn note_failed_release(&self, claim: &Claim, own: &OwnKey) {
        let seconds = seconds(claim.ttl()).max(own.lease.seconds).unsigned_abs();
        let end = SystemClock::new().now().plus(Duration::from_secs(seconds.saturating_mul(2)));
        locked(&self.failed_releases).insert(claim.owner(), end);
    }

    /// Waits until the watch of a claim fires; for a pause, if it has none.
    pub(crate) async fn changed(&self, owner: OwnerId) {
        let fired = async { Some(self.get(owner)?.lock().await.as_ref()?.watch.as_ref()?.fired()) };
        match fired.await {
            Some(fired) => fired.await,
            None => sleep(Duration::from_millis(fastrand::u64(RETRY_MILLIS))).await,
        }
    }

    /// Forgets all claims, and ends their watches.
    pub(crate) fn clear(&self) {
        locked(&self.claims).clear();
    }

    /// A lease of this length without a key: one that was kept, and certainly lives until then, or a new one.
    pub(crate) async fn take_lease(&self, members: &Members, seconds: i64, until: Moment) -> Result<Lease> {
        let kept = {
            let mut kept = locked(&self.kept);
            kept.retain(Lease::lives);
            let fits = |lease: &Lease| lease.seconds == seconds && lease.lives_until >= until;
            kept.iter().rposition(fits).map(|at| kept.swap_remove(at))
        };
        match kept {
            Some(lease) => Ok(lease),
            None => grant(members, seconds).await,
        }
    }

    /// Keeps a lease. It has no key any more, and no request under way that could give it one.
    pub(crate) fn keep_lease(&self, lease: Lease) {
        let mut kept = locked(&self.kept);
        if kept.len() < MAX_KEPT {
            kept.push(lease);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    pub(crate) seconds: i64,
    /// It lives at least until then, also if the clock of a leader runs 1 % faster than ours.
    pub(crate) lives_until: Moment,
}

impl Lease {
    /// The same after an extension that was sent at this moment.
    pub(crate) fn extended_at(self, sent_at: Moment) -> Self {
        let length = Duration::from_secs(self.seconds.unsigned_abs());
        Self { lives_until: sent_at.plus(length / 100 * 99), ..self }
    }

    /// False if it may have ended.
    pub(crate) fn lives(&self) -> bool {
        SystemClock::new().now() < self.lives_until
    }
}

pub(crate) async fn grant(members: &Members, seconds: i64) -> Result<Lease> {
    let sent_at = SystemClock::new().now();
    // A lease that was granted without an answer has no key, and ends by itself: to the caller nothing was done.
    let granted = members.call(&GRANT, LeaseGrantRequest { ttl: seconds }).await;
    let id = granted.map_err(of_read)?.id;
    Ok(Lease { id, seconds, ..Lease::default() }.extended_at(sent_at))
}

/// Ends a lease, and every key on it. A write on it that is still under way fails from then on.
pub(crate) async fn revoke(members: &Members, lease: i64) -> Result<()> {
    let revoked = members.call(&REVOKE, LeaseRequest { id: lease }).await;
    if is_ended_lease(&revoked) { Ok(()) } else { revoked.map(drop) }
}

/// The whole seconds of a lease that lasts at least this long.
pub(crate) fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX).max(1)
}
