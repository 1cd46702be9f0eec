//! The state of a client: one claim, in a session of its own.

use crate::ensemble::Node;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) id: u8,
    pub(crate) is_reader: bool,
    pub(crate) phase: Phase,
    /// The number of its present session.
    pub(crate) session: u8,
    pub(crate) own: Own,
    /// The node that it watches.
    pub(crate) watch: Option<u8>,
    /// True if its watch has fired, or its session has ended: it asks again.
    pub(crate) is_told: bool,
    /// True if its last attempt failed: it asks again after a pause.
    pub(crate) retries: bool,
    /// The session in which a create may still be carried out whose reply was lost.
    pub(crate) open_create: Option<u8>,
    /// The session by which it believes that it holds.
    pub(crate) holds_by: Option<u8>,
    /// The queue as it was when the watch fired: a server that is behind shows this.
    pub(crate) old_queue: Option<Vec<Node>>,
    /// No part of the protocol: its node was deleted by hand while it held.
    pub(crate) deleted_by_hand: bool,
}

/// The step of an attempt, or of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Absent,
    /// Between two attempts.
    Rest,
    /// About to create its node.
    Create,
    /// About to list the queue.
    List,
    /// About to check whether the blocker still exists, though the watch has not fired.
    Check {
        blocker: u8,
    },
    /// Has listed the queue, and is about to read the first of its nodes in it that are not read yet.
    Find {
        queue: Vec<Node>,
        unread: Vec<u8>,
    },
    /// About to delete one of its nodes that is of an earlier session, or the second one.
    Discard {
        node: u8,
        queue: Vec<Node>,
        unread: Vec<u8>,
    },
    /// About to read the blocker and to watch it.
    Watch {
        blocker: u8,
    },
    /// Has read the blocker, and is about to watch it. Only in a broken recipe.
    WatchOnly {
        blocker: u8,
    },
    /// About to release: to delete these nodes from the back; `None` if it is to list them first.
    Leave {
        nodes: Option<Vec<u8>>,
    },
    Gone,
}

/// What it knows of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Own {
    #[default]
    Absent,
    /// It may have a node.
    Unknown,
    /// It has this node, made in this session.
    Known { session: u8, node: u8 },
}

impl Client {
    /// The node that counts: one of the present session.
    pub(crate) fn node(&self) -> Option<u8> {
        match self.own {
            Own::Known { session, node } if session == self.session => Some(node),
            _ => None,
        }
    }

    pub(crate) fn has_step(&self) -> bool {
        match self.phase {
            Phase::Rest => self.holds_by.is_none() && (self.is_told || self.retries),
            Phase::Gone => false,
            _ => true,
        }
    }

    /// True if a server that is behind may answer its next list.
    pub(crate) fn may_list_behind(&self) -> bool {
        self.phase == Phase::Rest && self.is_told && self.old_queue.is_some() && self.node().is_some()
    }

    /// The attempt has failed. It is repeated after a pause; but after a failed check the watch is still set.
    pub(crate) fn fail(&mut self) {
        self.old_queue = None;
        match self.phase {
            Phase::Leave { .. } => self.phase = Phase::Leave { nodes: None },
            Phase::Check { .. } => self.phase = Phase::Rest,
            _ => (self.phase, self.is_told, self.retries) = (Phase::Rest, false, true),
        }
    }

    /// Belief ends before the first request of the release.
    pub(crate) fn leave(&mut self) {
        (self.holds_by, self.old_queue, self.watch) = (None, None, None);
        self.phase = match self.own {
            Own::Absent => Phase::Gone,
            Own::Unknown => Phase::Leave { nodes: None },
            Own::Known { .. } => Phase::Leave { nodes: self.node().map(|node| vec![node]) },
        };
    }

    /// It learns that its session has ended, or gives it up.
    pub(crate) fn begin_session(&mut self) {
        self.session += 1;
        (self.watch, self.old_queue) = (None, None);
        match self.phase {
            Phase::Absent | Phase::Gone => {}
            Phase::Rest | Phase::Check { .. } => (self.phase, self.is_told) = (Phase::Rest, true),
            _ => self.fail(),
        }
    }
}
