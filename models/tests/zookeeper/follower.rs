//! Claims of one process, of which one stands directly behind the other: `backend-zk/src/bell/followers.rs`.
//!
//! The one in front tells the one behind: that it holds, or that it had better look. Who comes to stand behind a holder, or one
//! that leaves, listens to its own node. All others are made to listen by a holder that leaves, by reads that follow its delete:
//! the one who is next after that has come to hold, and if need be that one itself, whose turn waits for it. The first of these
//! is here put off until the next one is told, which is later than it is done. What it is for is not asked again by the next one
//! that leaves, who looks at what came of it when its own node is gone. The word is on its way for a moment after the node is
//! gone, as the reply to a request is that nobody has polled for yet. Watches are not: the bell of a claim has rung
//! before a reply is heard that came later.

use crate::bell::ListensTo;
use crate::client::{Client, Own, Phase, Standing};
use crate::ensemble::Node;
use crate::protocol::{Protocol, Recipe, State};
use crate::requests::Next;

/// What a claim has to do with those of its process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ties {
    pub(crate) hears: Hears,
    pub(crate) listens_to: ListensTo,
    /// Its node, if whoever stands behind that may rely on hearing from this claim.
    pub(crate) leads_with: Option<u8>,
    /// Who is to be told, and the node by which that one stands there.
    pub(crate) follower: Option<(u8, u8)>,
    /// Whom it found behind it when it began to leave, if that one did not listen: it is to have it listen to this node.
    pub(crate) listens_for: Option<(u8, u8)>,
    /// As well, if the holder before has asked for that, and was not answered yet.
    pub(crate) listens_soon: Option<(u8, u8)>,
    /// Of the one behind that.
    pub(crate) listens_further: Option<(u8, u8)>,
    /// The node of which it was told that it has become the first.
    pub(crate) handed_over: Option<u8>,
}

/// How a waiter hears that the node in front of its own is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Hears {
    /// It watches that node.
    #[default]
    Itself,
    /// The claim in front tells it. If it watches a node, then its own.
    OfThatClaim,
    /// It was to look, and has not found out yet where it stands.
    Nothing,
}

impl Protocol {
    pub(crate) fn is_of_many(&self, client: &Client) -> bool {
        client.id < self.of_one_process
    }

    /// An attempt begins, with this request.
    pub(crate) fn begin(&self, client: &mut Client, next: &Next) {
        (client.told, client.asks_again, client.seen) = (false, false, None);
        client.ties.handed_over = None;
        client.doubts |= self.is_of_many(client) && client.standing == Standing::Unsure;
        if matches!(next, Next::List(_)) {
            self.begin_to_look(client);
        }
    }

    /// Until it has found out where it stands it relies on nothing: not on the claim that it followed, which may not know of
    /// it any more, and not on its watch, which may have fired.
    pub(crate) fn begin_to_look(&self, client: &mut Client) {
        let is_in_line = self.is_of_many(client) && matches!(client.standing, Standing::Known { .. });
        if is_in_line && self.recipe != Recipe::ForgetsThatItWasTold {
            (client.ties.hears, client.watch) = (Hears::Nothing, None);
        }
    }

    /// True if nobody can be between the two, going by their numbers.
    pub(crate) fn is_next(&self, state: &State, last: Node, node: Node) -> bool {
        self.is_of_many(&state.clients[usize::from(node.client)]) && node.number == last.number + 1
    }

    /// Has seen the line. Whoever finds a claim of its own process in front of it follows that one.
    pub(crate) fn has_seen(&self, state: &mut State, client: usize, line: Vec<Node>, own: Own) {
        let this = &state.clients[client];
        let (places, known) = this.places(self.recipe, &line, own);
        let (&[place @ 1..=usize::MAX], true) = (&*places, self.is_of_many(this)) else {
            state.clients[client].phase = Phase::Seen(line, own);
            return;
        };
        let (before, node) = (line[place - 1], line[place]);
        if matches!(known, Own::Made(_)) {
            state.clients[client].ties.leads_with = Some(node.made);
            state.last = Some(node);
        }
        let can_follow = matches!(known, Own::Made(_) | Own::Read(_)) && self.leads(state, before, client);
        let line = vec![before, node];
        let this = &mut state.clients[client];
        (this.told, this.ties.handed_over) = (this.told && self.listens_on(own), None);
        if !can_follow {
            this.phase = Phase::Seen(line, own);
            return;
        }
        let ahead = &mut state.clients[usize::from(before.client)];
        ahead.ties.follower = Some((client as u8, node.made));
        let holds = ahead.holds_by.is_some() || !ahead.is_here();
        if holds && self.recipe != Recipe::ReliesOnWhoLeaves {
            state.clients[client].phase = Phase::Follow(line, own);
        } else {
            state.clients[client].follows(node.made, before.made);
        }
    }

    fn leads(&self, state: &State, before: Node, client: usize) -> bool {
        let (ahead, this) = (&state.clients[usize::from(before.client)], &state.clients[client]);
        self.is_of_many(ahead)
            && before.session == this.session
            && ahead.ties.leads_with == Some(before.made)
            && !ahead.doubts
            && !this.doubts
    }

    /// True if it was told that its node is the first, and may believe that without a look.
    pub(crate) fn believes_the_word(&self, client: &Client, node: u8) -> bool {
        let Some(handed_over) = client.ties.handed_over else { return false };
        let is_meant = handed_over == node || self.recipe == Recipe::BelievesAnyWord;
        is_meant && client.ties.hears == Hears::OfThatClaim && !client.told && !client.doubts
    }

