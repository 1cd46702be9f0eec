//! The states of the two clients: the holder with its pending call, and the competitor.

use crate::cluster::KeyStatus;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) phase: Phase,
    /// The lease of its key, as far as it knows.
    pub(crate) lease: usize,
    /// That lease does not end earlier, by the holder's own clock.
    pub(crate) lease_valid_until: u8,
    pub(crate) call: Option<Call>,
    /// Writes of abandoned calls that may still be proposed.
    pub(crate) late_create: bool,
    pub(crate) late_move: bool,
    /// True while its move has no answer.
    pub(crate) is_moving: bool,
    /// The release, until it is proposed.
    pub(crate) late_release: bool,
    /// History variables: the term in which the lock was granted, 0 if never; and whether a later leader has renewed it.
    pub(crate) granted_term: u8,
    pub(crate) is_carried_over: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// `created` is true once a create was answered; before that there may be a key.
    Claiming {
        created: bool,
    },
    /// Believes to hold the lock until then, by its own clock.
    Holding {
        until: u8,
    },
    /// Knows that it no longer holds the lock.
    Lost,
    Done,
}

/// The extension of a lease, and a transaction at the same time: `Connection::prove`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) sent_at: u8,
    pub(crate) request: Request,
    /// The lease to extend.
    pub(crate) lease: usize,
    /// The same member, unless `two_members` is set.
    pub(crate) extension_member: usize,
    pub(crate) transaction_member: usize,
    pub(crate) extension: ExtensionState,
    pub(crate) transaction: TransactionState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Create,
    Read,
    Move,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExtensionState {
    Sent,
    /// The response header is filled before the lease is extended.
    Begun {
        term: u8,
    },
    Answered {
        term: u8,
        is_alive: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TransactionState {
    /// `index` is the number of committed entries when it was sent.
    Sent {
        index: usize,
    },
    /// A write that the leader has appended to its log.
    Proposed,
    /// A read for which a majority has confirmed the leader; the member answers once it has applied `index` entries.
    Confirmed {
        index: usize,
    },
    /// The response header is not filled yet.
    Executed {
        status: KeyStatus,
    },
    Answered {
        term: u8,
        status: KeyStatus,
    },
}

/// All other clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Competitor {
    #[default]
    Idle,
    Waiting,
    Holding,
    Done,
}

impl Holder {
    pub(crate) fn believes(&self, time: u8) -> bool {
        matches!(self.phase, Phase::Holding { until } if time < until)
    }

    /// The transaction of its next call, unless that is a move.
    pub(crate) fn next_request(&self) -> Option<Request> {
        match self.phase {
            Phase::Idle | Phase::Claiming { created: false } => Some(Request::Create),
            Phase::Claiming { created: true } | Phase::Holding { .. } => Some(Request::Read),
            Phase::Lost | Phase::Done => None,
        }
    }

    /// Ends the call without its answers. A write that is not in a log yet may be proposed later.
    pub(crate) fn abandon_call(&mut self) {
        let Some(call) = self.call.take() else { return };
        if matches!(call.transaction, TransactionState::Sent { .. }) {
            self.late_create |= call.request == Request::Create;
            self.late_move |= call.request == Request::Move;
        }
    }

    /// Ends the claim: its key or its lease is gone.
    pub(crate) fn lose(&mut self) {
        self.abandon_call();
        self.phase = match self.phase {
            Phase::Holding { .. } => Phase::Lost,
            _ => Phase::Done,
        };
    }
}
