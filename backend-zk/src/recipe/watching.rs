//! Step 3.

use super::{Recipe, token};
use crate::bell::Ahead;
use crate::node::{Neighbours, Node};
use crate::place::Place;
use crate::session::{Listening, Outcome, Trouble, Whose};
use crate::standing::{Behind, Hears, Standing, Stood};
use std::sync::Arc;

/// A place in the line that is not the first.
#[derive(Clone, Copy)]
pub(super) struct InLine<'a> {
    pub(super) node: &'a str,
    pub(super) before: &'a str,
    /// What is known of the node for certain.
    pub(super) stood: Option<Stood>,
    /// True if it listens to the node, since it has read it in this attempt. To begin anew would be to forget what it has heard.
    pub(super) listens: bool,
}

/// What came of following the claim in front.
pub(super) enum Followed {
    Told,
    /// It is not of this process, or cannot tell.
    Not,
    /// There is nobody to tell: its own node is gone.
    Gone,
}

impl Recipe<'_> {
    /// Step 3 where the node in front is of a claim of this process, which tells when it is gone.
    pub(super) async fn follow(
        &self,
        standing: &mut Standing,
        InLine { node, before, stood, listens }: InLine<'_>,
    ) -> Outcome<Followed> {
        let (before, session) = (Node::from(before), self.turn.session());
        let (Some(made), Some((front, number))) =
            (stood.map(|stood| stood.made()), self.of_this_process(&before))
        else {
            return Ok(Followed::Not);
        };
        // First, so that neither the word of that claim is missed nor that of a watch.
        if !listens {
            self.place.bell.listen();
        }
        if self.place.bell.is_doubted() {
            return Ok(Followed::Not);
        }
        let listening = match self.place.follow(&front, session.id(), number, made) {
            None => return Ok(Followed::Not),
            Some(Ahead::Waits) => Listening::to_nothing_yet(),
            Some(Ahead::Holds) => {
                match self.turn.read_and_watch_listening(&self.path(node), Whose::Own, self.place).await {
                    Err(Trouble::NoNode) => return Ok(Followed::Gone),
                    Ok((stat, _)) if token(&stat) != made => return Ok(Followed::Gone),
                    read => read?.1,
                }
            }
        };
        let (session, nodes) = (Arc::clone(session), self.neighbours(node, before));
        let hears = Hears::ToldByFront { looks_ahead: false };
        self.waits(standing, Behind { session, nodes, stood, hears, listening });
        Ok(Followed::Told)
    }

    fn of_this_process(&self, node: &Node) -> Option<(Arc<Place>, i32)> {
        let (owner, number) = node.numbered()?;
        self.places.of(owner).map(|place| (place, number))
    }

    /// Step 3. False if nobody is in front any more.
    pub(super) async fn watch(
        &self,
        standing: &mut Standing,
        InLine { node, before, stood, listens }: InLine<'_>,
    ) -> Outcome<bool> {
        if !listens {
            self.place.bell.listen();
        }
        let path = self.path(before);
        let read = self.turn.read_and_watch_listening(&path, Whose::Another, self.place).await;
        let listening = match read {
            Err(Trouble::NoNode) => return Ok(false),
            read => read?.1,
        };
        let (session, nodes) = (Arc::clone(self.turn.session()), self.neighbours(node, before.into()));
        self.waits(standing, Behind { session, nodes, stood, hears: Hears::WatchesFront, listening });
        Ok(true)
    }

    fn neighbours(&self, node: &str, before: Node) -> Neighbours {
        Neighbours::new(self.claim.owner(), node.into(), before)
    }

    fn waits(&self, standing: &mut Standing, behind: Behind) {
        self.stands(standing, Standing::Behind(behind));
    }

    /// Asked again although nothing was heard: looks only whether the node in front is still there, and answers so. The line is not listed
    /// for it, which in a line of thousands would be megabytes for each of thousands. Who does not listen to its own node looks
    /// at that one every other time.
    pub(super) async fn recheck_front(&self, standing: &mut Standing) -> Outcome<bool> {
        let Standing::Behind(behind) = standing else {
            return Ok(false);
        };
        if self.place.bell.has_fired() || behind.session.id() != self.turn.session().id() {
            return Ok(false);
        }
        // A read proves nothing.
        if let Some(stood) = &mut behind.stood {
            stood.has_proved_nothing();
        }
        let node = behind.nodes.own(self.claim.owner()).to_string();
        let (before, stood) = (behind.nodes.before().to_string(), behind.stood);
        match behind.hears {
            Hears::WatchesFront | Hears::MayWatchFront => {
                behind.hears = Hears::MayWatchFront;
                self.watch(standing, InLine { node: &node, before: &before, stood, listens: false }).await
            }
            Hears::Nothing => Ok(false),
            Hears::ToldByFront { looks_ahead } => {
                let looks_ahead = looks_ahead || !behind.listening.is_deaf();
                behind.hears = Hears::ToldByFront { looks_ahead: !looks_ahead };
                let looked_at = if looks_ahead { &before } else { &node };
                match self.turn.read(&self.path(looked_at)).await {
                    Err(Trouble::NoNode) => Ok(false),
                    Ok((_, stat)) => {
                        Ok(looks_ahead || stood.is_none_or(|stood| stood.made() == token(&stat)))
                    }
                    Err(trouble) => Err(trouble),
                }
            }
        }
    }
}
