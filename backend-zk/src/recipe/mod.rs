//! The lock recipe, all of it.
//!
//! 1. Stand in line: create an ephemeral node, to which the server adds the next number, named after the owner.
//! 2. List the line. Whoever has the lowest number holds the lock.
//! 3. Anybody else watches the node directly in front of its own, and no other, by the read that finds it there: a
//!    release wakes one waiter, however many there are.
//!    Of a claim of the same process it hears [from that claim](crate::follower), and watches its own node instead.
//! 4. When it fires, list again. Who was in front may have left without ever having held the lock. A claim of the same process says
//!    whether it had.
//! 5. To leave, delete the node.
//!
//! Three things go wrong with it, each in a lock that people have used for years:
//!
//! * The reply to step 1 is lost. The node is then found by its owner, and not made twice (ZooKeeper, *Recipes*).
//! * The node is that of an earlier session, which the server is about to end. So a node is believed in only if it
//!   belongs to this session (CURATOR-604, CURATOR-696: two owners).
//! * The session has ended while the waiter waited, and it does not know yet: a server that is cut off from its leader
//!   would show its node in front for ever (etcd #11456). So whoever comes first believes that from the sending of the
//!   last request that the leader has answered. If that was long ago, the server has first to hear from its leader.

mod leaving;
mod turn_has_come;

pub(crate) use leaving::{delete, leave};

use crate::acl::Access;
use crate::bell::Bell;
use crate::contenders::{Queue, prefix_of};
use crate::node::Node;
use crate::parents::Parents;
use crate::place::{Hears, Place, Places, Standing, Stood};
use crate::session::{Listening, Outcome, Trouble, Turn};
use leasehold_core::{Attempt, Busy, Claim, FencingToken};
use std::sync::Arc;
use tokio::time::Instant;
use zookeeper_client::Stat;

/// How often a line that changes while it is looked at is looked at again. A line that changes faster moves.
const ROUNDS: usize = 16;
/// How often a directory that somebody else deletes is made again.
const MAKINGS: usize = 5;

/// One attempt of one claim.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) parents: &'a Parents,
    pub(crate) access: Access,
    /// The directory of the lock.
    pub(crate) directory: &'a str,
    pub(crate) claim: &'a Claim,
    pub(crate) bell: &'a Arc<Bell>,
    /// The claims of this process.
    pub(crate) places: &'a Places,
    /// When the attempt was begun, before anything was asked.
    pub(crate) asked: Instant,
}

/// The claim's own node, as far as it is known. One of another name may be that of an earlier session.
#[derive(Debug)]
struct Own {
    node: String,
    how: Known,
}

/// How a node is known.
#[derive(Debug)]
enum Known {
    /// It is of this session.
    Sure,
    /// It was made just now, by the transaction of this number.
    Made(FencingToken),
    /// It was read just now, and is listened to.
    Read(Stat, Listening),
}

impl Own {
    /// True if nothing can have been heard of it. Of one that was read, the watch may have fired, and the bell been told since to
    /// listen to another.
    fn was_made_just_now(&self) -> bool {
        matches!(self.how, Known::Made(_))
    }
}

