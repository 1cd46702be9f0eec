//! The leases on which keys live. A lease that a deleted key has left is used again, because to grant one is a write.

use crate::locked;
use crate::members::Members;
use crate::rpc::{GRANT, LeaseGrantRequest, LeaseRequest, REVOKE};
use crate::server_error::{is_ended_lease, of_read};
use leasehold_core::{Clock, Moment, Result, SystemClock};
use std::sync::Mutex;
use std::time::Duration;

/// The most leases that are kept.
const MAX_KEPT: usize = 128;
/// A kept lease with less than this left is not used: it may end before the write.
const MIN_LEFT: Duration = Duration::from_millis(500);

/// A lease of the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    pub(crate) seconds: i64,
    /// It lives at least until then.
    lives_until: Moment,
}

/// The leases without a key.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<Vec<Lease>>);

impl Lease {
    pub(crate) fn of_unknown_length(id: i64) -> Self {
        Self { id, ..Self::default() }
    }

    /// The same after an extension that was sent at this moment.
    pub(crate) fn extended_at(self, sent_at: Moment) -> Self {
        Self { lives_until: sent_at.plus(Duration::from_secs(self.seconds.unsigned_abs())), ..self }
    }
}

impl Leases {
    /// A lease of this length without a key: one that was kept, or a new one.
    pub(crate) async fn take(&self, members: &Members, seconds: i64) -> Result<Lease> {
        let needed_until = SystemClock::new().now().plus(MIN_LEFT);
        let kept = {
            let mut kept = locked(&self.0);
            kept.retain(|lease| lease.lives_until > needed_until);
            kept.iter().rposition(|lease| lease.seconds == seconds).map(|at| kept.swap_remove(at))
        };
        match kept {
            Some(lease) => Ok(lease),
            None => grant(members, seconds).await,
        }
    }

    /// Keeps a lease. It has no key any more, and no request under way that could give it one.
    pub(crate) fn keep(&self, lease: Lease) {
        let mut kept = locked(&self.0);
        if kept.len() < MAX_KEPT {
            kept.push(lease);
        }
    }
}

/// A new lease.
pub(crate) async fn grant(members: &Members, seconds: i64) -> Result<Lease> {
    let sent_at = SystemClock::new().now();
    // A lease whose answer is lost has no key, and ends by itself: to the caller nothing was done.
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
