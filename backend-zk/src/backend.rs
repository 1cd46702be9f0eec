use crate::claims::{ClaimEntry, ClaimState, ClaimTable};
use crate::names::Names;
use crate::notifier::retry_pause;
use crate::own_node;
use crate::recipe::Recipe;
use crate::semantics;
use crate::session::{Sessions, ZkError};
use crate::target::Target;
use async_trait::async_trait;
use futures_util::future::join_all;
use leasehold_core::{
    Attempt, Claim, Clock, Error, ErrorKind, HolderInfo, KnownServers, LockAdmin, LockBackend, Namespace,
    OwnerId, Release, Renewal, Result, Semantics, StallTimeout, SystemClock,
};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The most attempts at once, and the most releases. A late request is sent again: without a limit, a slow server gets more than it answers.
const MAX_CALLS: usize = 32;

/// Locks on a ZooKeeper ensemble.
///
/// One session serves all locks; it is made when it is first needed, and again when it has ended.
#[derive(Debug)]
pub struct ZooKeeperBackend {
    pub(crate) sessions: Sessions,
    pub(crate) names: Names,
    pub(crate) claims: Arc<ClaimTable>,
    attempts: Semaphore,
    releases: Semaphore,
    stall_timeout: StallTimeout,
}

impl ZooKeeperBackend {
    /// A backend for the ensemble at `url`. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for what is wrong with the URL;
    /// [`Misconfigured`](ErrorKind::Misconfigured) if the URL asks for TLS and this build has none.
    pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        let target = Target::from_url(url)?;
        let claims = Arc::<ClaimTable>::default();
        let table = Arc::clone(&claims);
        Ok(Self {
            names: Names::new(target.base.clone(), namespace.clone()),
            stall_timeout: StallTimeout::new(target.timeouts.request),
            sessions: Sessions::new(target, Arc::new(move |event| table.session_event(event))),
            claims,
            attempts: Semaphore::new(MAX_CALLS),
            releases: Semaphore::new(MAX_CALLS),
        })
    }

    async fn attempt(&self, claim: &Claim, entry: &ClaimEntry, state: &mut ClaimState) -> Result<Attempt> {
        let (started_at, before) = (SystemClock::new().now(), entry.notifier.take());
        let session = self.sessions.session().await?;
        let attempt = async {
            // The deadline of the requests begins after the wait for the permit.
            let call = self.sessions.call_in(&session)?;
            let recipe = Recipe {
                call: &call,
                access: self.sessions.target.access,
                directory: &self.names.directory_of(claim.name()),
                claim,
                notifier: &entry.notifier,
                before,
                started_at,
            };
            recipe.attempt(state).await.map_err(ZkError::into_error)
        };
        self.stall_timeout.limited(&self.attempts, attempt).await
    }

    /// Step 5 of the recipe: deletes the node, or all nodes of an owner whose node is not known. True if the node existed and
    /// the state is `Holding`; for an unknown node, if it was unblocked in the list.
    async fn delete_nodes(&self, claim: &Claim, state: &ClaimState) -> Result<bool> {
        let directory = self.names.directory_of(claim.name());
        let held = match state.node() {
            Some(node) if !node.session.has_ended() => {
                let call = self.sessions.call_in(&node.session)?;
                let existed = call.delete(&format!("{directory}/{}", node.name)).await;
                existed.map(|existed| existed && matches!(state, ClaimState::Holding { .. }))
            }
            _ => own_node::delete_all(&self.sessions.call().await?, &directory, claim.owner()).await,
        };
        held.map_err(ZkError::into_error)
    }
}

#[async_trait]
impl LockBackend for ZooKeeperBackend {
    fn semantics(&self) -> Semantics {
        semantics::semantics(self.sessions.target.timeouts.session)
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        check_size(claim)?;
        let (entry, mut state) = self.claims.lock(claim.owner()).await;
        let is_first = matches!(*state, ClaimState::Absent);
        let mut attempt = self.attempt(claim, &entry, &mut state).await;
        let is_refused = attempt.as_ref().is_err_and(|error| !error.is_outage());
        // The core releases no claim whose first request was refused. A later refusal may pass, and costs a waiter no place.
        if is_first && is_refused && state.session().is_some() {
            match self.delete_nodes(claim, &state).await {
                Ok(_) => *state = ClaimState::Absent,
                Err(error) if error.is_outage() => attempt = Err(error),
                // The node's name has the owner, which stays out of texts.
                Err(refusal) => {
                    let directory = self.names.directory_of(claim.name());
                    let message = format!("a node in {directory} blocks the lock until this session ends");
                    let help = "close this client, and grant the rights to read, create and delete there";
                    attempt = Err(Error::new(refusal.kind(), message).with_help(help).with_source(refusal));
                }
            }
        }
        if matches!(*state, ClaimState::Absent) {
            self.claims.remove(claim.owner());
        }
        attempt.map_err(|error| as_far_as_known(error, &state))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let started_at = SystemClock::new().now();
        join_all(claims.iter().map(|claim| self.renew_one(claim, started_at))).await
    }

    async fn release(&self, claim: &Claim, _linger: Duration) -> Result<Release> {
        let (_, mut state) = self.claims.lock(claim.owner()).await;
        // The servers have ended the session, or will once they have a leader: nothing keeps it alive.
        let has_none = || state.session().map_or_else(|| self.sessions.have_expired(), |it| it.has_expired());
        let deleted = match self.stall_timeout.limited(&self.releases, self.delete_nodes(claim, &state)).await
        {
            Err(error) if error.is_outage() && has_none() => Ok(false),
            deleted => deleted.map_err(|error| as_far_as_known(error, &state)),
        };
        if deleted.is_ok() {
            *state = ClaimState::Absent;
        }
        if matches!(*state, ClaimState::Absent) {
            self.claims.remove(claim.owner());
        }
        Ok(if deleted? { Release::Released } else { Release::NotHeld })
    }

    /// When the blocker or the session has gone; after a pause, if nothing would tell.
    async fn changed(&self, claim: &Claim) {
        match self.claims.get(claim.owner()) {
            Some(entry) => entry.notifier.changed().await,
            None => Box::pin(tokio::time::sleep(retry_pause())).await,
        }
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        self.claims.suspects.take().await
    }

    fn servers(&self) -> Option<&KnownServers> {
        Some(&self.sessions.ensemble.servers)
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.sessions.close().await
    }
}

/// "Certainly not done" and "perhaps done" are told apart by what may be in the store, not by the request that failed.
fn as_far_as_known(error: Error, state: &ClaimState) -> Error {
    match (error.is_outage(), state) {
        (false, _) => error,
        (true, ClaimState::Absent) => error.with_kind(ErrorKind::Unavailable),
        (true, _) => error.with_kind(ErrorKind::Indeterminate),
    }
}

/// A server closes the connection, and with it every lock of the session, at a request that is too long. The core sends no such request.
fn check_size(claim: &Claim) -> Result<()> {
    let (size, most) = (claim.holder().len(), HolderInfo::MAX_BYTES);
    if size <= most {
        return Ok(());
    }
    let problem = format_args!("{size} bytes, limit {most}");
    Err(Error::invalid("holder", problem, "shorten its description"))
}
