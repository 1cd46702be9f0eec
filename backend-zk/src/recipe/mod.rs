//! The lock recipe, all of it.
//!
//! 1. Stand in line: create an ephemeral node, to which the server adds the next number, named after the owner.
//! 2. List the line. Whoever has the lowest number holds the lock.
//! 3. Anybody else watches the node directly in front of its own, and no other, by the read that finds it there: a
//!    release wakes one waiter, however many there are.
//!    Of a claim of the same process it hears [from that claim](crate::bell::followers), and watches its own node when it is next.
//! 4. When it fires, list again. Who was in front may have left without ever having held the lock. A claim of the same
//!    process says whether it had.
//! 5. To leave, delete the node.
//!
//! Three things go wrong with it, each in a lock that people have used for years:
//!
//! * The reply to step 1 is lost. The node is then found by its owner, and not made twice (ZooKeeper, *Recipes*).
//! * The node is that of an earlier session, which the server is about to end. So a node is believed in only if it
//!   belongs to this session (CURATOR-604, CURATOR-696: two owners).
//! * The session has ended while the waiter waited, and it does not know yet: a server that is cut off from its leader
//!   would show its node in front for ever (etcd #11456), and a leader that is cut off from its followers until it notices.
//!   So whoever comes first believes that from the sending of the last request that a majority of the servers has agreed
//!   to. If that was long ago, it makes one more, with the list.

mod first;
mod leaving;
mod standing;
mod watching;

pub(crate) use leaving::{delete, hand_over, leave};

use crate::acl::Access;
use crate::node::Node;
use crate::parents::Parents;
use crate::place::{Place, Places};
use crate::session::{Listening, Outcome, Trouble, Turn};
use crate::standing::{Hears, Standing};
use crate::ties::line;
use leasehold_core::{Attempt, Busy, Claim, FencingToken, Moment};
use std::sync::Arc;
use watching::{Followed, InLine};
use zookeeper_client::Stat;

/// How often a line that changes while it is looked at is looked at again. A line that changes faster moves.
const ROUNDS: usize = 16;

/// One attempt of one claim.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) parents: &'a Parents,
    pub(crate) access: Access,
    /// The directory of the lock.
    pub(crate) directory: &'a str,
    pub(crate) claim: &'a Claim,
    pub(crate) place: &'a Arc<Place>,
    /// The claims of this process.
    pub(crate) places: &'a Places,
    /// When the attempt was begun, before anything was asked.
    pub(crate) asked: Moment,
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
    /// True if nothing can have been heard of it. Of one that was read, the watch may have fired, and the bell been
    /// told since to listen to another.
    fn was_made_just_now(&self) -> bool {
        matches!(self.how, Known::Made(_))
    }

    fn was_read(&self) -> bool {
        matches!(self.how, Known::Read(..))
    }
}

impl Recipe<'_> {
    /// Looks where the claim stands, and makes it stand in line if it does not. `standing` never says less than what
    /// the store may have: it becomes [`Standing::Unsure`] before a node is asked for, so it is also right if the call
    /// is dropped.
    pub(crate) async fn attempt(&self, standing: &mut Standing) -> Outcome<Attempt> {
        if matches!(standing, Standing::Unsure { .. }) {
            self.place.bell.doubts();
        }
        if let Some(grant) = self.take_hand_over(standing) {
            return Ok(Attempt::Granted(grant));
        }
        // What is heard meanwhile counts: its own node may have gone while it looked at the one in front.
        if self.recheck_front(standing).await? && !self.place.bell.has_fired() {
            return Ok(busy());
        }
        if let Some(grant) = self.try_first(standing).await? {
            return Ok(Attempt::Granted(grant));
        }
        if let Standing::Behind(behind) = standing {
            behind.hears = Hears::Nothing;
        }
        let (mut children, mut own) = self.first_look(standing).await?;
        for _ in 0..ROUNDS {
            let queue = line(self.turn, self.directory, children).await?;
            let places = queue.places_of(self.claim.owner());
            own = own.filter(|own| *places == [queue.place_of(&own.node)]);
            if let [place] = *places
                && let Some(number) = Node::from(queue.node(place)).spent()
            {
                return Err(self.takes_back(standing, queue.node(place), number).await);
            }
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
                // To listen to another would be to forget what was heard of it since.
                [_] if own.as_ref().is_some_and(Own::was_read) && self.place.bell.has_fired() => {
                    (children, own) = self.first_look(standing).await?;
                    continue;
                }
                [mine] => {
                    let (node, before) = (queue.node(mine).to_owned(), queue.node(mine - 1).to_owned());
                    // What stays is not to lie in memory behind a line of thousands.
                    drop(queue);
                    let place = InLine {
                        node: &node,
                        before: &before,
                        stood: self.stood(own.as_ref()),
                        listens: own.as_ref().is_some_and(Own::was_read),
                    };
                    if own.as_ref().is_some_and(Own::was_made_just_now) {
                        let node = Node::from(node.as_str());
                        self.place.bell.leads_with(node.number());
                        self.places.stands_last(self.claim, node);
                    }
                    if own.is_none() && !self.is_of_this_session(&node).await? {
                        self.delete(&node).await?;
                    } else {
                        match self.follow(standing, place).await? {
                            Followed::Told => {
                                let granted = self.take_hand_over(standing);
                                return Ok(granted.map_or_else(busy, Attempt::Granted));
                            }
                            Followed::Gone => own = None,
                            Followed::Not if self.watch(standing, place).await? => return Ok(busy()),
                            Followed::Not => {
                                let made = own.filter(Own::was_made_just_now);
                                own = Some(made.unwrap_or(Own { node, how: Known::Sure }));
                            }
                        }
                    }
                }
                // A second one, made by a request of an earlier session: it is ours, and would stand in our own way.
                [.., last] => {
                    own = None;
                    self.delete(queue.node(last)).await?;
                }
            }
            // This attempt has proved the session already.
            children = none_if_gone(self.turn.list_as_seen(self.directory).await)?;
        }
        self.place.bell.fire();
        Ok(busy())
    }

    /// Stands in line no more, because others may have the number of the node too: each would be the first of them.
    async fn takes_back(&self, standing: &mut Standing, node: &str, number: i32) -> Trouble {
        if let Err(trouble) = self.delete(node).await {
            return trouble;
        }
        self.stands(standing, Standing::Nowhere);
        Trouble::spent(self.directory, number)
    }

    async fn delete(&self, node: &str) -> Outcome<()> {
        delete(self.turn, &self.path(node)).await.map(drop)
    }

    fn path(&self, node: &str) -> String {
        [self.directory, "/", node].concat()
    }

    fn stands(&self, standing: &mut Standing, now: Standing) {
        *standing = now;
        self.place.bell.stands(standing);
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
