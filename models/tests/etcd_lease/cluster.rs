//! The state of the cluster: the raft log, and two of its three members with what each believes.
//!
//! The third member only votes and acknowledges, always in the last term. So a leader has a majority as long as its term is the
//! last one, and none after that.

pub(crate) const MEMBERS: usize = 2;
/// The lease, in ticks.
pub(crate) const TTL: u8 = 2;
/// The leases of the holder: that of its create, and that to which its key may be moved.
pub(crate) const LEASES: usize = 2;
pub(crate) const FIRST: usize = 0;
pub(crate) const SECOND: usize = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cluster {
    /// The term of the last leader that was elected.
    pub(crate) term: u8,
    pub(crate) members: [Member; MEMBERS],
    /// The log of the last leader, without what both members have applied.
    pub(crate) log: Vec<Entry>,
    /// The number of entries that are committed. An election may drop the entries behind them, or keep them.
    pub(crate) committed: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    /// Its raft term: behind the last one until it hears of that.
    pub(crate) term: u8,
    /// True if it believes that it leads in its term.
    pub(crate) leads: bool,
    /// The number of entries of the log that it has applied.
    pub(crate) applied: usize,
    pub(crate) store: Store,
    /// A leader's own count of what is left of each lease.
    pub(crate) left: [u8; LEASES],
}

/// What the applied entries have made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// The term of the last applied entry: the term in the header of every answer.
    pub(crate) term: u8,
    /// The keys in the order of their create revisions.
    pub(crate) keys: Vec<Key>,
    pub(crate) ended: [bool; LEASES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Holder { lease: usize },
    Rival,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) term: u8,
    pub(crate) change: Change,
    /// True if the holder's call waits for its outcome.
    pub(crate) is_awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// The empty entry with which a leader begins.
    Begin,
    Create,
    /// Puts the holder's key on its second lease.
    Move,
    Delete,
    /// Ends a lease, and deletes the key on it.
    Revoke {
        lease: usize,
    },
    CreateRival,
    DeleteRival,
}

/// The part of an answer that tells of the holder's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Found {
    /// No key, or no lease to put it on.
    Nothing,
    /// The key of an earlier request, or a lease for a move that has ended: another step is needed.
    Other,
    Behind,
    /// The oldest key, on this lease.
    First {
        lease: usize,
    },
}

impl Store {
    /// The lease of the holder's key.
    fn lease(&self) -> Option<usize> {
        self.keys.iter().find_map(|key| match key {
            Key::Holder { lease } => Some(*lease),
            Key::Rival => None,
        })
    }

    pub(crate) fn find(&self) -> Found {
        match (self.lease(), self.keys.first()) {
            (None, _) => Found::Nothing,
            (Some(_), Some(Key::Rival)) => Found::Behind,
            (Some(lease), _) => Found::First { lease },
        }
    }

    /// Applies an entry. The answer is that to the request of which the entry is made.
    pub(crate) fn apply(&mut self, entry: Entry) -> Found {
        self.term = entry.term;
        match entry.change {
            Change::Create if self.lease().is_some() => return Found::Other,
            Change::Create if self.ended[FIRST] => {}
            Change::Create => self.keys.push(Key::Holder { lease: FIRST }),
            Change::Move if self.ended[SECOND] => return Found::Other,
            Change::Move => {
                let keys = self.keys.iter_mut().filter(|key| **key != Key::Rival);
                keys.for_each(|key| *key = Key::Holder { lease: SECOND });
            }
            Change::Delete => self.keys.retain(|key| *key == Key::Rival),
            Change::Revoke { lease } => {
                self.ended[lease] = true;
                self.keys.retain(|key| *key != Key::Holder { lease });
            }
            Change::CreateRival => self.keys.push(Key::Rival),
            Change::DeleteRival => self.keys.retain(|key| *key != Key::Rival),
            Change::Begin => {}
        }
        self.find()
    }
}

impl Cluster {
    /// The first member leads, and has started the leases that are not ended.
    pub(crate) fn new(ended: [bool; LEASES]) -> Self {
        let store = Store { term: 1, keys: Vec::new(), ended };
        let member = |leads| Member {
            term: 1,
            leads,
            applied: 0,
            store: store.clone(),
            left: if leads { [TTL; LEASES] } else { [0; LEASES] },
        };
        Self { term: 1, members: [member(true), member(false)], log: Vec::new(), committed: 0 }
    }

