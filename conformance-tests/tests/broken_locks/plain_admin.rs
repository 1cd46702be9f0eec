//! What administrators ask of the small backend over Redis, and their mistakes.

use crate::calls::lock_of;
use crate::plain::{Plain, SOUND};
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    DistributedLock, Error, ErrorKind, FencingToken, Finding, LockAdmin, LockName, LockStatus, OwnerId,
    Result, Waiter,
};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mistake {
    Nothing,
    /// #233: a store that does not answer holds nothing.
    LooksNeverFail,
    /// #234: a name whose holder has released it is forgotten, whatever its least time.
    ForgetsLeastTimes,
}

/// A sound lock with this mistake of its administrator.
pub(crate) fn administrated(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    let mut plain = Plain::new(SOUND, address);
    plain.admin_mistake = mistake;
    lock_of(plain)
}

/// The part of an administrator that cases need: a look at one lock, and its end by force.
#[async_trait]
impl LockAdmin for Plain {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let script = "local v = redis.call('GET', KEYS[1])
                      if not v then return false end
                      return {v, redis.call('PTTL', KEYS[1]), tonumber(redis.call('GET', KEYS[2]) or 0)}";
        let keys = [name.to_string(), format!("{name}:fence")];
        let found = self.redis.script(script, &[&keys[0], &keys[1]], &[]).await;
        let found: Option<(String, i64, u64)> = match self.admin_mistake {
            Mistake::LooksNeverFail => found.unwrap_or_default(),
            _ => found?,
        };
        let status = |(owner, left, token): (String, i64, u64)| {
            let mut status = LockStatus::new(name.clone());
            status.owner = OwnerId::from_hex(&owner);
            status.token = Some(FencingToken::new(token));
            status.mode = self.shown_mode;
            status.ends_in = u64::try_from(left).ok().map(Duration::from_millis);
            status
        };
        Ok(found.map(status).into_iter().collect())
    }

    async fn list(&self, _prefix: &str) -> Result<Vec<LockStatus>> {
        Err(Error::new(ErrorKind::Unsupported, "nobody lists these locks"))
    }

    async fn waiters(&self, _name: &LockName) -> Result<Vec<Waiter>> {
        Ok(Vec::new())
    }

    async fn force_release(
        &self,
        name: &LockName,
        _only_if: Option<FencingToken>,
    ) -> Result<Vec<LockStatus>> {
        let status = self.inspect(name).await?;
        self.redis.command::<u64>(&["DEL", name.as_str()]).await?;
        Ok(status)
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        let script = "if redis.call('GET', KEYS[1]) == '' then redis.call('DEL', KEYS[1]) end return 1";
        for name in names {
            if self.admin_mistake == Mistake::ForgetsLeastTimes {
                self.redis.script::<u64>(script, &[name.as_str()], &[]).await?;
            }
        }
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
