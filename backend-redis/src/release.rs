//! Releases.

use crate::backend::RedisBackend;
use crate::reply;
use leasehold_core::{Claim, Release, Result};
use std::time::Duration;

impl RedisBackend {
    /// Ends a claim: its hold, and its place in the queue, also one that this process does not know: a stale entry would receive
    /// the next hand-over.
    pub(crate) async fn end(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.waiters.remove(claim.owner());
        let linger = vec![whole_millis(linger).to_string()];
        let request = (self.keys.of(claim.name()), vec![claim.owner().to_hex()]);
        let answer = self.releases.run(linger, request).await?;
        reply::release(&answer)
    }
}

/// In whole milliseconds, rounded up: others are kept out for at least as long as was asked for, and zero means not at all.
pub(crate) fn whole_millis(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_not_cut_short() {
        for (nanos, millis) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(whole_millis(Duration::from_nanos(nanos)), millis);
        }
    }
}
