//! The leases on which keys live. A lease that a deleted key has left is used again, because to grant one is a write.

use crate::etcd_error::{EtcdError, EtcdResult};
use crate::members::Members;
use crate::rpc::{GRANT, LeaseGrantRequest, LeaseRequest, REVOKE};
use leasehold_core::{Clock, Moment, SystemClock};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most leases of one length that are kept.
const MAX_KEPT: usize = 128;
/// A kept lease with less than this left is not used: it may end before the write.
const MIN_LEFT: Duration = Duration::from_millis(500);

/// A lease of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    pub(crate) seconds: i64,
    /// It lives at least until then.
    lives_until: Moment,
}

/// The leases without a key, by their length.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<i64, Vec<Lease>>>);

impl Lease {
    /// The same after an extension that was sent at this moment.
    pub(crate) fn extended_at(self, sent_at: Moment) -> Self {
        let length = Duration::from_secs(self.seconds.unsigned_abs());
        Self { lives_until: sent_at.plus(length), ..self }
    }
}

impl Leases {
    /// A lease of this length without a key: one that was kept, or a new one.
    pub(crate) async fn take(&self, members: &Members, seconds: i64) -> EtcdResult<Lease> {
        let now = SystemClock::new().now();
        if let Some(kept) = self.kept().get_mut(&seconds) {
            kept.retain(|lease| lease.lives_until > now.plus(MIN_LEFT));
            if let Some(lease) = kept.pop() {
                return Ok(lease);
            }
        }
        grant(members, seconds).await
    }

    /// Keeps a lease. It has no key any more, and no request under way that could give it one.
    pub(crate) fn keep(&self, lease: Lease) {
        let mut all = self.kept();
        let kept = all.entry(lease.seconds).or_default();
        if kept.len() < MAX_KEPT {
            kept.push(lease);
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<i64, Vec<Lease>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new lease.
pub(crate) async fn grant(members: &Members, seconds: i64) -> EtcdResult<Lease> {
    let now = SystemClock::new().now();
    // A lease whose answer is lost has no key, and ends by itself: to the caller nothing was done.
    let granted =
        members.call(&GRANT, LeaseGrantRequest { ttl: seconds }).await.map_err(EtcdError::of_read)?;
    Ok(Lease { id: granted.id, seconds, lives_until: now }.extended_at(now))
}

/// Ends a lease, and every key on it. A write on it that is still under way fails from then on.
pub(crate) async fn revoke(members: &Members, lease: i64) -> EtcdResult<()> {
    match members.call(&REVOKE, LeaseRequest { id: lease }).await {
        Ok(_) | Err(EtcdError::NoLease) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The whole seconds of a lease that lasts at least this long.
pub(crate) fn seconds(time: Duration) -> i64 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_rounded_up_to_whole_seconds() {
        for (millis, expected) in [(1, 1), (1000, 1), (1001, 2), (30_000, 30)] {
            assert_eq!(seconds(Duration::from_millis(millis)), expected);
        }
    }
}
