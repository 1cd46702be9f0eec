use crate::bell::Leaving;
use crate::crowd::Crowd;
use crate::names::Names;
use crate::news::News;
use crate::parents::Parents;
use crate::place::{Place, Places};
use crate::recipe::{self, Recipe};
use crate::session::{Sessions, Trouble};
use crate::standing::Standing;
use crate::target::Target;
use crate::{renewal, semantics};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use leasehold_core::{
    Attempt, Claim, Clock, Error, ErrorKind, HolderInfo, LockAdmin, LockBackend, Namespace, OwnerId, Release,
    Renewal, Result, Semantics, SystemClock,
};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How many attempts are under way at once. Each may list a line of thousands, which is hundreds of kilobytes on the one
/// connection: more at once would all be late together, and list again.
const ATTEMPTS_AT_ONCE: usize = 32;
/// How long a waiter that nobody can tell anything waits before it asks again, at least, in milliseconds: with jitter,
/// because all waiters of a process that lose their store lose it together.
const ASK_AGAIN_MILLIS: std::ops::Range<u64> = 100..400;

/// Locks on a ZooKeeper ensemble.
///
/// One session serves all locks; it is made when it is first needed, and made anew when it is over.
#[derive(Debug)]
pub struct ZooKeeperBackend {
    pub(crate) sessions: Sessions,
    pub(crate) names: Names,
    pub(crate) parents: Parents,
    places: Arc<Places>,
    crowd: Crowd,
}

impl ZooKeeperBackend {
    /// A backend for the ensemble at `url`. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for what is wrong with the URL;
    /// [`Misconfigured`](ErrorKind::Misconfigured) if the URL asks for TLS and this build has none.
    pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Self> {
        let target = Target::of(url)?;
        let places = Arc::new(Places::default());
        let crowd = Crowd::new(ATTEMPTS_AT_ONCE, target.timeouts.request);
        Ok(Self {
            names: Names::new(target.base.clone(), namespace.clone()),
            parents: Parents::new(target.access),
            sessions: Sessions::new(target, Arc::clone(&places)),
            places,
            crowd,
        })
    }

    async fn attempt(&self, claim: &Claim, place: &Arc<Place>, standing: &mut Standing) -> Result<Attempt> {
        let asked = SystemClock::new().now();
        // Without a session nothing is asked; what an earlier attempt has left stays as it is.
        let known = |error| as_far_as_known(error, standing);
        let session = Arc::clone(self.sessions.turn().await.map_err(known)?.session());
        let Some(asking) = self.crowd.enter().await else {
            return Err(known(too_many(self.sessions.target().timeouts.request)));
        };
        let turn = self.sessions.turn_of(&session).map_err(known)?;
        let directory = self.names.directory_of(claim.name());
        let recipe = Recipe {
            turn: &turn,
            parents: &self.parents,
            access: self.sessions.target().access,
            directory: &directory,
            claim,
            place,
            places: &self.places,
            asked,
        };
        let attempt = recipe.attempt(standing).await.map_err(Trouble::into_error);
        if !attempt.as_ref().is_err_and(Error::is_outage) {
            asking.was_answered();
        }
        let trouble = match attempt {
            Ok(attempt) => return Ok(attempt),
            Err(trouble) => trouble,
        };
        if !trouble.is_outage() && !matches!(standing, Standing::Nowhere) {
            // Whoever is refused does not come back to take its node away.
            let left = recipe::leave(&turn, &directory, claim.owner()).await;
            left.map_err(|trouble| as_far_as_known(trouble.into_error(), standing))?;
            *standing = Standing::Nowhere;
        }
        Err(as_far_as_known(trouble, standing))
    }

    /// True if no claim that stands so has a node, though there is no session to look with: that of its node ends with the node,
    /// if it has not, and without a session there has been none. Nobody need come back for it.
    fn has_no_node(&self, standing: &Standing) -> bool {
        match standing.session() {
            Some(session) => session.is_long_over(),
            None => self.sessions.are_all_long_over(),
        }
    }

