//! Locks on one server.

mod admin;
mod check;
mod renewal;
mod semantics;

use crate::keys::Keys;
use crate::link::Link;
use crate::reply;
use crate::scripts;
use crate::target::Target;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, LockAdmin, LockBackend, Namespace, OwnerId, Release, Renewal, Result, Semantics, StoreUrl,
};
use std::time::Duration;

/// Locks on one Redis or Valkey server.
///
/// One connection serves all locks; it is made when it is first needed, and made again when it breaks.
#[derive(Debug)]
pub struct RedisBackend {
    link: Link,
    keys: Keys,
}

impl RedisBackend {
    /// A backend for the server at `url`. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](leasehold_core::ErrorKind::Invalid) for what is wrong with the URL, the files that it names, or the
    /// prefix; [`Misconfigured`](leasehold_core::ErrorKind::Misconfigured) if the URL asks for TLS and this build has
    /// none.
    pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        Ok(Self { link: Link::new(Target::of(url)?), keys: Keys::new(namespace)? })
    }
}

#[async_trait]
impl LockBackend for RedisBackend {
    fn semantics(&self) -> Semantics {
        semantics::semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let keys = self.keys.of(claim.name());
        let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
        let keys = [&*keys.lock, &*keys.holder, &*keys.token];
        let granted = self.link.run(&scripts::ACQUIRE, &keys, &[&owner, &ttl, claim.holder()]).await?;
        reply::attempt(&granted)
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renewal::renew(&self.link, &self.keys, claims).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        let keys = self.keys.of(claim.name());
        let (owner, linger) = (claim.owner().to_hex(), whole_millis(linger).to_string());
        let released =
            self.link.run(&scripts::RELEASE, &[&keys.lock, &keys.holder], &[&owner, &linger]).await?;
        reply::release(&released)
    }

    /// Never: who waits asks again, at the intervals of [`WakeUp`](leasehold_core::WakeUp).
    async fn changed(&self, _claim: &Claim) {
        std::future::pending::<()>().await;
    }

    /// Never: a holder hears of a loss from its next renewal.
    async fn suspects(&self) -> Vec<OwnerId> {
        std::future::pending().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.link.close();
        Ok(())
    }
}

/// Rounded up: others are kept out for at least as long as was asked for, and zero means not at all.
fn whole_millis(linger: Duration) -> u128 {
    linger.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linger_is_not_cut_short() {
        let millis = |nanos| whole_millis(Duration::from_nanos(nanos));
        assert_eq!([millis(0), millis(1), millis(1_000_000), millis(1_000_001)], [0, 1, 1, 2]);
    }
}
