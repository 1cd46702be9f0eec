//! The state of the cluster: the raft log, and two of its three members.
//!
//! The third member only votes and acknowledges, always in the current term. A leader therefore has a majority exactly while its term
//! is the current one.

pub(crate) const MEMBERS: usize = 2;
/// The duration of a lease, in ticks.
pub(crate) const TTL: u8 = 2;
/// The leases of the holder: the key is created on the first, and may be moved to the second.
pub(crate) const LEASES: usize = 2;
pub(crate) const FIRST: usize = 0;
pub(crate) const SECOND: usize = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cluster {
    /// The current term.
    pub(crate) term: u8,
    pub(crate) members: [Member; MEMBERS],
    /// The log of the current leader, without the entries that both members have applied.
    pub(crate) log: Vec<Entry>,
    /// The number of committed entries. An election may drop or keep the entries after them.
    pub(crate) committed: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    /// The term that it knows, which may be older than the current one.
    pub(crate) term: u8,
    /// True if it was elected in `term`.
    pub(crate) leads: bool,
    /// The number of applied entries of the log.
    pub(crate) applied: usize,
    pub(crate) store: Store,
    /// The remaining ticks of each lease, as a leader counts them.
    pub(crate) remaining: [u8; LEASES],
}

/// The result of the applied entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// The term of the last applied entry, which every response header has.
    pub(crate) term: u8,
    /// In the order of the create revisions.
    pub(crate) keys: Vec<Key>,
    pub(crate) ended: [bool; LEASES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Holder { lease: usize },
    Competitor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) term: u8,
    pub(crate) change: Change,
    /// True if the pending call of the holder proposed it.
    pub(crate) is_awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// The first entry of each leader.
    NoOp,
    Create,
    /// Puts the holder's key on the second lease.
    Move,
    Delete,
    /// Ends a lease and deletes its key.
    Revoke {
        lease: usize,
    },
    CreateCompetitor,
    DeleteCompetitor,
}

/// The holder's key, as a transaction finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeyStatus {
    /// There is no key: none was created, or its lease has ended.
    Missing,
    /// The transaction changed nothing: the key to create exists, or the lease to move it to has ended.
    CompareFailed,
    /// The competitor has an older key.
    Queued,
    /// It is the oldest key.
    Oldest { lease: usize },
}

impl Store {
    /// The lease of the holder's key, if there is one.
    fn lease(&self) -> Option<usize> {
        self.keys.iter().find_map(|key| match key {
            Key::Holder { lease } => Some(*lease),
            Key::Competitor => None,
        })
    }

    pub(crate) fn find(&self) -> KeyStatus {
        match (self.lease(), self.keys.first()) {
            (None, _) => KeyStatus::Missing,
            (Some(_), Some(Key::Competitor)) => KeyStatus::Queued,
            (Some(lease), _) => KeyStatus::Oldest { lease },
        }
    }

    /// Applies an entry, and returns the answer to the transaction that proposed it.
    pub(crate) fn apply(&mut self, entry: Entry) -> KeyStatus {
        self.term = entry.term;
        match entry.change {
            Change::Create if self.lease().is_some() => return KeyStatus::CompareFailed,
            Change::Create if self.ended[FIRST] => {}
            Change::Create => self.keys.push(Key::Holder { lease: FIRST }),
            Change::Move if self.ended[SECOND] => return KeyStatus::CompareFailed,
            Change::Move => {
                let keys = self.keys.iter_mut().filter(|key| **key != Key::Competitor);
                keys.for_each(|key| *key = Key::Holder { lease: SECOND });
            }
            Change::Delete => self.keys.retain(|key| *key == Key::Competitor),
            Change::Revoke { lease } => {
                self.ended[lease] = true;
                self.keys.retain(|key| *key != Key::Holder { lease });
            }
            Change::CreateCompetitor => self.keys.push(Key::Competitor),
            Change::DeleteCompetitor => self.keys.retain(|key| *key != Key::Competitor),
            Change::NoOp => {}
        }
        self.find()
    }
}