    /// Deletes the claim's node or nodes. True if one of them held the lock.
    async fn withdraw(&self, claim: &Claim, leaving: &Leaving<'_>, standing: &Standing) -> Result<bool> {
        let directory = self.names.directory_of(claim.name());
        let (turn, left) = match standing.node(claim.owner()) {
            Some((session, node)) if !session.is_over() && !leaving.bell().is_doubted() => {
                let turn = self.sessions.turn_of(session)?;
                let left = if matches!(standing, Standing::First { .. }) {
                    recipe::hand_over(&turn, &directory, &node, leaving).await
                } else {
                    recipe::delete(&turn, &format!("{directory}/{node}")).await.map(|_| false)
                };
                (turn, left)
            }
            _ => {
                let turn = self.sessions.turn().await?;
                let left = recipe::leave(&turn, &directory, claim.owner()).await;
                (turn, left)
            }
        };
        let held = left.map_err(Trouble::into_error)?;
        self.parents.tidy(&turn, &directory).await;
        Ok(held)
    }
}

#[async_trait]
impl LockBackend for ZooKeeperBackend {
    fn semantics(&self) -> Semantics {
        semantics::semantics(self.sessions.target().timeouts.session)
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        check_size(claim)?;
        loop {
            let place = self.places.enter(claim.owner());
            let mut standing = place.standing.lock().await;
            if !self.places.has(&place) {
                // Another call for this claim has found meanwhile that it has no node, and forgotten the place.
                continue;
            }
            let attempt = self.attempt(claim, &place, &mut standing).await;
            place.bell.stands(&standing);
            if matches!(*standing, Standing::Nowhere) {
                self.places.leave(claim);
            }
            return attempt;
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        renewal::renew(&self.sessions, &self.names, &self.places, claims).await
    }

    async fn release(&self, claim: &Claim, _linger: Duration) -> Result<Release> {
        loop {
            let place = self.places.enter(claim.owner());
            let mut standing = place.standing.lock().await;
            if !self.places.has(&place) {
                continue;
            }
            let leaving = place.bell.gives_back();
            let held = match self.withdraw(claim, &leaving, &standing).await {
                Ok(held) => held,
                Err(error) if error.is_outage() && self.has_no_node(&standing) => false,
                Err(error) => return Err(as_far_as_known(error, &standing)),
            };
            drop(leaving);
            *standing = Standing::Nowhere;
            self.places.leave(claim);
            return Ok(if held { Release::Released } else { Release::NotHeld });
        }
    }

    /// Until the node in front goes, or the session, or there is a connection again to ask by; a while, where nobody tells.
    ///
    /// No async function: it would keep room for a timer while it waits for the bell.
    fn changed<'a: 'c, 'b: 'c, 'c>(&'a self, claim: &'b Claim) -> BoxFuture<'c, ()> {
        let a_moment = || Duration::from_millis(fastrand::u64(ASK_AGAIN_MILLIS));
        let place = self.places.of(claim.owner());
        match place.map(|place| (place.news(), place)) {
            None | Some((News::Never, _)) => Box::pin(sleep(a_moment())),
            Some((News::Told, place)) => Box::pin(place.changed()),
            Some((News::LooksAfter(pause), place)) => Box::pin(async move {
                let _ = timeout(pause.max(a_moment()), place.changed()).await;
            }),
        }
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        self.places.suspects().await
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    async fn close(&self) -> Result<()> {
        self.sessions.close().await
    }
}

/// "Certainly not done" and "perhaps done" are told apart by what may be left in the store, not by which request failed.
fn as_far_as_known(error: Error, standing: &Standing) -> Error {
    match (error.is_outage(), standing) {
        (false, _) => error,
        (true, Standing::Nowhere) => error.with_kind(ErrorKind::Unavailable),
        (true, _) => error.with_kind(ErrorKind::Indeterminate),
    }
}

fn too_many(patience: Duration) -> Error {
    let message =
        format!("{ATTEMPTS_AT_ONCE} other attempts of this process have had no answer for {patience:?}");
    Error::new(ErrorKind::Unavailable, message)
        .with_help("look at how slow the ensemble is, or wait longer: timeout")
}

/// Above a megabyte the server drops the connection instead of answering, and with it every lock of the session. A client
/// sends no more than this; whoever calls the backend itself might.
fn check_size(claim: &Claim) -> Result<()> {
    let (size, most) = (claim.holder().len(), HolderInfo::MAX_BYTES);
    if size <= most {
        return Ok(());
    }
    let problem = format_args!("{size} bytes, limit {most}");
    Err(Error::invalid("holder", problem, "shorten its description"))
}
