//! The state of a client, which makes one claim in a session of its own.

use crate::ensemble::Node;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) id: u8,
    pub(crate) is_reader: bool,
    pub(crate) phase: Phase,
    /// The number of the present session, from 0.
    pub(crate) session: u8,
    pub(crate) own: OwnNode,
    /// The watched node.
    pub(crate) watch: Option<u8>,
    /// True if its watch has fired, or its session has ended: it makes another attempt.
    pub(crate) is_notified: bool,
    /// True if its last attempt has failed: it makes another one after a pause.
    pub(crate) needs_retry: bool,
    /// The session in which a create may still be executed whose reply was lost.
    pub(crate) pending_create: Option<u8>,
    /// The session in which it was granted the lock, while it believes to hold it.
    pub(crate) holding_session: Option<u8>,
    /// The queue when the watch fired, which a server that is behind shows.
    pub(crate) stale_queue: Option<Vec<Node>>,
    /// History variable: its node was deleted by hand while it held the lock.
    pub(crate) deleted_by_hand: bool,
}

/// The progress of an attempt or a release: most phases name the next request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    NotStarted,
    /// Waits for a signal, or holds the lock.
    Idle,
    Create,
    List,
    /// Checks whether the blocker exists, although the watch has not fired.
    Check {
        blocker: u8,
    },
    /// Has listed `queue`, and reads the first `unread` one of the owner's nodes in it.
    ReadOwn {
        queue: Vec<Node>,
        unread: Vec<u8>,
    },
    /// Deletes a node of the owner that is of an earlier session, or is not the first one.
    Discard {
        node: u8,
        queue: Vec<Node>,
        unread: Vec<u8>,
    },
    /// Reads the blocker, and sets the watch in the same request.
    Watch {
        blocker: u8,
    },
    /// Sets the watch after the read; only in a faulty recipe.
    WatchOnly {
        blocker: u8,
    },
    /// Deletes these nodes, the last one first; `None` if it must list them first.
    Release {
        nodes: Option<Vec<u8>>,
    },
    Done,
}

/// A client's knowledge of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum OwnNode {
    #[default]
    Absent,
    /// It may have a node.
    Unknown,
    Known {
        session: u8,
        node: u8,
    },
}

impl Client {
    /// Its node, if that is of the present session.
    pub(crate) fn node(&self) -> Option<u8> {
        match self.own {
            OwnNode::Known { session, node } if session == self.session => Some(node),
            _ => None,
        }
    }

    pub(crate) fn has_next_step(&self) -> bool {
        match self.phase {
            Phase::Idle => self.holding_session.is_none() && (self.is_notified || self.needs_retry),
            Phase::Done => false,
            _ => true,
        }
    }

    pub(crate) fn may_list_stale(&self) -> bool {
        self.phase == Phase::Idle && self.is_notified && self.stale_queue.is_some() && self.node().is_some()
    }

    /// Ends a failed attempt, which is repeated after a pause. After a failed check the watch is still set.
    pub(crate) fn fail(&mut self) {
        self.stale_queue = None;
        match self.phase {
            Phase::Release { .. } => self.phase = Phase::Release { nodes: None },
            Phase::Check { .. } => self.phase = Phase::Idle,
            _ => (self.phase, self.is_notified, self.needs_retry) = (Phase::Idle, false, true),
        }
    }

    /// Begins a release or gives up. Belief ends before the first request.
    pub(crate) fn release(&mut self) {
        (self.holding_session, self.stale_queue, self.watch) = (None, None, None);
        self.phase = match self.own {
            OwnNode::Absent => Phase::Done,
            OwnNode::Unknown => Phase::Release { nodes: None },
            OwnNode::Known { .. } => Phase::Release { nodes: self.node().map(|node| vec![node]) },
        };
    }

    /// Replaces a session that has expired or is abandoned.
    pub(crate) fn start_session(&mut self) {
        self.session += 1;
        (self.watch, self.stale_queue) = (None, None);
        match self.phase {
            Phase::NotStarted | Phase::Done => {}
            Phase::Idle | Phase::Check { .. } => (self.phase, self.is_notified) = (Phase::Idle, true),
            _ => self.fail(),
        }
    }
}