    /// A node is deleted, and the client hears of it: in a moment if somebody of its process could rely on that.
    pub(crate) fn delete(&self, state: &mut State, client: usize, node: u8) {
        let was_there = state.ensemble.find(node).is_some();
        state.delete(node);
        let this = &mut state.clients[client];
        if this.phase != Phase::Leave(None) || !self.is_of_many(this) {
            return this.deleted(node);
        }
        let held = matches!(this.standing, Standing::Known { watched, .. } if watched == node);
        let holds_next = held || self.recipe == Recipe::HandsOverUnheld;
        if !holds_next || self.recipe == Recipe::DoesNotWatchItself {
            this.ties.listens_for_nobody();
        }
        let hands_over = was_there && holds_next;
        let sees = this.ties.listens_for.is_some();
        this.phase = if sees { Phase::Sees(hands_over) } else { Phase::Left(hands_over) };
    }

    /// Has heard that its node is deleted, and tells whoever stood behind it. First it has that one listen, if nothing came of
    /// what the holder before has asked for.
    pub(crate) fn tell(&self, state: &mut State, client: usize, hands_over: bool) {
        let soon = state.clients[client].ties.listens_soon.take();
        if let Some(next) = soon.filter(|next| hands_over && !state.listens_already(*next)) {
            let this = &mut state.clients[client];
            match self.recipe {
                Recipe::TrustsWhatWasAsked => {}
                Recipe::LeavesItToWhoHasAsked => this.ties.follower = None,
                _ => {
                    (this.ties.listens_for, this.phase) = (Some(next), Phase::Sees(hands_over));
                    return;
                }
            }
        }
        let listens = state.clients[client].ties.listens_for.take();
        let hands_over =
            hands_over && listens.is_none_or(|(next, node)| state.listens(usize::from(next), node));
        let ties = &mut state.clients[client].ties;
        let follower = ties.follower.take_if(|_| hands_over || self.recipe == Recipe::LeavesWithoutAWord);
        if let (Some((follower, node)), true) = (follower, hands_over) {
            let follower = &mut state.clients[usize::from(follower)];
            follower.ties.handed_over = follower.is_waiting().then_some(node);
        }
        let sees_further = state.clients[client].ties.listens_further.is_some();
        if sees_further {
            state.leads_with(client, None);
        }
        state.clients[client].phase = if sees_further { Phase::SeesFurther } else { Phase::Gone };
    }

    /// It leaves: whoever comes next has to look who is in front. By the numbers, it could be somebody in the next
    /// directory.
    pub(crate) fn leave(&self, state: &mut State, client: usize) {
        if self.recipe != Recipe::CountsAcrossDirectories {
            state.forget(client);
        }
        state.clients[client].leave();
        let next = state.clients[client].ties.follower;
        let further = next.and_then(|(next, _)| state.clients[usize::from(next)].ties.follower);
        let unheard = |next: Option<(u8, u8)>| next.filter(|next| !state.listens_already(*next));
        let (next, further) = (unheard(next), unheard(further));
        let (soon, next) =
            if next.is_some_and(|next| state.is_asked_for(next)) { (next, None) } else { (None, next) };
        let ties = &mut state.clients[client].ties;
        (ties.listens_for, ties.listens_soon, ties.listens_further) = (next, soon, further);
        if self.is_of_many(&state.clients[client]) {
            state.clients[client].hears_no_more();
        }
        self.stands(state, client);
    }

    /// An attempt has failed, or a withdrawal.
    pub(crate) fn has_failed(&self, state: &mut State, client: usize) {
        state.clients[client].fail();
        if matches!(state.clients[client].phase, Phase::Leave(_)) {
            state.clients[client].ties.listens_for_nobody();
            state.leads_with(client, None);
        }
        self.stands(state, client);
    }

    /// Its session is over as far as the process knows.
    pub(crate) fn begin_session(&self, state: &mut State, process: u8) {
        let those = state.of_process(process);
        those.iter().for_each(|client| state.clients[*client].begin_session());
        those.iter().for_each(|client| self.stands(state, *client));
    }
}

impl State {
    /// The claim is not who came last any more.
    pub(crate) fn forget(&mut self, client: usize) {
        self.last = self.last.filter(|last| usize::from(last.client) != client);
    }

    pub(crate) fn has_open_create(&self, process: u8, session: u8) -> bool {
        self.clients.iter().any(|client| client.process == process && client.open == Some(session))
    }

    pub(crate) fn of_process(&self, process: u8) -> Vec<usize> {
        (0..self.clients.len()).filter(|client| self.clients[*client].process == process).collect()
    }
}

impl Client {
    /// What it would hear from now on makes no difference.
    pub(crate) fn hears_no_more(&mut self) {
        (self.watch, self.told, self.asks_again) = (None, false, false);
        (self.ties.hears, self.ties.listens_to) = (Hears::Itself, ListensTo::NotItself);
        (self.deleted_by_hand, self.knows_of_its_end) = (false, false);
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.is_here() && self.phase != Phase::Absent && self.holds_by.is_none()
    }

    /// True if it has not left, and is not about to.
    pub(crate) fn is_here(&self) -> bool {
        use Phase::{Gone, Leave, Left, Sees, SeesFurther};
        !matches!(self.phase, Leave(_) | Sees(_) | Left(_) | SeesFurther | Gone)
    }

    /// Stands behind another of its process, and listens to nothing.
    pub(crate) fn follows(&mut self, node: u8, before: u8) {
        self.standing = Standing::Known { session: self.session, node, watched: before };
        (self.phase, self.watch, self.ties.hears) = (Phase::Rest, None, Hears::OfThatClaim);
        self.ties.listens_to = ListensTo::ItselfLater;
    }
}
