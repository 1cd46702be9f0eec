//! Steps 1 and 2.

use super::{Known, Own, Recipe, none_if_gone, token};
use crate::contenders::prefix_of;
use crate::node::Node;
use crate::session::{Outcome, Trouble, Whose};
use crate::standing::Standing;
use leasehold_core::{Clock, Moment, SystemClock};
use std::sync::Arc;

/// How often a directory that somebody else deletes is made again.
const MAKINGS: usize = 5;

/// How the line is known after a node was made.
enum Line {
    Listed(Outcome<Vec<String>>),
    /// By the number of the node. The request was sent by then.
    AsNumbered {
        sent: Moment,
    },
}

impl Recipe<'_> {
    /// The line, with the claim in it unless somebody has taken it out.
    pub(super) async fn first_look(&self, standing: &mut Standing) -> Outcome<(Vec<String>, Option<Own>)> {
        match &*standing {
            Standing::Nowhere => self.stand(standing).await,
            Standing::Behind(behind) if behind.session.id() == self.turn.session().id() => {
                // Its turn has probably come: what it will want to know is asked for in the same breath.
                let node = behind.nodes.own(self.claim.owner()).to_string();
                let path = self.path(&node);
                let (children, read) =
                    tokio::join!(self.list(), self.turn.read_and_watch(&path, Whose::Own, self.place));
                let known = |(stat, listening)| Own { node, how: Known::Read(stat, listening) };
                Ok((children?, read.ok().map(known)))
            }
            _ => Ok((self.list().await?, None)),
        }
    }

    /// Step 1 and 2, in one go. Of the line, no more may be answered than the claim and who is in front of it.
    pub(super) async fn stand(&self, standing: &mut Standing) -> Outcome<(Vec<String>, Option<Own>)> {
        let (prefix, data) = (prefix_of(self.claim.owner()), self.claim.holder().as_bytes());
        for _ in 0..MAKINGS {
            // Before the request: whatever happens to it, and to us, it may have been applied.
            self.stands(standing, Standing::Unsure { session: Arc::clone(self.turn.session()) });
            let acls = self.access.of_contenders();
            let (made, line) = if self.may_follow() {
                let made = self.turn.stand(self.directory, &prefix, data, acls);
                let (made, sent) = tokio::join!(biased; made, async { SystemClock::new().now() });
                (made, Line::AsNumbered { sent })
            } else {
                let (made, listed) = self.turn.stand_and_list(self.directory, &prefix, data, acls).await;
                (made, Line::Listed(listed))
            };
            match made {
                Ok((node, stat)) => {
                    let children = match line {
                        Line::Listed(listed) => listed,
                        Line::AsNumbered { sent } => self.those_in_front(&node, sent).await,
                    };
                    if let Err(Trouble::Refused(_)) = &children {
                        // It can be taken back now, while its name is known, and never by who must list the line for it.
                        self.delete(&node).await?;
                        self.stands(standing, Standing::Nowhere);
                    }
                    return Ok((children?, Some(Own { node, how: Known::Made(token(&stat)) })));
                }
                Err(Trouble::NoNode) => {
                    self.stands(standing, Standing::Nowhere);
                    self.parents.make_lock(self.turn, self.directory).await?;
                }
                // Applied or not: the list will tell, as soon as there is a connection again.
                Err(unknown @ Trouble::Unknown(_)) => {
                    self.place.bell.doubts();
                    let listed = self.turn.prove_and_list(self.directory).await;
                    return listed.map(|children| (children, None)).map_err(|_| unknown);
                }
                Err(refused) => {
                    self.stands(standing, Standing::Nowhere);
                    return Err(refused);
                }
            }
        }
        Err(Trouble::NoNode)
    }

    /// A node that was made by a request that was sent by then, and at least the one in front of it. The line need not be
    /// listed if that is of this process: numbers are given one after the other, so nobody is between two nodes of which one
    /// has the next.
    ///
    /// In one directory, that is. In one that was made anew it would be another's number. So the one in front must not have
    /// begun to leave before: then its delete comes after this node was made, and if it finds a node, then in the same
    /// directory.
    async fn those_in_front(&self, node: &str, sent: Moment) -> Outcome<Vec<String>> {
        match self.last_of_this_process() {
            Some(last) if last.is_followed_by(node) && !self.places.has_left(&last, sent) => {
                Ok(vec![last.to_string(), node.to_owned()])
            }
            _ => none_if_gone(self.turn.list_as_seen(self.directory).await),
        }
    }

    /// False if the line will have to be listed, which is asked for in the same breath then.
    fn may_follow(&self) -> bool {
        let last = self.last_of_this_process();
        last.is_some_and(|last| !self.places.has_left(&last, SystemClock::new().now()))
    }

    /// None if there are, or may be, more nodes of this claim than that it is making: which only the whole line shows.
    fn last_of_this_process(&self) -> Option<Node> {
        let last = if self.place.bell.is_doubted() { None } else { self.places.last_of(self.claim.name()) };
        last.filter(|last| !last.is_of(self.claim.owner()))
    }

    /// Step 2, with a proof of the session.
    async fn list(&self) -> Outcome<Vec<String>> {
        none_if_gone(self.turn.prove_and_list(self.directory).await)
    }

    pub(super) async fn is_of_this_session(&self, node: &str) -> Outcome<bool> {
        match self.turn.read(&self.path(node)).await {
            Ok((_, stat)) => Ok(stat.ephemeral_owner == self.turn.session().id()),
            Err(Trouble::NoNode) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }
}
