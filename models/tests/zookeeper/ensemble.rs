//! The state of the ensemble: the queue of one lock, and the sessions that have ended.

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ensemble {
    /// The nodes in the order of their numbers.
    pub(crate) queue: Vec<Node>,
    /// The number of the next node; `None` if there is no directory.
    pub(crate) next_number: Option<u8>,
    /// The transaction that made the last node.
    last_made: u8,
    /// Ended sessions: a client, and the number of its session.
    ended: Vec<(u8, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) number: u8,
    /// The transaction that made it, which identifies it.
    pub(crate) made: u8,
    /// The owner, as its name says.
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
    /// Adds a node at the end of the queue. `None` if there is no directory.
    pub(crate) fn create(&mut self, client: u8, session: u8, is_reader: bool) -> Option<Node> {
        let number = self.next_number?;
        self.next_number = Some(number + 1);
        self.last_made += 1;
        let node = Node { number, made: self.last_made, client, session, is_reader };
        self.queue.push(node);
        Some(node)
    }

    pub(crate) fn find(&self, made: u8) -> Option<Node> {
        self.queue.iter().find(|node| node.made == made).copied()
    }

    pub(crate) fn has_node_of(&self, client: u8, session: u8) -> bool {
        self.queue.iter().any(|node| node.client == client && node.session == session)
    }

    pub(crate) fn has_session(&self, client: u8, session: u8) -> bool {
        !self.ended.contains(&(client, session))
    }

    /// Ends a session. Its nodes are still to be deleted.
    pub(crate) fn end_session(&mut self, client: u8, session: u8) {
        self.ended.push((client, session));
        self.ended.sort_unstable();
    }
}
