use super::cleanup::Cleanup;
use super::detach_on_drop::DetachOnDrop;
use crate::context::Context;
use crate::guard::{Hold, HoldStatus};
use crate::keeper::{GrantedLease, Keeper, KeptLease, unanswered};
use crate::options::check_ttl;
use crate::{
    AcquireOptions, Claim, Error, ErrorKind, FencingToken, HoldKind, LockName, Loss, LossCause, Moment,
    Release, Renewal, Result,
};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// The hold behind a guard: a lease that the keeper renews, and its release.
#[derive(Debug)]
pub(super) struct ClientHold {
    context: Arc<Context>,
    keeper: Arc<Keeper>,
    lease: Arc<KeptLease>,
    runtime: Handle,
    /// The hold keeps others out until then.
    linger_until: Option<Moment>,
}

impl ClientHold {
    pub(super) fn new(
        context: &Arc<Context>,
        keeper: &Arc<Keeper>,
        (claim, runtime): (Claim, Handle),
        options: &AcquireOptions,
        grant: &GrantedLease,
    ) -> Arc<Self> {
        let lease = Arc::new(KeptLease::new(context, claim, options, grant));
        keeper.watch(&lease, &runtime);
        Arc::new(Self {
            context: Arc::clone(context),
            keeper: Arc::clone(keeper),
            lease,
            runtime,
            // From now, not from the send: the store granted it in between.
            linger_until: (!options.hold_at_least.is_zero())
                .then(|| context.clock.now().plus(options.hold_at_least)),
        })
    }

    /// Ends the hold for its holder. Answers the release that is still to be sent, and the loss if it was lost already.
    fn end(&self) -> (Cleanup, Option<Loss>) {
        self.keeper.forget(&self.lease);
        let loss = self.lease.release();
        (Cleanup::new(&self.context, self.lease.claim_to_release(), true, self.linger_until), loss)
    }
}

impl Hold for ClientHold {
    fn name(&self) -> &LockName {
        self.lease.claim.name()
    }

    fn token(&self) -> FencingToken {
        self.lease.token
    }

    fn status(&self) -> HoldStatus {
        self.lease.status()
    }

    fn ended(self: Arc<Self>) -> BoxFuture<'static, Option<Loss>> {
        Box::pin(async move { self.lease.ended().await })
    }

    fn extend(self: Arc<Self>, ttl: Duration) -> BoxFuture<'static, Result<()>> {
        Box::pin(DetachOnDrop::new(&Arc::clone(&self.context), self.runtime.clone(), async move {
            if let HoldStatus::Lost(loss) = self.lease.status() {
                return Err(loss.into());
            }
            if self.context.semantics.hold != HoldKind::Lease {
                let message = "a hold of this store is not a lease, and cannot be extended";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            let ttl = check_ttl(ttl)?.max(self.lease.length());
            let sent_at = self.context.clock.now();
            let claim = self.lease.begin_extension(ttl);
            let answer =
                self.context.backend.renew(&[claim]).await.pop().unwrap_or_else(|| Err(unanswered()));
            self.lease.answered(sent_at, ttl, answer.clone());
            match (self.lease.status(), answer) {
                (HoldStatus::Lost(loss), _) => Err(loss.into()),
                (_, Ok(Renewal::Renewed)) => {
                    self.lease.extended(ttl);
                    Ok(())
                }
                (_, Ok(Renewal::Held)) => {
                    Err(Error::new(ErrorKind::Unavailable, "the store would not extend the lease now"))
                }
                (_, Ok(Renewal::Lost(cause))) => Err(Loss::new(cause).into()),
                (_, Err(error)) => Err(error),
            }
        }))
    }

    fn release(self: Arc<Self>) -> BoxFuture<'static, Result<()>> {
        let (cleanup, loss) = self.end();
        let runtime = self.runtime.clone();
        if let Some(loss) = loss {
            // Belief is over, but the store may have a renewal that came too late.
            cleanup.run_in_background(&runtime);
            return Box::pin(std::future::ready(Err(loss.into())));
        }
        Box::pin(DetachOnDrop::new(&self.context, runtime.clone(), async move {
            match cleanup.run_for_caller(&runtime).await? {
                Release::Released => Ok(()),
                Release::NotHeld => Err(Loss::new(LossCause::Gone).into()),
            }
        }))
    }

    fn abandon(self: Arc<Self>) {
        let (cleanup, _) = self.end();
        cleanup.run_in_background(&self.runtime);
    }
}