impl Cluster {
    /// The first member leads, and has granted the leases that have not `ended`.
    pub(crate) fn new(ended: [bool; LEASES]) -> Self {
        let store = Store { term: 1, keys: Vec::new(), ended };
        let member = |leads| Member {
            term: 1,
            leads,
            applied: 0,
            store: store.clone(),
            remaining: if leads { [TTL; LEASES] } else { [0; LEASES] },
        };
        Self { term: 1, members: [member(true), member(false)], log: Vec::new(), committed: 0 }
    }

    /// The store after all committed entries.
    pub(crate) fn committed_store(&self) -> Store {
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

    pub(crate) fn propose_and_commit(&mut self, change: Change) {
        self.propose(change, false);
        self.committed = self.log.len();
    }

    /// The number of committed entries after the next commit. A leader commits only an entry of its own term, and with it all earlier ones.
    pub(crate) fn next_commit(&self) -> Option<usize> {
        let own = self.log[self.committed..].iter().position(|entry| entry.term == self.term)?;
        Some(self.committed + own + 1)
    }

    /// The number of entries to apply before a linearizable read is answered that was sent when `index` entries were committed. `None`
    /// while the current leader has not committed its first entry: until then it serves no reads.
    pub(crate) fn read_index(&self, index: usize) -> Option<usize> {
        let is_first_of_leader = |entry: &Entry| entry.change == Change::NoOp && entry.term == self.term;
        let needed = self.log.iter().position(is_first_of_leader).map_or(0, |position| position + 1);
        (needed <= self.committed).then_some(needed.max(index))
    }

    /// The least number of uncommitted entries that the log of `winner` may have. The current leader has all of them.
    pub(crate) fn min_kept_entries(&self, winner: usize) -> usize {
        match self.members[winner].leads && self.members[winner].term == self.term {
            true => self.log.len() - self.committed,
            false => 0,
        }
    }

    /// The winner restarts every lease. The previous leader continues until it learns the new term.
    pub(crate) fn elect(&mut self, winner: usize, kept_entries: usize) {
        self.term += 1;
        self.log.truncate(self.committed + kept_entries);
        self.propose(Change::NoOp, false);
        let this = &mut self.members[winner];
        (this.term, this.leads, this.remaining) = (self.term, true, [TTL; LEASES]);
    }

    pub(crate) fn learn_term(&mut self, member: usize) {
        let this = &mut self.members[member];
        (this.term, this.leads) = (self.term, false);
    }

    pub(crate) fn may_apply(&self, member: usize) -> bool {
        let this = &self.members[member];
        this.applied < self.committed && self.log[this.applied].term <= this.term
    }

    /// The leader that extends a lease for this member: itself, or a leader of no older term that has applied no less.
    pub(crate) fn extending_leader(&self, member: usize) -> Option<usize> {
        let this = &self.members[member];
        let is_known =
            |other: &Member| other.leads && other.term >= this.term && other.applied >= this.applied;
        if this.leads { Some(member) } else { self.members.iter().position(is_known) }
    }

    pub(crate) fn may_revoke(&self, member: usize, lease: usize) -> bool {
        let this = &self.members[member];
        let is_revoked = |entry: &Entry| entry.change == Change::Revoke { lease };
        this.leads
            && this.remaining[lease] == 0
            && !this.store.ended[lease]
            && !self.log.iter().any(is_revoked)
    }

    /// Applies all committed entries, and lets all leases end.
    pub(crate) fn apply_and_expire_all(&mut self) {
        let store = self.committed_store();
        self.term = self.term.min(2);
        self.log.drain(..self.committed);
        self.committed = 0;
        for this in &mut self.members {
            (this.term, this.leads, this.applied, this.remaining) = (self.term, true, 0, [0; LEASES]);
            this.store = Store { term: 0, ..store.clone() };
        }
        self.log.iter_mut().for_each(|entry| (entry.term, entry.is_awaited) = (self.term, false));
    }

    /// Drops the entries that both members have applied, and counts of leases that are not read. Returns the number of dropped entries.
    pub(crate) fn compact(&mut self) -> usize {
        for this in &mut self.members {
            for (lease, remaining) in this.remaining.iter_mut().enumerate() {
                if !this.leads || this.store.ended[lease] {
                    *remaining = 0;
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
