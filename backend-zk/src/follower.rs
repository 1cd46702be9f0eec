//! Who stands directly behind a claim of the same process, and what the one in front tells it.
//!
//! Such a claim does not watch the node in front of its own: it watches its own node, and the claim in front tells it. When that one has
//! held the lock and has given it back, nobody has to look whose turn it is:
//!
//! * Numbers only grow, and the line was listed when the one behind came to stand there: between the two there is nobody,
//!   and never will be. In front of a holder there is nobody either. So the one behind is the first.
//! * Its own node was there when the one in front was deleted: the server tells a session of all that it watches before it answers
//!   what came later, and its watch has not fired.
//! * Both nodes are of one session, and the leader has answered the delete: it had the session when that was sent, and the
//!   hold is counted from then.
//!
//! Whatever else becomes of the one in front, the one behind is told to look for itself: when it leaves without having held, when its
//! node was touched or is gone, when it is not known what became of a delete. A waiter that listens to the node in front of it, which is of
//! another process, does not hear of its own; but who stands behind it has that node before it as well, and when that goes, both look.

use crate::bell::Bell;
use leasehold_core::FencingToken;
use std::sync::{Arc, Weak};
use tokio::time::Instant;

/// Who is to be told.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) bell: Weak<Bell>,
    /// The transaction that made the node by which it stands there. By a later node it stands elsewhere.
    pub(crate) made: FencingToken,
}

/// The word that a node has become the first in line.
#[derive(Debug)]
pub(crate) struct HandOver {
    /// The transaction that made the node.
    pub(crate) made: FencingToken,
    /// A moment before the request of this session that the leader has answered.
    pub(crate) asked: Instant,
}

impl Follower {
    /// `None` if it is gone.
    pub(crate) fn get(&self) -> Option<(Arc<Bell>, FencingToken)> {
        self.bell.upgrade().map(|bell| (bell, self.made))
    }
}