    /// What is committed, whoever has applied it.
    pub(crate) fn record(&self) -> Store {
        let [one, other] = &self.members;
        let ahead = if one.applied > other.applied { one } else { other };
        let mut store = ahead.store.clone();
        for entry in &self.log[ahead.applied..self.committed] {
            store.apply(*entry);
        }
        store
    }

    pub(crate) fn propose(&mut self, change: Change, is_awaited: bool) {
        self.log.push(Entry { term: self.term, change, is_awaited });
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.committed == self.log.len()
    }

    /// Proposes and commits in one step.
    pub(crate) fn carry_out(&mut self, change: Change) {
        self.propose(change, false);
        self.committed = self.log.len();
    }

    /// A leader commits an entry of its own term, and with it all entries before.
    pub(crate) fn next_commit(&self) -> Option<usize> {
        let own = self.log[self.committed..].iter().position(|entry| entry.term == self.term)?;
        Some(self.committed + own + 1)
    }

    /// How much a member has applied that answers a linearizable read which was sent when `index` entries were committed. `None`
    /// until the last leader has committed its first entry: only then it serves reads.
    pub(crate) fn read_index(&self, index: usize) -> Option<usize> {
        let begins = |entry: &Entry| entry.change == Change::Begin && entry.term == self.term;
        let begun = self.log.iter().position(begins).map_or(0, |begin| begin + 1);
        (begun <= self.committed).then_some(begun.max(index))
    }

    /// How many of the entries that are not committed the log of this member may have, at least. A leader has all of its own.
    pub(crate) fn least_kept(&self, winner: usize) -> usize {
        match self.members[winner].leads && self.members[winner].term == self.term {
            true => self.log.len() - self.committed,
            false => 0,
        }
    }

    /// The winner starts every lease anew. The leader before it goes on until it hears of the new term.
    pub(crate) fn elect(&mut self, winner: usize, kept: usize) {
        self.term += 1;
        self.log.truncate(self.committed + kept);
        self.propose(Change::Begin, false);
        let this = &mut self.members[winner];
        (this.term, this.leads, this.left) = (self.term, true, [TTL; LEASES]);
    }

    pub(crate) fn learn(&mut self, member: usize) {
        let this = &mut self.members[member];
        (this.term, this.leads) = (self.term, false);
    }

    pub(crate) fn may_apply(&self, member: usize) -> bool {
        let this = &self.members[member];
        this.applied < self.committed && self.log[this.applied].term <= this.term
    }

    /// The leader that carries out an extension for this member: itself, or the leader that it knows, which has applied as much.
    pub(crate) fn extender(&self, member: usize) -> Option<usize> {
        let this = &self.members[member];
        let is_known =
            |other: &Member| other.leads && other.term >= this.term && other.applied >= this.applied;
        if this.leads { Some(member) } else { self.members.iter().position(is_known) }
    }

    /// True if this member may end the lease: it has none of it left, by its own count.
    pub(crate) fn may_revoke(&self, member: usize, lease: usize) -> bool {
        let this = &self.members[member];
        let is_revoked = |entry: &Entry| entry.change == Change::Revoke { lease };
        this.leads && this.left[lease] == 0 && !this.store.ended[lease] && !self.log.iter().any(is_revoked)
    }

    /// All that is committed is applied, and all leases may be ended.
    pub(crate) fn settle(&mut self) {
        let store = self.record();
        self.term = self.term.min(2);
        self.log.drain(..self.committed);
        self.committed = 0;
        for this in &mut self.members {
            (this.term, this.leads, this.applied, this.left) = (self.term, true, 0, [0; LEASES]);
            this.store = Store { term: 0, ..store.clone() };
        }
        self.log.iter_mut().for_each(|entry| (entry.term, entry.is_awaited) = (self.term, false));
    }

    /// Drops what both members have applied, and what cannot matter. Returns the number of entries dropped.
    pub(crate) fn forget(&mut self) -> usize {
        for this in &mut self.members {
            for (lease, left) in this.left.iter_mut().enumerate() {
                if !this.leads || this.store.ended[lease] {
                    *left = 0;
                }
            }
        }
        let dropped = self.members.iter().map(|this| this.applied).min().unwrap_or_default();
        self.log.drain(..dropped);
        self.committed -= dropped;
        self.members.iter_mut().for_each(|this| this.applied -= dropped);
        dropped
    }
}
