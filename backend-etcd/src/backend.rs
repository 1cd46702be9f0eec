use crate::claims::ClaimTable;
use crate::keys::{Names, parse_value};
use crate::members::Members;
use crate::rpc::{RANGE, RangeRequest};
use crate::server_error::of_read;
use crate::target::Target;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, Error, ErrorKind, Fairness, Fault, KnownServers, LockAdmin, LockBackend, LossCause,
    LossSignal, Namespace, Outcome, OwnerId, Promises, Release, Renewal, Result, Semantics, Sharing,
    StallTimeout, TokenClass, WakeUp, renew_each,
};
use leasehold_store_url::StoreUrl;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The most attempts at once: more would all be late together.
const MAX_ATTEMPTS: usize = 64;
/// The interval at which a waiter asks whether it is first, and extends the lease of its key.
const FALLBACK: Duration = Duration::from_secs(5);

/// Locks on an etcd cluster.
///
/// One connection to one member serves all locks; another member takes its place when it does not answer.
#[derive(Debug)]
pub struct EtcdBackend {
    pub(crate) members: Members,
    pub(crate) names: Names,
    pub(crate) claims: ClaimTable,
    attempts: Semaphore,
    stall_timeout: StallTimeout,
}

impl EtcdBackend {
    /// A backend for the cluster at `url`. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for what is wrong with the URL;
    /// [`Misconfigured`](ErrorKind::Misconfigured) if the URL asks for TLS and this build has none.
    pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        let target = Target::from_url(url)?;
        Ok(Self {
            names: Names { base: target.base.clone(), namespace: namespace.clone() },
            stall_timeout: StallTimeout::new(target.timeout),
            attempts: Semaphore::new(MAX_ATTEMPTS),
            members: Members::new(target),
            claims: ClaimTable::default(),
        })
    }

    async fn renew_one(&self, claim: &Claim) -> Result<Renewal> {
        self.members.ensure_open()?;
        let Some(state) = self.claims.get(claim.owner()) else { return Ok(Renewal::Lost(LossCause::Gone)) };
        if let Some(own) = state.lock().await.as_mut().filter(|own| !own.is_released)
            && self.extend(claim, own).await.map_err(of_read)?
        {
            return Ok(Renewal::Renewed);
        }
        // A contender that conflicts holds the lock, or is about to. An unknown cause is `Gone`.
        let oldest = RangeRequest { limit: 1, ..self.names.conflicting(claim) };
        let oldest = self.members.call(&RANGE, oldest).await.unwrap_or_default().kvs.pop();
        let is_taken = oldest.is_some_and(|key| parse_value(&key.value).0 != Some(claim.owner()));
        Ok(Renewal::Lost(if is_taken { LossCause::Taken } else { LossCause::Gone }))
    }
}

#[async_trait]
impl LockBackend for EtcdBackend {
    fn semantics(&self) -> Semantics {
        let mut semantics = Semantics::lease("etcd", "lease", Promises::new(promise));
        semantics.fairness = Fairness::Fifo;
        semantics.sharing = Sharing::Fifo;
        semantics.wake_up = WakeUp::Push { fallback: FALLBACK };
        semantics.loss_signal = LossSignal::Push;
        semantics.token = TokenClass::Stored;
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let mut state = self.claims.lock(claim.owner()).await;
        let is_first_call = state.is_none();
        let attempt = self.stall_timeout.limited(&self.attempts, self.attempt(claim, &mut state)).await;
        let attempt = attempt.map_err(|error| {
            if let Some(own) = state.take_if(|own| own.revision.is_none() && !own.is_unsure) {
                self.claims.keep_lease(own.lease);
            }
            // Without a watch, `changed` ends after a short pause, and the waiter asks again.
            let _ = state.as_mut().and_then(|own| own.watch.take());
            // "Certainly not done" and "perhaps done" are told apart by what may be in the store, not by the request that failed. A refusal
            // of a later call may pass, and the waiter keeps its place.
            match state.is_some() && (is_first_call || error.is_outage()) {
                true => error.with_kind(ErrorKind::Indeterminate),
                false => of_read(error),
            }
        });
        self.claims.remove_without_key(claim.owner(), &state);
        attempt
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renew_each(claims, |claim| self.renew_one(claim)).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        self.members.ensure_open()?;
        let (mut state, mut ended) = (self.claims.lock(claim.owner()).await, Ok(false));
        if let Some(own) = &mut *state {
            own.is_released = true;
            ended = self.end(claim, own, linger).await;
            // Only after an outage, the core repeats a release.
            match ended.as_ref().is_err_and(Error::is_outage) {
                true => self.claims.note_failed_release(claim, own),
                false => *state = None,
            }
        }
        self.claims.remove_without_key(claim.owner(), &state);
        Ok(if ended? { Release::Released } else { Release::NotHeld })
    }

    /// When the key in front or the stream of watches has gone; after a pause, if nothing would tell.
    async fn changed(&self, claim: &Claim) {
        self.claims.changed(claim.owner()).await;
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        self.claims.suspects.take().await
    }

    fn servers(&self) -> Option<&KnownServers> {
        Some(&self.members.servers)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.members.close().await;
        self.claims.clear();
        Ok(())
    }
}

/// Complete on purpose, without a catch-all: a new fault is to be thought about.
fn promise(fault: Fault) -> Outcome {
    match fault {
        Fault::None
        | Fault::HolderKilled
        | Fault::HolderPaused
        | Fault::ExecutorStarved
        | Fault::HolderPartitioned
        | Fault::AcquireReplyLost
        | Fault::ConnectionKilled
        | Fault::ClientClockJumps
        | Fault::ClientSuspended => Outcome::Holds,
        // Leases are counted by a clock that stands still in no pause and jumps with no date.
        Fault::StorePaused | Fault::StoreClockForward | Fault::StoreClockBack => Outcome::Holds,
        // An acknowledged write is on the disks of a majority. A member that starts counts leases anew.
        Fault::StoreRestarted | Fault::PowerLost | Fault::MinorityDown => Outcome::Holds,
        // Before 3.5.13 a leader that was replaced may still end leases that live (etcd 15247). The version is not known when
        // this is asked.
        Fault::FailOver | Fault::SplitBrain => Outcome::FencedOnly,
        // The deletion of a holder's key frees the lock. The next grant has a larger token.
        Fault::RecordDeleted => Outcome::FencedOnly,
        // Revisions are counted from the beginning again.
        Fault::DataLost => Outcome::MayBreak,
        Fault::QuorumLost | Fault::DiskFull => Outcome::Unavailable,
        // Nothing is evicted: a member without memory is one that is down.
        Fault::MemoryFull | Fault::Pooler | Fault::NetworkFileSystem => Outcome::NotApplicable,
    }
}
