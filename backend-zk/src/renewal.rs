//! Renewal: one proof of the session for all that is held by it, and a look at those whose nodes have been touched.

use crate::bell::Bell;
use crate::contenders::Queue;
use crate::names::Names;
use crate::node::Node;
use crate::place::{Places, Standing};
use crate::session::{Session, Sessions, Trouble, Turn, Whose};
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
    let round = Round { sessions, names, proof: OnceCell::new() };
    join_all(claims.iter().map(|claim| round.renew(places, claim))).await
}

struct Round<'a> {
    sessions: &'a Sessions,
    names: &'a Names,
    /// What came of the proof, and of which session.
    proof: OnceCell<(i64, Result<()>)>,
}

impl Round<'_> {
    async fn renew(&self, places: &Places, claim: &Claim) -> Result<Renewal> {
        let Some(place) = places.of(claim.owner()) else {
            return Ok(Renewal::Lost(LossCause::Gone));
        };
        let mut standing = place.standing.lock().await;
        let Standing::First { session, node, listening } = &*standing else {
            return Ok(Renewal::Lost(LossCause::Gone));
        };
        let (session, node, is_look_due) = (Arc::clone(session), node.clone(), listening.is_look_due());
        if let Err(error) = self.prove(&session).await {
            // Told by the server, or found out by the library, which is later.
            return if session.is_over() { Ok(Renewal::Lost(LossCause::SessionOver)) } else { Err(error) };
        }
        if !place.bell.has_fired() && !is_look_due {
            return Ok(Renewal::Renewed);
        }
        let directory = self.names.directory_of(claim.name());
        let turn = self.sessions.turn_of(&session)?;
        look_again(&turn, &directory, &node, &place.bell, &mut standing).await
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

/// The node was touched or deleted, or nobody would have told. Listens again.
async fn look_again(
    turn: &Turn,
    directory: &str,
    node: &Node,
    bell: &Arc<Bell>,
    standing: &mut Standing,
) -> Result<Renewal> {
    let looking = Looking(bell);
    match turn.read_and_watch(&format!("{directory}/{node}"), Whose::Own, bell).await {
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
    use leasehold_conformance::servers::ZooKeeperServer;
    use leasehold_core::{OwnerId, StoreUrl};
    use std::pin::pin;
    use zookeeper_client::{Acls, CreateMode};

    #[tokio::test]
    async fn a_look_that_is_dropped_or_finds_nothing_leaves_the_next_renewal_to_look() {
        let server = ZooKeeperServer::start().unwrap();
        let target = Target::of(&StoreUrl::parse(&server.url()).unwrap()).unwrap();
        let turn = Sessions::new(target, Arc::default()).turn().await.unwrap();
        turn.make("/job", CreateMode::Persistent, Acls::anyone_all()).await.unwrap();
        turn.make("/job/node", CreateMode::Ephemeral, Acls::anyone_all()).await.unwrap();
        let bell = Arc::new(Bell::new(OwnerId::from_u128(7), &Arc::default()));
        let (node, mut standing) = (Node::from("node"), Standing::Nowhere);

        server.pause();
        bell.fire();
        let dropped = {
            let mut look = pin!(look_again(&turn, "/job", &node, &bell, &mut standing));
            look.as_mut().now_or_never()
        };
        server.resume();
        assert!(dropped.is_none());
        assert!(bell.has_fired(), "the watch is spent, and nobody would look any more");

        let found = look_again(&turn, "/job", &node, &bell, &mut standing).await;
        assert_eq!(found.unwrap(), Renewal::Renewed);
        assert!(!bell.has_fired());

        turn.delete("/job/node").await.unwrap();
        for _ in 0..2 {
            let gone = look_again(&turn, "/job", &node, &bell, &mut standing).await;
            assert_eq!(gone.unwrap(), Renewal::Lost(LossCause::Gone));
            assert!(bell.has_fired(), "it may be asked once more");
        }
    }
}
