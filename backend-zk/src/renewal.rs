//! Renewal: one proof of the session for all that is held by it, and a look at those whose nodes have been touched.

use crate::bell::Bell;
use crate::contenders::Queue;
use crate::names::Names;
use crate::node::Node;
use crate::place::{Place, Places};
use crate::session::{Session, Sessions, Trouble, Turn, Whose};
use crate::standing::Standing;
use futures_util::future::join_all;
use leasehold_core::{Claim, Error, ErrorKind, LossCause, Renewal, Result};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Answers for each claim.
///
/// The server keeps no time for a node, so there is nothing to extend: a hold lasts as long as the session does and the
/// node is there. The first is proved, once for all; of the second the server tells by itself, or it is looked at where
/// there are too many to be told of.
pub(crate) async fn renew(
    sessions: &Sessions,
    names: &Names,
    places: &Places,
    claims: &[Claim],
) -> Vec<Result<Renewal>> {
    let round = Round { sessions, names, places, proof: OnceCell::new() };
    if let Some(session) = claims.iter().find_map(|claim| round.session_of(claim)) {
        // What comes of it is kept.
        let _ = round.prove(&session).await;
    }
    // A future for each would be as large as all else that is kept for a hold.
    let mut answers: Vec<_> = claims.iter().map(|claim| round.at_once(claim)).collect();
    let unanswered = claims.iter().zip(&mut answers).filter(|(_, answer)| answer.is_none());
    let looks = unanswered.map(|(claim, answer)| async { *answer = Some(round.renew(claim).await) });
    join_all(looks).await;
    answers.into_iter().flatten().collect()
}

struct Round<'a> {
    sessions: &'a Sessions,
    names: &'a Names,
    places: &'a Places,
    /// What came of the proof, and of which session.
    proof: OnceCell<(i64, Result<()>)>,
}

impl Round<'_> {
    /// The session of the node by which it holds, unless a call for this claim is under way.
    fn session_of(&self, claim: &Claim) -> Option<Arc<Session>> {
        let place = self.places.of(claim.owner())?;
        let standing = place.standing.try_lock()?;
        standing.session().cloned()
    }

    /// The answer, if nothing is to be waited for.
    fn at_once(&self, claim: &Claim) -> Option<Result<Renewal>> {
        let Some(place) = self.places.of(claim.owner()) else {
            return Some(Ok(Renewal::Lost(LossCause::Gone)));
        };
        let standing = place.standing.try_lock()?;
        let (proved, answer) = self.proof.get()?;
        let session = standing.session()?;
        if *proved == session.id() { known(&standing, &place.bell, answer.clone()) } else { None }
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let Some(place) = self.places.of(claim.owner()) else {
            return Ok(Renewal::Lost(LossCause::Gone));
        };
        let mut standing = place.standing.lock().await;
        let Standing::First { session, node, .. } = &*standing else {
            return Ok(Renewal::Lost(LossCause::Gone));
        };
        let (session, node) = (Arc::clone(session), node.clone());
        let proved = self.prove(&session).await;
        if let Some(answer) = known(&standing, &place.bell, proved) {
            return answer;
        }
        let directory = self.names.directory_of(claim.name());
        let turn = self.sessions.turn_of(&session)?;
        look_again(&turn, &directory, &node, &place, &mut standing).await
    }

    /// Proves the session, once in a round, and once for all rounds that come while another is asking.
    async fn prove(&self, session: &Arc<Session>) -> Result<()> {
        let (proved, answer) =
            self.proof.get_or_init(|| async { (session.id(), self.ask(session).await) }).await;
        // Holds of an earlier session are in the same round only if that one is over.
        if *proved == session.id() { answer.clone() } else { self.ask(session).await }
    }

    async fn ask(&self, session: &Arc<Session>) -> Result<()> {
        if !session.is_connected() {
            // At once: the holder is at risk now, and asks again soon.
            return Err(Error::new(ErrorKind::Unavailable, "the connection to ZooKeeper is lost")
                .with_help("the library is connecting anew; look at the ensemble and at the network"));
        }
        self.sessions.turn_of(session)?.prove_with_others().await.map_err(Trouble::of_read)
    }
}

