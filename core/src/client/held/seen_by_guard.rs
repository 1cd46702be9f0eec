//! The same grant as its guard sees it: is it held, for how long, and how it is ended.

use super::Held;
use crate::client::carried::Carried;
use crate::guard::{Hold, HoldStatus};
use crate::keeper::loss_rule::End;
use crate::options::check_ttl;
use crate::{Error, ErrorKind, FencingToken, HoldKind, LockName, Loss, LossCause, Release, Result};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Hold for Held {
    fn name(&self) -> &LockName {
        self.claim.name()
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn status(&self) -> HoldStatus {
        self.look(|state, now| match state.rule.settle(now) {
            Some(End::Lost(loss)) => HoldStatus::Lost(loss.clone()),
            Some(End::Released) => HoldStatus::Released,
            None => HoldStatus::Held {
                remaining: state.rule.valid_until().since(now),
                at_risk: state.rule.trouble().is_some(),
            },
        })
    }

    fn lost(self: Arc<Self>) -> Later<Loss> {
        Box::pin(async move {
            loop {
                // Made before looking: it hears of every loss from here on, though it is not polled yet.
                let ended = self.ended.notified();
                let deadline = match self.watch_deadline() {
                    Ok(deadline) => deadline,
                    Err(loss) => return loss,
                };
                tokio::select! {
                    () = ended => {}
                    () = self.core.clock.sleep_until(deadline) => {}
                }
            }
        })
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> Later<Result<()>> {
        let (core, runtime) = (Arc::clone(&self.core), self.runtime.clone());
        Box::pin(Carried::new(core, runtime, async move {
            if let HoldStatus::Lost(loss) = self.status() {
                return Err(loss.into());
            }
            if self.core.semantics.hold != HoldKind::Lease {
                let message = "a hold of this store is not a lease, and cannot be extended";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            let ttl = check_ttl(ttl)?.max(self.ttl());
            self.extend_to(ttl).await
        }))
    }

    fn release(self: Arc<Self>) -> Later<Result<()>> {
        let lost = self.give_back();
        let runtime = self.runtime.clone();
        let withdrawal = self.withdrawal();
        if let Some(loss) = lost {
            // Nothing is held by belief, but the store may have a renewal that came too late.
            withdrawal.in_background(&runtime);
            return Box::pin(std::future::ready(Err(loss.into())));
        }
        Box::pin(Carried::new(Arc::clone(&self.core), runtime.clone(), async move {
            match withdrawal.in_front(&runtime).await? {
                Release::Released => Ok(()),
                Release::NotHeld => Err(Loss::new(LossCause::Gone).into()),
            }
        }))
    }

    fn abandon(self: Arc<Self>) {
        self.give_back();
        self.withdrawal().in_background(&self.runtime);
    }
}