impl Recipe<'_> {
    /// Looks where the claim stands, and makes it stand in line if it does not. `standing` is always at least as much as
    /// the store may have.
    pub(crate) async fn attempt(&self, standing: &mut Standing) -> Outcome<Attempt> {
        if matches!(standing, Standing::Unsure { .. }) {
            self.bell.doubts();
        }
        if let Some(grant) = self.is_handed_over(standing) {
            return Ok(Attempt::Granted(grant));
        }
        if self.is_still_behind(standing).await? {
            return Ok(busy());
        }
        if let Some(grant) = self.has_come_first(standing).await? {
            return Ok(Attempt::Granted(grant));
        }
        let (mut children, mut own) = self.first_look(standing).await?;
        for _ in 0..ROUNDS {
            let queue = Queue::of(children);
            let places = queue.places_of(self.claim.owner());
            own = own.filter(|own| *places == [queue.place_of(&own.node)]);
            match *places {
                [] => {
                    (children, own) = self.stand(standing).await?;
                    continue;
                }
                [0] => {
                    if let Some(grant) = self.believe(standing, queue.node(0), own).await? {
                        return Ok(Attempt::Granted(grant));
                    }
                    own = None;
                }
                [mine] => {
                    let (node, before) = (queue.node(mine).to_owned(), queue.node(mine - 1).to_owned());
                    // What stays is not to lie in memory behind a line of thousands.
                    drop(queue);
                    let stood = self.stood(own.as_ref());
                    if own.as_ref().is_some_and(Own::was_made_just_now) {
                        let node = Node::from(node.as_str());
                        self.bell.leads_with(node.number());
                        self.places.stands_last(self.claim, node);
                    }
                    if own.is_none() && !self.is_of_this_session(&node).await? {
                        self.delete(&node).await?;
                    } else if self.follow(standing, &node, &before, stood).await? {
                        let granted = self.is_handed_over(standing);
                        return Ok(granted.map_or_else(busy, Attempt::Granted));
                    } else if self.watch(standing, &node, &before, stood).await? {
                        return Ok(busy());
                    } else {
                        own = Some(
                            own.filter(Own::was_made_just_now).unwrap_or(Own { node, how: Known::Sure }),
                        );
                    }
                }
                // A second one, made by a request of an earlier session: it is ours, and would stand in our own way.
                [.., last] => {
                    own = None;
                    self.delete(queue.node(last)).await?;
                }
            }
            // The leader has answered this attempt already.
            children = none_if_gone(self.turn.list_as_seen(self.directory).await)?;
        }
        self.bell.fire();
        Ok(busy())
    }

    /// The line, with the claim in it unless somebody has taken it out.
    async fn first_look(&self, standing: &mut Standing) -> Outcome<(Vec<String>, Option<Own>)> {
        match &*standing {
            Standing::Nowhere => self.stand(standing).await,
            Standing::Behind { session, node, .. } if session.id() == self.turn.session().id() => {
                // Its turn has probably come: what it will want to know is asked for in the same breath.
                let node = node.to_string();
                let path = self.path(&node);
                let (children, read) = tokio::join!(self.list(), self.turn.read_and_watch(&path, self.bell));
                let known = |(stat, listening)| Own { node, how: Known::Read(stat, listening) };
                Ok((children?, read.ok().map(known)))
            }
            _ => Ok((self.list().await?, None)),
        }
    }

    /// Step 1 and 2, in one go. Of the line, no more may be answered than the claim and who is in front of it.
    async fn stand(&self, standing: &mut Standing) -> Outcome<(Vec<String>, Option<Own>)> {
        let (prefix, data) = (prefix_of(self.claim.owner()), self.claim.holder().as_bytes());
        for _ in 0..MAKINGS {
            // Before the request: whatever happens to it, and to us, it may have been applied.
            self.stands(standing, Standing::Unsure { session: Arc::clone(self.turn.session()) });
            let acls = self.access.of_contenders();
            let (made, listed) = if self.places.last_of(self.claim.name()).is_some() {
                (self.turn.stand(self.directory, &prefix, data, acls).await, None)
            } else {
                let (made, listed) = self.turn.stand_and_list(self.directory, &prefix, data, acls).await;
                (made, Some(listed))
            };
            match made {
                Ok((node, stat)) => {
                    let children = match listed {
                        Some(listed) => listed?,
                        None => self.those_in_front(&node).await?,
                    };
                    return Ok((children, Some(Own { node, how: Known::Made(token(&stat)) })));
                }
                Err(Trouble::NoNode) => {
                    self.stands(standing, Standing::Nowhere);
                    self.parents.make_lock(self.turn, self.directory).await?;
                }
                // Applied or not: the list will tell, as soon as there is a connection again.
                Err(unknown @ Trouble::Unknown(_)) => {
                    self.bell.doubts();
                    let listed = self.turn.list(self.directory).await;
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

    /// A node that was made just now, and at least the one in front of it. The line need not be listed if that is of this process: numbers are
    /// given one after the other, so nobody is between two nodes of which one has the next.
    async fn those_in_front(&self, node: &str) -> Outcome<Vec<String>> {
        match self.places.last_of(self.claim.name()) {
            Some(last) if last.is_followed_by(node) => Ok(vec![last.to_string(), node.to_owned()]),
            _ => none_if_gone(self.turn.list_as_seen(self.directory).await),
        }
    }

    /// Step 2, with a word of the leader.
    async fn list(&self) -> Outcome<Vec<String>> {
        none_if_gone(self.turn.list(self.directory).await)
    }

    /// Step 3 where the node in front is of a claim of this process, which tells when it is gone. False if it is not, or
    /// cannot.
    async fn follow(
        &self,
        standing: &mut Standing,
        node: &str,
        before: &str,
        stood: Option<Stood>,
    ) -> Outcome<bool> {
        let (before, session) = (Node::from(before), self.turn.session());
        let (Some(Stood { made, .. }), Some((ahead, number))) = (stood, self.of_this_process(&before)) else {
            return Ok(false);
        };
        // First, so that neither the word of that claim is missed nor that of the watch.
        self.bell.listen();
        if self.bell.is_doubted() || !self.bell.follow(&ahead.bell, session.id(), number, made) {
            return Ok(false);
        }
        let own = match self.turn.read_and_watch_as_well(&self.path(node), self.bell).await {
            Err(Trouble::NoNode) => return Ok(false),
            Ok((stat, _)) if token(&stat) != made => return Ok(false),
            read => read?.1,
        };
        let (session, node, hears) = (Arc::clone(session), node.into(), Hears::OfThatClaim { own });
        self.stands(standing, Standing::Behind { session, node, before, stood, hears });
        Ok(true)
    }

    fn of_this_process(&self, node: &Node) -> Option<(Arc<Place>, i32)> {
        let (owner, number) = node.numbered()?;
        self.places.of(owner).map(|place| (place, number))
    }

    /// Step 3. False if nobody is in front any more.
    async fn watch(
        &self,
        standing: &mut Standing,
        node: &str,
        before: &str,
        stood: Option<Stood>,
    ) -> Outcome<bool> {
        let listening = match self.turn.read_and_watch(&self.path(before), self.bell).await {
            Err(Trouble::NoNode) => return Ok(false),
            read => read?.1,
        };
        let session = Arc::clone(self.turn.session());
        let (node, before) = (node.into(), before.into());
        let hears = Hears::Itself { _listening: listening };
        self.stands(standing, Standing::Behind { session, node, before, stood, hears });
        Ok(true)
    }

    /// Asked again although nothing was heard: looks only whether the node in front is still there. The line is not listed
    /// for it, which in a line of thousands would be megabytes for each of thousands.
    async fn is_still_behind(&self, standing: &mut Standing) -> Outcome<bool> {
        let Standing::Behind { session, node, before, stood, hears } = standing else {
            return Ok(false);
        };
        if self.bell.has_fired() || session.id() != self.turn.session().id() {
            return Ok(false);
        }
        // The leader is not asked.
        if let Some(stood) = stood {
            stood.asked = None;
        }
        let (node, before) = (node.to_string(), before.to_string());
        match hears {
            Hears::Itself { .. } => {
                let stood = *stood;
                self.watch(standing, &node, &before, stood).await
            }
            Hears::OfThatClaim { .. } => match self.turn.read(&self.path(&before)).await {
                Err(Trouble::NoNode) => Ok(false),
                read => read.map(|_| true),
            },
        }
    }

    async fn is_of_this_session(&self, node: &str) -> Outcome<bool> {
        match self.turn.read(&self.path(node)).await {
            Ok((_, stat)) => Ok(stat.ephemeral_owner == self.turn.session().id()),
            Err(Trouble::NoNode) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    async fn delete(&self, node: &str) -> Outcome<()> {
        delete(self.turn, &self.path(node)).await.map(drop)
    }

    fn path(&self, node: &str) -> String {
        format!("{}/{node}", self.directory)
    }

    fn stands(&self, standing: &mut Standing, now: Standing) {
        *standing = now;
        self.bell.stands(standing);
    }
}

/// Where there is no directory, nobody stands.
fn none_if_gone(listed: Outcome<Vec<String>>) -> Outcome<Vec<String>> {
    match listed {
        Err(Trouble::NoNode) => Ok(Vec::new()),
        listed => listed,
    }
}

fn busy() -> Attempt {
    Attempt::Busy(Busy::new().with_place_in_queue())
}

/// The token of a grant by this node. Its number begins anew when the directory is made anew; the transaction that made it
/// does not.
fn token(stat: &Stat) -> FencingToken {
    FencingToken::new(stat.czxid.unsigned_abs())
}
