//! A client: one claim.

use crate::bell::ListensTo;
use crate::ensemble::Node;
use crate::follower::{Hears, Ties};
use crate::protocol::Recipe;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) id: u8,
    /// Those of one process have one session.
    pub(crate) process: u8,
    pub(crate) phase: Phase,
    /// Which of its sessions it uses.
    pub(crate) session: u8,
    pub(crate) standing: Standing,
    /// True once it may have more nodes than it knows.
    pub(crate) doubts: bool,
    /// The node that it watches.
    pub(crate) watch: Option<u8>,
    /// True if it was told to look: by its watch, or by the end of its session.
    pub(crate) told: bool,
    /// True if its last attempt failed.
    pub(crate) asks_again: bool,
    /// The session in which a create is open whose reply was lost.
    pub(crate) open: Option<u8>,
    /// The session by which it believes that it holds.
    pub(crate) holds_by: Option<u8>,
    /// The line as it was when its watch told it so: what a server that is behind shows it.
    pub(crate) seen: Option<Vec<Node>>,
    /// What it has to do with others of its process.
    pub(crate) ties: Ties,
    /// Not of the protocol, but to judge it: its node was deleted while it held, or while it came to.
    pub(crate) deleted_by_hand: bool,
    /// As well: it has heard that its node is gone, and has not stood in line again.
    pub(crate) knows_of_its_end: bool,
}

/// Where it is in an attempt, or in its withdrawal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Absent,
    /// Between two attempts.
    Rest,
    /// About to stand in line.
    Stand,
    /// Asked again without news, and about to watch the node in front anew.
    Recheck,
    /// Asked again without news: has read whether a node is there, and is about to make something of it.
    Rechecked(bool),
    /// About to list the line.
    Look(Own),
    /// Has listed it and read its own node, to which it listens, and is about to make something of it.
    Listed(Vec<Node>, Own),
    /// Has listed it.
    Seen(Vec<Node>, Own),
    /// Is to be told by the claim in front, and about to watch its own node.
    Follow(Vec<Node>, Own),
    /// As well, and watches it, which it is about to make known.
    Listens {
        node: u8,
        before: u8,
    },
    /// Its node is of an earlier session, and is to go.
    Discard(u8),
    /// Has read that the node in front is there, and is about to watch it. Not in ours.
    Watch {
        node: u8,
        before: u8,
    },
    /// About to withdraw. What is left to be deleted, if it has looked.
    Leave(Option<Vec<u8>>),
    /// Its node is deleted, and the read of the next one's is under way, that begins to listen to it. True if by that the
    /// next one holds.
    Sees(bool),
    /// Its node is deleted, which it is about to learn. As well.
    Left(bool),
    /// As well, and it has told the next one. The read is under way of the node of the one behind that.
    SeesFurther,
    Gone,
}

/// What it knows of its node from this attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Own {
    #[default]
    Unknown,
    /// It is of this session.
    Sure(u8),
    /// As well, and it was read when the line was listed.
    Read(u8),
    /// It was made just now.
    Made(u8),
}

/// Where it stands, as far as it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    #[default]
    Nowhere,
    /// It may have a node.
    Unsure,
    /// It has a node of that session, and watches one: its own if it holds.
    Known { session: u8, node: u8, watched: u8 },
}

impl Client {
    pub(crate) fn has_step(&self) -> bool {
        match self.phase {
            Phase::Rest => {
                let heard = self.told || self.asks_again || self.ties.handed_over.is_some();
                self.holds_by.is_none() && heard
            }
            Phase::Gone => false,
            _ => true,
        }
    }

    /// True if it was told to, or was told something that it does not believe, or has begun to and not found out.
    pub(crate) fn has_to_look(&self) -> bool {
        let has_a_word = self.ties.handed_over.is_some();
        self.told || self.ties.hears == Hears::Nothing || has_a_word && self.ties.hears == Hears::OfThatClaim
    }

    /// True if it was told that the node in front is gone, and knows its own.
    pub(crate) fn may_look_behind(&self) -> bool {
        self.phase == Phase::Rest && self.told && self.seen.is_some() && !self.doubts
    }

    pub(crate) fn is_at_work(&self) -> bool {
        !matches!(self.phase, Phase::Absent | Phase::Gone)
    }

    pub(crate) fn fail(&mut self) {
        self.seen = None;
        if self.ties.hears == Hears::Nothing {
            (self.watch, self.ties.listens_to) = (None, ListensTo::NotItself);
        }
        match self.phase {
            Phase::Leave(_) => self.phase = Phase::Leave(None),
            // Who relies on the claim in front after all waits for that.
            _ => {
                let relies = self.ties.hears == Hears::OfThatClaim;
                (self.phase, self.told, self.asks_again) = (Phase::Rest, false, !relies);
            }
        }
    }

    /// Belief ends before the first request. Who has left nothing has nothing to withdraw.
    pub(crate) fn leave(&mut self) {
        (self.holds_by, self.seen, self.ties.handed_over) = (None, None, None);
        (self.ties.listens_to, self.knows_of_its_end) = (ListensTo::NotItself, false);
        self.phase = if self.standing == Standing::Nowhere { Phase::Gone } else { Phase::Leave(None) };
    }

    /// Its session is over as far as it knows.
    pub(crate) fn begin_session(&mut self) {
        self.session += 1;
        (self.watch, self.seen, self.ties) = (None, None, Ties::default());
        self.knows_of_its_end = false;
        self.told |= self.phase == Phase::Rest;
        match self.phase {
            Phase::Absent | Phase::Rest | Phase::Gone => {}
            Phase::Sees(_) | Phase::Left(_) | Phase::SeesFurther => self.phase = Phase::Gone,
            _ => self.fail(),
        }
    }

    /// The places of its nodes, and what it knows of the one, if it is the one.
    pub(crate) fn places(&self, recipe: Recipe, line: &[Node], own: Own) -> (Vec<usize>, Own) {
        let by_reply = |node: &Node| own.node() == Some(node.made);
        let mine = |node: &Node| match recipe {
            Recipe::StandsAgain => by_reply(node),
            _ => node.client == self.id,
        };
        let places: Vec<usize> = (0..line.len()).filter(|place| mine(&line[*place])).collect();
        let is_it = matches!(*places, [place] if by_reply(&line[place]));
        (places, if is_it { own } else { Own::Unknown })
    }
}

impl Own {
    pub(crate) fn node(self) -> Option<u8> {
        match self {
            Self::Unknown => None,
            Self::Sure(node) | Self::Read(node) | Self::Made(node) => Some(node),
        }
    }
}
