use crate::claims::{ClaimEntry, ClaimTable, OwnKey};
use crate::failure::EtcdError;
use crate::keys::Names;
use crate::leases::Leases;
use crate::members::Members;
use crate::notifier::retry_pause;
use crate::recipe::{Recipe, Shared};
use crate::release;
use crate::semantics;
use crate::target::Target;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, Error, ErrorKind, HolderInfo, LockAdmin, LockBackend, Namespace, OwnerId, Release,
    Renewal, Result, Semantics, StallTimeout,
};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The most attempts at once: more would all be late together.
const MAX_ATTEMPTS: usize = 64;

/// Locks on an etcd cluster.
///
/// One connection to one member serves all locks; another member takes its place when it does not answer.
#[derive(Debug)]
pub struct EtcdBackend {
    pub(crate) shared: Shared,
    pub(crate) names: Names,
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
            names: Names::new(target.base.clone(), namespace.clone()),
            stall_timeout: StallTimeout::new(target.timeout),
            attempts: Semaphore::new(MAX_ATTEMPTS),
            shared: Shared {
                members: Members::new(target),
                leases: Leases::default(),
                watches: Arc::default(),
                claims: ClaimTable::default(),
            },
        })
    }

    pub(crate) fn recipe<'a>(&'a self, claim: &'a Claim, entry: &'a ClaimEntry) -> Recipe<'a> {
        Recipe { shared: &self.shared, directory: self.names.directory_of(claim.name()), claim, entry }
    }

    async fn attempt(
        &self,
        claim: &Claim,
        entry: &ClaimEntry,
        state: &mut Option<OwnKey>,
    ) -> Result<Attempt, EtcdError> {
        let signal = entry.notifier.take();
        let permit = self.stall_timeout.wait(self.attempts.acquire()).await;
        let _permit =
            permit.and_then(std::result::Result::ok).ok_or_else(|| EtcdError::NotDone(self.too_slow()))?;
        let attempt = self.recipe(claim, entry).attempt(state, signal).await;
        if !attempt.as_ref().is_err_and(EtcdError::is_outage) {
            self.stall_timeout.answered();
        }
        attempt
    }

    fn too_slow(&self) -> Error {
        let limit = self.shared.members.target.timeout;
        let message =
            format!("{MAX_ATTEMPTS} other attempts of this process have had no answer for {limit:?}");
        Error::new(ErrorKind::Unavailable, message)
            .with_help("look at how slow the cluster is, or wait longer: timeout")
    }
}

#[async_trait]
impl LockBackend for EtcdBackend {
    fn semantics(&self) -> Semantics {
        semantics::semantics()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        check_size(claim)?;
        let (entry, mut state) = self.shared.claims.lock(claim.owner()).await;
        let attempt = self.attempt(claim, &entry, &mut state).await;
        let attempt = attempt.map_err(|error| as_far_as_known(error, state.as_ref()));
        if let (Err(error), Some(own)) = (&attempt, &*state)
            && !error.is_outage()
        {
            // The core releases no claim that was refused. A key that stays ends with its lease.
            let directory = self.names.directory_of(claim.name());
            let _ = release::end(&self.shared, &directory, claim, own, Duration::ZERO).await;
            *state = None;
        }
        if state.is_none() {
            self.shared.claims.remove(claim.owner());
        }
        attempt
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.renew_all(claims).await
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        let directory = self.names.directory_of(claim.name());
        let (_, mut state) = self.shared.claims.lock(claim.owner()).await;
        if let Some(own) = state.as_mut() {
            // The deletion that follows is no loss.
            own.watch = None;
        }
        let ended = match &*state {
            Some(own) => release::end(&self.shared, &directory, claim, own, linger).await,
            None => release::end_by_owner(&self.shared.members, &directory, claim.owner()).await,
        };
        if ended.is_ok() {
            *state = None;
        }
        if state.is_none() {
            self.shared.claims.remove(claim.owner());
        }
        match ended {
            Ok(true) => Ok(Release::Released),
            Ok(false) => Ok(Release::NotHeld),
            Err(error) => Err(error.into_error()),
        }
    }

    /// When the key in front or the stream of watches has gone; after a pause, if nothing would tell.
    async fn changed(&self, claim: &Claim) {
        match self.shared.claims.get(claim.owner()) {
            Some(entry) => entry.notifier.changed().await,
            None => Box::pin(tokio::time::sleep(retry_pause())).await,
        }
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        self.shared.claims.suspects.take().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.shared.members.close();
        self.shared.watches.close();
        Ok(())
    }
}

/// "Certainly not done" and "perhaps done" are told apart by what may be in the store, not by the request that failed.
fn as_far_as_known(error: EtcdError, state: Option<&OwnKey>) -> Error {
    let is_unknown = matches!(error, EtcdError::Unknown(_));
    let error = error.into_read_error();
    match state {
        _ if !error.is_outage() => error,
        None if !is_unknown => error,
        _ => error.with_kind(ErrorKind::Indeterminate),
    }
}

/// A client of the core sends no more than this limit; another caller of the backend might.
fn check_size(claim: &Claim) -> Result<()> {
    let (size, most) = (claim.holder().len(), HolderInfo::MAX_BYTES);
    if size <= most {
        return Ok(());
    }
    let problem = format_args!("{size} bytes, limit {most}");
    Err(Error::invalid("holder", problem, "shorten its description"))
}
