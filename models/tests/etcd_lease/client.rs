//! The state of the holder, a client in every detail, with the call that it has under way.

use crate::cluster::Found;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) phase: Phase,
    /// The lease on which it knows its key.
    pub(crate) lease: usize,
    /// By its own clock, that lease lives at least until then.
    pub(crate) lives_until: u8,
    pub(crate) call: Option<Call>,
    /// Writes without an answer that may still be carried out.
    pub(crate) late_create: bool,
    pub(crate) late_move: bool,
    /// True while it knows of no answer to its move.
    pub(crate) is_moving: bool,
    /// The write of its release, until that is carried out.
    pub(crate) late_release: bool,
    /// No part of the protocol: the term in which it was granted the lock, 0 if never; and whether a later leader renewed it.
    pub(crate) granted_in: u8,
    pub(crate) is_carried_over: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Absent,
    /// Has, or may have, a key.
    Claiming {
        created: bool,
    },
    /// Believes so long, by its own clock.
    Holding {
        until: u8,
    },
    /// Held, and knows that it does no more.
    Lost,
    Gone,
}

/// The extension of a lease beside a transaction. See `Connection::prove`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) sent_at: u8,
    pub(crate) request: Request,
    /// The lease to extend.
    pub(crate) lease: usize,
    /// The members that are asked for the extension and for the transaction: the same one, unless that is explored.
    pub(crate) extended_at: usize,
    pub(crate) asked_at: usize,
    pub(crate) extension: Extension,
    pub(crate) answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Create,
    Look,
    Move,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Extension {
    Sent,
    /// The header is filled before the lease is extended.
    Begun {
        term: u8,
    },
    Answered {
        term: u8,
        lives: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    /// Sent when so many entries were committed.
    Sent {
        index: usize,
    },
    /// A write that is in the log of the leader of its time.
    Proposed,
    /// A read for which a majority has confirmed the leader: the member answers once it has applied as much.
    Confirmed {
        index: usize,
    },
    /// Carried out. The header is filled afterwards.
    CarriedOut {
        found: Found,
    },
    Answered {
        term: u8,
        found: Found,
    },
}

/// Another client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Rival {
    #[default]
    Absent,
    Waiting,
    Holding,
    Gone,
}

impl Holder {
    pub(crate) fn believes(&self, time: u8) -> bool {
        matches!(self.phase, Phase::Holding { until } if time < until)
    }

    /// The request of its next call, apart from a move.
    pub(crate) fn next_request(&self) -> Option<Request> {
        match self.phase {
            Phase::Absent | Phase::Claiming { created: false } => Some(Request::Create),
            Phase::Claiming { created: true } | Phase::Holding { .. } => Some(Request::Look),
            Phase::Lost | Phase::Gone => None,
        }
    }

    /// Its call is over without an answer. A write that is in no log yet may come there later.
    pub(crate) fn abandon(&mut self) {
        let Some(call) = self.call.take() else { return };
        if matches!(call.answer, Answer::Sent { .. }) {
            self.late_create |= call.request == Request::Create;
            self.late_move |= call.request == Request::Move;
        }
    }

    /// The key or its lease has ended.
    pub(crate) fn lose(&mut self) {
        self.abandon();
        self.phase = match self.phase {
            Phase::Holding { .. } => Phase::Lost,
            _ => Phase::Gone,
        };
    }
}
