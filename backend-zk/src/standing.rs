//! Where a claim stands: what its last call has found, and what the next can build upon.

use crate::node::{Neighbours, Node};
use crate::session::{Listening, Session};
use leasehold_core::{FencingToken, Moment, OwnerId};
use std::num::NonZero;
use std::sync::Arc;

/// Where a claim stands, as far as is known.
#[derive(Debug, Default)]
pub(crate) enum Standing {
    /// It has no node.
    #[default]
    Nowhere,
    /// It may have one: a request of this session is open, or went wrong.
    Unsure { session: Arc<Session> },
    /// It waits for the node in front of its own.
    Behind(Behind),
    /// It holds the lock, and listens to its own node if it could.
    First { session: Arc<Session>, node: Node, listening: Listening },
}

/// A claim that waits. Small on purpose: whoever holds has the room for it too.
#[derive(Debug)]
pub(crate) struct Behind {
    pub(crate) session: Arc<Session>,
    pub(crate) nodes: Neighbours,
    /// `None` if its node was only seen in the line.
    pub(crate) stood: Option<Stood>,
    pub(crate) hears: Hears,
    pub(crate) listening: Listening,
}

/// How a waiter hears that the node in front of its own is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hears {
    /// It listens to that node.
    WatchesFront,
    /// The claim in front, which is of this process, [tells it](crate::bell::followers). It listens to its own node, if to
    /// any, and from when it is next.
    ToldByFront {
        /// True if the next look without news is at the node in front, and not at its own.
        looks_ahead: bool,
    },
    /// It listens to that node, as far as is known: it has begun to look there again, and has had no answer yet. What fired at
    /// the moment when it began may not have been heard.
    MayWatchFront,
    /// Not at all: it has begun to look where it stands, and has not found out yet. What it had heard by then is forgotten,
    /// and what it listened to may be over.
    Nothing,
}

/// To which node a claim listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListensTo {
    /// To the one in front of its own, or to none.
    #[default]
    NotItself,
    /// To its own, when its turn is near and there is room.
    ItselfLater,
    /// To its own, when a request is answered that was sent for it.
    ItselfSoon,
    Itself,
}

/// What was found out for certain of a claim that stands in line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stood {
    /// No transaction has the number 0: so there is none in the same room.
    made: NonZero<u64>,
    /// `NEVER` if that one has proved nothing: in half the room of an option.
    asked: Moment,
}

impl Hears {
    /// True if the claim in front tells it.
    pub(crate) fn is_told(self) -> bool {
        matches!(self, Self::ToldByFront { .. })
    }
}

impl Stood {
    /// By a node that this transaction made.
    pub(crate) fn new(made: FencingToken, asked: Moment) -> Option<Self> {
        Some(Self { made: NonZero::new(made.get())?, asked })
    }

    /// The transaction that made its node.
    pub(crate) fn made(&self) -> FencingToken {
        FencingToken::new(self.made.get())
    }

    /// When its last attempt was begun, before a request of it that proved the session. `None` if that one has proved
    /// nothing. By the clock that leases are counted by, which does not stop while the host sleeps.
    pub(crate) fn asked(&self) -> Option<Moment> {
        (self.asked != Moment::NEVER).then_some(self.asked)
    }

    /// Its last attempt has proved nothing.
    pub(crate) fn has_proved_nothing(&mut self) {
        self.asked = Moment::NEVER;
    }
}

impl Standing {
    /// The session of the node that it has or may have.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Nowhere => None,
            Self::Unsure { session } | Self::First { session, .. } => Some(session),
            Self::Behind(behind) => Some(&behind.session),
        }
    }

    /// Which node it listens to.
    pub(crate) fn listens_to(&self) -> ListensTo {
        match self {
            Self::First { .. } => ListensTo::Itself,
            Self::Behind(behind) if behind.hears.is_told() && behind.listening.is_deaf() => {
                ListensTo::ItselfLater
            }
            Self::Behind(behind) if behind.hears.is_told() => ListensTo::Itself,
            Self::Behind(_) | Self::Nowhere | Self::Unsure { .. } => ListensTo::NotItself,
        }
    }

    /// The number of that node, unless it has lost its way.
    pub(crate) fn number(&self) -> Option<i32> {
        match self {
            Self::Behind(behind) if behind.hears == Hears::Nothing => None,
            Self::Behind(behind) => behind.nodes.number(),
            Self::First { node, .. } => node.number(),
            Self::Nowhere | Self::Unsure { .. } => None,
        }
    }

    /// True if it has, or may have, a node, and has not found out where that stands, or whether it would hear that it is next.
    pub(crate) fn is_unsure(&self) -> bool {
        match self {
            Self::Unsure { .. } => true,
            Self::Behind(behind) => matches!(behind.hears, Hears::MayWatchFront | Hears::Nothing),
            Self::Nowhere | Self::First { .. } => false,
        }
    }

    /// True if that is so, and it could ask.
    pub(crate) fn is_unsure_though_connected(&self) -> bool {
        self.is_unsure() && self.session().is_some_and(|session| session.is_connected())
    }

    /// The node that the claim of this owner certainly had, and of which session.
    pub(crate) fn node(&self, owner: OwnerId) -> Option<(&Arc<Session>, Node)> {
        match self {
            Self::Behind(behind) => Some((&behind.session, behind.nodes.own(owner))),
            Self::First { session, node, .. } => Some((session, node.clone())),
            Self::Nowhere | Self::Unsure { .. } => None,
        }
    }
}
