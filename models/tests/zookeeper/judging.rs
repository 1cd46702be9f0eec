//! What is looked at in every state, to judge it.

use crate::client::{Client, Phase, Standing};
use crate::follower::Hears;
use crate::protocol::State;

impl State {
    /// True if it takes itself for the holder, and nothing has happened yet that it would be told of.
    pub(crate) fn believes(&self, client: usize) -> bool {
        let this = &self.clients[client];
        this.holds_by == Some(this.session)
            && !this.deleted_by_hand
            && self.ensemble.has_session(this.process, this.session)
    }

    /// A node of a session that is over for its client goes with that session, without anybody's doing.
    pub(crate) fn first_is_awake(&self) -> bool {
        let Some(first) = self.ensemble.line.first() else { return true };
        let this = &self.clients[usize::from(first.client)];
        first.session != this.session
            || this.holds_by.is_some()
            || this.has_step()
            || matches!(this.phase, Phase::Gone)
            || self.hears_soon(this)
    }

    /// It will be told by another of its process, which has something to do or will be told itself. Not by one that has heard
    /// that its node is gone, and whose task may be anywhere: that one was to tell it then.
    fn hears_soon(&self, this: &Client) -> bool {
        let Standing::Known { node, .. } = this.standing else { return false };
        let tells = |other: &&Client| other.ties.follower == Some((this.id, node));
        let tells_in_time = |other: &Client| other.phase != Phase::Rest || !other.knows_of_its_end;
        let knows = |other: &Client| tells_in_time(other) && (other.has_step() || self.hears_soon(other));
        this.ties.hears == Hears::OfThatClaim && self.clients.iter().filter(tells).any(knows)
    }

    /// Who has heard that its node is gone stands in line again by and by.
    pub(crate) fn goes_on(&self, client: usize) -> bool {
        let this = &self.clients[client];
        !this.knows_of_its_end || this.phase != Phase::Rest || this.holds_by.is_some() || this.has_step()
    }

    pub(crate) fn is_clean(&self, client: usize) -> bool {
        let this = &self.clients[client];
        this.phase != Phase::Gone
            || (this.open != Some(this.session) && !self.ensemble.has_node_of(client, this.session))
    }

    pub(crate) fn grant(&mut self, client: usize, node: u8, token: u8) {
        let this = &mut self.clients[client];
        this.holds_by = Some(this.session);
        (this.phase, this.ties.hears) = (Phase::Rest, Hears::Itself);
        (this.told, this.seen, this.knows_of_its_end) = (false, None, false);
        this.standing = Standing::Known { session: this.session, node, watched: node };
        self.out_of_order |= token <= self.last_token;
        self.last_token = self.last_token.max(token);
        self.grants += 1;
    }
}
