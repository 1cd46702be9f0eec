//! What a client does next: a request, as a rule.

use crate::client::{Client, Own, Phase, Standing};
use crate::ensemble::Node;
use crate::protocol::{Protocol, Recipe};

/// A request.
pub(crate) enum Next {
    Create,
    List(Own),
    /// Reads its own node.
    Read {
        node: u8,
        is_first: bool,
    },
    /// Reads the node in front, and watches it if it is there.
    Watch {
        node: u8,
        before: u8,
    },
    /// As well, though it watches that already.
    WatchAgain {
        node: u8,
        before: u8,
    },
    /// Reads its own node, and watches it if it is there.
    WatchItself(u8),
    /// Reads the node of who follows it, and has that one listen to it.
    SeeFollower,
    /// Reads the node in front without a watch; sets one without looking.
    ReadOnly {
        node: u8,
        before: u8,
    },
    WatchBlindly {
        node: u8,
        before: u8,
    },
    Delete(u8),
    /// No request: tells whoever stands behind it.
    Tell(bool),
    /// No request: believes what it was told.
    Believe {
        node: u8,
    },
    /// No request: makes something of an answer.
    GoOn,
}

impl Protocol {
    /// True if the next step is a request.
    pub(crate) fn asks(&self, client: &Client) -> bool {
        !matches!(self.next(client), Next::Tell(_) | Next::Believe { .. } | Next::GoOn)
            || matches!(client.phase, Phase::Rechecked(_))
    }

    /// True if the next request changes something.
    pub(crate) fn writes(&self, client: &Client) -> bool {
        matches!(self.next(client), Next::Create | Next::Delete(_))
    }

    pub(crate) fn next(&self, client: &Client) -> Next {
        match &client.phase {
            Phase::Absent | Phase::Stand => Next::Create,
            Phase::Look(own) => Next::List(*own),
            Phase::Discard(node) => Next::Delete(*node),
            Phase::Watch { node, before } => Next::WatchBlindly { node: *node, before: *before },
            Phase::Seen(line, own) => self.next_of(client, line, *own),
            Phase::Follow(_, own) => Next::WatchItself(own.node().unwrap_or_default()),
            Phase::Rechecked(_) | Phase::Listed(..) | Phase::Listens { .. } => Next::GoOn,
            Phase::Sees(_) | Phase::SeesFurther => Next::SeeFollower,
            Phase::Left(hands_over) => Next::Tell(*hands_over),
            Phase::Leave(Some(left)) => {
                left.last().map_or(Next::List(Own::Unknown), |node| Next::Delete(*node))
            }
            Phase::Leave(None) => match client.standing {
                Standing::Known { session, node, .. } if session == client.session && !client.doubts => {
                    Next::Delete(node)
                }
                _ => Next::List(Own::Unknown),
            },
            Phase::Rest | Phase::Recheck | Phase::Gone => self.next_after_rest(client),
        }
    }

    fn next_after_rest(&self, client: &Client) -> Next {
        match client.standing {
            Standing::Nowhere => Next::Create,
            Standing::Known { session, node, watched } if session == client.session => {
                match (client.told, self.recipe) {
                    _ if client.phase == Phase::Recheck => Next::WatchAgain { node, before: watched },
                    (true, Recipe::WatchesTheLowest | Recipe::BelievesTheWatch) => Next::Believe { node },
                    _ if self.believes_the_word(client, node) => Next::Believe { node },
                    _ if self.is_of_many(client) && client.has_to_look() => Next::List(Own::Read(node)),
                    (true, ..) => Next::List(Own::Sure(node)),
                    (false, ..) => Next::WatchAgain { node, before: watched },
                }
            }
            _ => Next::List(Own::Unknown),
        }
    }

    /// What follows from a line that was listed.
    fn next_of(&self, client: &Client, line: &[Node], own: Own) -> Next {
        let (places, own) = client.places(self.recipe, line, own);
        let believes = self.recipe == Recipe::AdoptsAnyNode;
        match *places {
            [] => Next::Create,
            [place] => {
                let node = line[place].made;
                if own == Own::Unknown && !believes || place == 0 {
                    return Next::Read { node, is_first: place == 0 };
                }
                let before = match self.recipe {
                    Recipe::WatchesTheLowest => line[0].made,
                    _ => line[place - 1].made,
                };
                match self.recipe {
                    Recipe::WatchesAfterTheRead => Next::ReadOnly { node, before },
                    _ => Next::Watch { node, before },
                }
            }
            [.., last] => Next::Delete(line[last].made),
        }
    }
}
