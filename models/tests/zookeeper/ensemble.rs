//! The state of the ensemble: the queue of one lock, and the expired sessions.

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ensemble {
    /// In the order of the sequence numbers.
    pub(crate) queue: Vec<Node>,
    /// The next sequence number; `None` if there is no directory.
    pub(crate) next_sequence: Option<u8>,
    /// The `czxid` of the last node.
    last_zxid: u8,
    /// Expired sessions: the client and the number of its session.
    ended: Vec<(u8, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) sequence: u8,
    /// The id of the transaction that created the node, which is unique.
    pub(crate) czxid: u8,
    /// The owner, which the name of the node contains.
    pub(crate) client: u8,
    pub(crate) session: u8,
    pub(crate) is_reader: bool,
}

impl Node {
    pub(crate) fn conflicts_with(&self, other: &Self) -> bool {
        !(self.is_reader && other.is_reader)
    }
}

impl Ensemble {
    /// Appends a node to the queue. `None` if there is no directory.
    pub(crate) fn create(&mut self, client: u8, session: u8, is_reader: bool) -> Option<Node> {
        let sequence = self.next_sequence?;
        self.next_sequence = Some(sequence + 1);
        self.last_zxid += 1;
        let node = Node { sequence, czxid: self.last_zxid, client, session, is_reader };
        self.queue.push(node);
        Some(node)
    }

    pub(crate) fn find(&self, czxid: u8) -> Option<Node> {
        self.queue.iter().find(|node| node.czxid == czxid).copied()
    }

    pub(crate) fn has_node_of(&self, client: u8, session: u8) -> bool {
        self.queue.iter().any(|node| node.client == client && node.session == session)
    }

    pub(crate) fn has_session(&self, client: u8, session: u8) -> bool {
        !self.ended.contains(&(client, session))
    }

    /// Ends a session. The caller deletes its nodes.
    pub(crate) fn end_session(&mut self, client: u8, session: u8) {
        self.ended.push((client, session));
        self.ended.sort_unstable();
    }
}