/// What follows from the proof of its session; `None` if its node has to be looked at, which was touched, or of which nobody
/// would have told.
fn known(standing: &Standing, bell: &Bell, proved: Result<()>) -> Option<Result<Renewal>> {
    let Standing::First { session, listening, .. } = standing else {
        return Some(Ok(Renewal::Lost(LossCause::Gone)));
    };
    match proved {
        // Told by the server, or found out by the library, which is later.
        Err(_) if session.is_over() => Some(Ok(Renewal::Lost(LossCause::SessionOver))),
        Err(error) => Some(Err(error)),
        Ok(()) if bell.has_fired() || listening.is_look_due() => None,
        Ok(()) => Some(Ok(Renewal::Renewed)),
    }
}

/// Looks at the node, and listens again.
async fn look_again(
    turn: &Turn,
    directory: &str,
    node: &Node,
    place: &Arc<Place>,
    standing: &mut Standing,
) -> Result<Renewal> {
    let looking = Looking(&place.bell);
    match turn.read_and_watch(&format!("{directory}/{node}"), Whose::Own, place).await {
        Ok((stat, listening)) if stat.ephemeral_owner == turn.session().id() => {
            looking.has_found();
            let session = Arc::clone(turn.session());
            *standing = Standing::First { session, node: node.clone(), listening };
            Ok(Renewal::Renewed)
        }
        Ok(_) | Err(Trouble::NoNode) => Ok(Renewal::Lost(why_gone(turn, directory).await)),
        Err(trouble) => Err(trouble.of_read()),
    }
}

/// A look at one's own node. It begins by forgetting what was heard of it, so one that has not found it, or is dropped
/// half-way with the runtime of its call, leaves the next renewal to look again.
struct Looking<'a>(&'a Bell);

impl Looking<'_> {
    fn has_found(self) {
        std::mem::forget(self);
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.fire();
    }
}

/// Whether somebody else holds the lock already.
async fn why_gone(turn: &Turn, directory: &str) -> LossCause {
    match turn.list(directory).await.map(Queue::of) {
        Ok(queue) if queue.first().is_some() => LossCause::Taken,
        _ => LossCause::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;
    use futures_util::FutureExt;
    use leasehold_core::OwnerId;
    use leasehold_store_url::StoreUrl;
    use leasehold_test_stores::servers::ZooKeeperServer;
    use std::pin::pin;
    use zookeeper_client::{Acls, CreateMode};

    #[tokio::test]
    async fn a_look_that_is_dropped_or_finds_nothing_leaves_the_next_renewal_to_look() {
        let server = ZooKeeperServer::start().unwrap();
        let target = Target::of(&StoreUrl::parse(&server.url()).unwrap()).unwrap();
        let turn = Sessions::new(target, Arc::default()).turn().await.unwrap();
        turn.make("/job", CreateMode::Persistent, Acls::anyone_all()).await.unwrap();
        turn.make("/job/node", CreateMode::Ephemeral, Acls::anyone_all()).await.unwrap();
        let place = Arc::new(Place::of(OwnerId::from_u128(7), &Arc::default()));
        let (node, mut standing) = (Node::from("node"), Standing::Nowhere);

        server.pause();
        place.bell.fire();
        let dropped = {
            let mut look = pin!(look_again(&turn, "/job", &node, &place, &mut standing));
            look.as_mut().now_or_never()
        };
        server.resume();
        assert!(dropped.is_none());
        assert!(place.bell.has_fired(), "the watch is spent, and nobody would look any more");

        let found = look_again(&turn, "/job", &node, &place, &mut standing).await;
        assert_eq!(found.unwrap(), Renewal::Renewed);
        assert!(!place.bell.has_fired());

        turn.delete("/job/node").await.unwrap();
        for _ in 0..2 {
            let gone = look_again(&turn, "/job", &node, &place, &mut standing).await;
            assert_eq!(gone.unwrap(), Renewal::Lost(LossCause::Gone));
            assert!(place.bell.has_fired(), "it may be asked once more");
        }
    }
}
