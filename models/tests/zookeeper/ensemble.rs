//! What the ensemble keeps: a line of nodes, and which sessions are over.

use crate::client::{Client, Phase, Standing};
use crate::protocol::State;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ensemble {
    /// The nodes in the order of their numbers.
    pub(crate) line: Vec<Node>,
    /// The number of the next node, if the directory is there.
    pub(crate) next_number: Option<u8>,
    /// The transaction that made the last node.
    last_made: u8,
    /// Sessions that are over: a process, and which of its sessions.
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
    pub(crate) fn has_session(&self, process: u8, session: u8) -> bool {
        !self.over.contains(&(process, session))
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
        self.fire(made);
    }

    /// Tells those who watch a node, and those who are about to hear that another has had them watch it.
    pub(crate) fn fire(&mut self, made: u8) {
        let is_listened_for = |client: usize| {
            let listens = |other: &Client| {
                matches!(other.phase, Phase::Left(true))
                    && other.ties.listens_for == Some((client as u8, made))
            };
            self.clients.iter().any(listens)
        };
        let told: Vec<usize> = (0..self.clients.len())
            .filter(|client| {
                let this = &self.clients[*client];
                this.watch == Some(made) || this.is_here() && is_listened_for(*client)
            })
            .collect();
        told.into_iter().for_each(|client| self.rings(client, made));
    }

    pub(crate) fn delete_by_hand(&mut self, place: usize) {
        let node = self.ensemble.line[place];
        let owner = &mut self.clients[usize::from(node.client)];
        let holds = owner.holds_by.is_some();
        owner.deleted_by_hand |=
            holds && matches!(owner.standing, Standing::Known { node: own, .. } if own == node.made);
        self.delete(node.made);
    }

    /// Ends a session with its nodes and its watches.
    pub(crate) fn expire(&mut self, process: u8, session: u8) {
        self.ensemble.over.push((process, session));
        self.ensemble.over.sort_unstable();
        for this in self.clients.iter_mut().filter(|this| this.process == process) {
            if this.session == session {
                this.watch = None;
            }
        }
        let clients = &self.clients;
        let ends =
            |node: &&Node| clients[usize::from(node.client)].process == process && node.session == session;
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
