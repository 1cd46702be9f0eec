//! What the ensemble keeps: a line of nodes, and which sessions are over.

use crate::client::Standing;
use crate::protocol::State;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ensemble {
    /// The nodes in the order of their numbers.
    pub(crate) line: Vec<Node>,
    /// The number of the next node, if the directory is there.
    pub(crate) next_number: Option<u8>,
    /// The transaction that made the last node.
    last_made: u8,
    /// Sessions that are over: a client, and which of its sessions.
    over: Vec<(u8, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) number: u8,
    /// The transaction that made it, by which it is told from all others.
    pub(crate) made: u8,
    /// Whose it is, as its name says.
    pub(crate) client: u8,
    pub(crate) session: u8,
}

impl Ensemble {
    pub(crate) fn has_session(&self, client: usize, session: u8) -> bool {
        !self.over.contains(&(client as u8, session))
    }

    pub(crate) fn has_node_of(&self, client: usize, session: u8) -> bool {
        self.line.iter().any(|node| usize::from(node.client) == client && node.session == session)
    }

    pub(crate) fn find(&self, made: u8) -> Option<Node> {
        self.line.iter().find(|node| node.made == made).copied()
    }
}

impl State {
    /// Puts a node at the end of the line. `None` if there is no directory.
    pub(crate) fn create(&mut self, client: usize, session: u8) -> Option<Node> {
        let number = self.ensemble.next_number?;
        self.ensemble.next_number = Some(number + 1);
        self.ensemble.last_made += 1;
        let node = Node { number, made: self.ensemble.last_made, client: client as u8, session };
        self.ensemble.line.push(node);
        Some(node)
    }

    /// Takes a node away, and tells those who watch it.
    pub(crate) fn delete(&mut self, made: u8) {
        self.ensemble.line.retain(|node| node.made != made);
        for client in &mut self.clients {
            if client.watch == Some(made) {
                (client.watch, client.told) = (None, true);
                client.seen = client.holds_by.is_none().then(|| self.ensemble.line.clone());
            }
        }
    }

    pub(crate) fn delete_by_hand(&mut self, place: usize) {
        let node = self.ensemble.line[place];
        let owner = &mut self.clients[usize::from(node.client)];
        let holds = owner.holds_by.is_some();
        owner.deleted_by_hand |=
            holds && matches!(owner.standing, Standing::Known { node: own, .. } if own == node.made);
        self.delete(node.made);
    }

    /// Ends a session with its nodes and its watch.
    pub(crate) fn expire(&mut self, client: usize, session: u8) {
        self.ensemble.over.push((client as u8, session));
        self.ensemble.over.sort_unstable();
        if self.clients[client].session == session {
            self.clients[client].watch = None;
        }
        let ends = |node: &&Node| usize::from(node.client) == client && node.session == session;
        let nodes: Vec<u8> = self.ensemble.line.iter().filter(ends).map(|node| node.made).collect();
        nodes.into_iter().for_each(|made| self.delete(made));
    }

    /// What becomes of a create whose reply was lost.
    pub(crate) fn settle(&mut self, client: usize, applied: bool) {
        if let Some(session) = self.clients[client].open.take().filter(|_| applied) {
            self.create(client, session);
        }
    }
}
