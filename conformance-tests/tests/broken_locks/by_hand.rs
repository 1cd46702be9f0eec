//! Mistakes in the client: a lock written by hand on top of sound steps, without the core's attempt and keeper.

use crate::calls::Calls;
use crate::plain::{Plain, SOUND};
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    AcquireOptions, Attempt, Claim, DistributedLock, Error, ErrorKind, FencingToken, Hold, HoldStatus,
    LockAdmin, LockGuard, LockName, Loss, LossCause, OwnerId, Renewal, Result, Semantics, Wait,
};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The mistake of the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    Nothing,
    /// #10: the watchdog is started before there is a guard that would stop it. An acquisition dropped in between
    /// leaves it running, and the lock held for ever.
    WatchdogBeforeGuard,
    /// #14: validity counts from the reply.
    ValidFromReply,
    /// #15: validity counts from the first attempt of the wait.
    ValidFromFirstAttempt,
    /// #96: a renewal counts from its reply.
    RenewedFromReply,
    /// #189: the watchdog renews all the time.
    RenewedAllTheTime,
    /// #28: a waiter asks again when the server says that the key is gone, and only then. The server does not repeat
    /// a message that had no listener.
    AsksWhenToldOnly,
}

pub(crate) fn by_hand(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    on(Plain::new(SOUND, address), mistake)
}

/// The same, on scripts that are run by their hash.
pub(crate) fn by_hand_and_hash(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    on(Plain::by_hash(SOUND, address), mistake)
}

fn on(backend: Plain, mistake: Mistake) -> Arc<dyn DistributedLock> {
    let backend = Arc::new(backend);
    Arc::new(ByHand { semantics: backend.semantics(), defaults: AcquireOptions::new(), backend, mistake })
}

#[derive(Clone)]
struct ByHand {
    backend: Arc<Plain>,
    semantics: Semantics,
    defaults: AcquireOptions,
    mistake: Mistake,
}

impl ByHand {
    /// Asks until granted: the token, and since when it counts as valid.
    async fn granted(&self, claim: &Claim, wait: Wait) -> Result<(FencingToken, Instant)> {
        let begun = Instant::now();
        loop {
            let sent = Instant::now();
            let outcome = self.backend.try_acquire(claim).await;
            if let Ok(Attempt::Granted(grant)) = outcome {
                let since = match self.mistake {
                    Mistake::ValidFromReply => Instant::now(),
                    Mistake::ValidFromFirstAttempt => begun,
                    _ => sent,
                };
                return Ok((grant.token, since));
            }
            match wait {
                Wait::No => {
                    return Err(outcome.err().unwrap_or_else(|| Error::new(ErrorKind::Busy, "held")));
                }
                Wait::UpTo(time) if begun.elapsed() >= time => {
                    return Err(Error::new(ErrorKind::TimedOut, "held"));
                }
                _ if self.mistake == Mistake::AsksWhenToldOnly => self.backend.key_gone(claim).await,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

#[async_trait]
impl DistributedLock for ByHand {
    fn semantics(&self) -> &Semantics {
        &self.semantics
    }

    fn defaults(&self) -> &AcquireOptions {
        &self.defaults
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        let claim = Claim::new(name.clone(), OwnerId::random()?, options.ttl(), "".into());
        let (token, since) = self.granted(&claim, options.wait()).await?;
        let valid_until = Arc::new(Mutex::new(end_of(&claim, since)));
        let watchdog =
            watchdog(Arc::clone(&self.backend), claim.clone(), Arc::clone(&valid_until), self.mistake);
        let watchdog = if self.mistake == Mistake::WatchdogBeforeGuard {
            let handle = tokio::spawn(watchdog).abort_handle();
            // Any await will do: here the acquisition may be dropped.
            tokio::task::yield_now().await;
            handle
        } else {
            tokio::spawn(watchdog).abort_handle()
        };
        let backend = Arc::clone(&self.backend);
        Ok(LockGuard::new(Arc::new(HeldByHand { backend, claim, token, valid_until, watchdog })))
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        None
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

async fn watchdog(backend: Arc<Plain>, claim: Claim, valid_until: Arc<Mutex<Instant>>, mistake: Mistake) {
    loop {
        let is_hasty = mistake == Mistake::RenewedAllTheTime;
        tokio::time::sleep(if is_hasty { Duration::from_millis(2) } else { claim.ttl() / 3 }).await;
        let sent = Instant::now();
        if let Ok(Renewal::Renewed) = backend.renew(&claim).await {
            let since = if mistake == Mistake::RenewedFromReply { Instant::now() } else { sent };
            *valid_until.lock().unwrap_or_else(PoisonError::into_inner) = end_of(&claim, since);
        }
    }
}

/// With a margin for clocks of different rates.
fn end_of(claim: &Claim, since: Instant) -> Instant {
    since + claim.ttl() * 98 / 100
}

struct HeldByHand {
    backend: Arc<Plain>,
    claim: Claim,
    token: FencingToken,
    valid_until: Arc<Mutex<Instant>>,
    watchdog: AbortHandle,
}

impl Hold for HeldByHand {
    fn name(&self) -> &LockName {
        self.claim.name()
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn status(&self) -> HoldStatus {
        let until = *self.valid_until.lock().unwrap_or_else(PoisonError::into_inner);
        match until.checked_duration_since(Instant::now()) {
            Some(remaining) if !remaining.is_zero() => HoldStatus::Held { remaining, at_risk: false },
            _ => HoldStatus::Lost(Loss::new(LossCause::Expired)),
        }
    }

    fn ended(self: Arc<Self>) -> BoxFuture<Option<Loss>> {
        Box::pin(async move {
            loop {
                match self.status() {
                    HoldStatus::Held { remaining, .. } => tokio::time::sleep(remaining).await,
                    _ => return Some(Loss::new(LossCause::Expired)),
                }
            }
        })
    }

    fn extend(self: Arc<Self>, _ttl: Duration) -> BoxFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(self: Arc<Self>) -> BoxFuture<Result<()>> {
        self.watchdog.abort();
        Box::pin(async move { self.backend.release(&self.claim).await.map(drop) })
    }

    fn abandon(self: Arc<Self>) {
        self.watchdog.abort();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { self.backend.release(&self.claim).await });
        }
    }
}

impl fmt::Debug for ByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByHand")
    }
}

impl fmt::Debug for HeldByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldByHand")
    }
}
