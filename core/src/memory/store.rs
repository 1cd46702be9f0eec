use crate::{Claim, FencingToken, HolderInfo, LockName, LockStatus, Moment, OwnerId};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// What a server would keep: the entry of each name, and its last token beyond the entry's end.
#[derive(Debug, Default)]
pub(super) struct Store {
    entries: BTreeMap<LockName, Entry>,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// `None` once it was released, whether or not it lingers.
    pub(super) owner: Option<OwnerId>,
    pub(super) ends_at: Moment,
    /// The last token of the name; the next one is larger.
    pub(super) token: FencingToken,
    holder: String,
    since: SystemTime,
}

impl Store {
    /// The entry of a name that is not free now.
    pub(super) fn held(&mut self, name: &LockName, now: Moment) -> Option<&mut Entry> {
        self.entries.get_mut(name).filter(|entry| entry.ends_at > now)
    }

    /// Grants a name that is free; `None` if its tokens are used up.
    pub(super) fn grant(&mut self, claim: &Claim, now: Moment) -> Option<FencingToken> {
        let last = self.entries.get(claim.name()).map(|entry| entry.token);
        let token = FencingToken::after(last, now.nanos() / 1000)?;
        let entry = Entry {
            owner: Some(claim.owner()),
            ends_at: now.plus(claim.ttl()),
            token,
            holder: claim.holder().to_owned(),
            since: SystemTime::now(),
        };
        self.entries.insert(claim.name().clone(), entry);
        Some(token)
    }

    pub(super) fn status(&self, name: &LockName, now: Moment) -> Option<LockStatus> {
        let entry = self.entries.get(name).filter(|entry| entry.ends_at > now)?;
        let mut status = LockStatus::new(name.clone());
        status.owner = entry.owner;
        status.token = Some(entry.token);
        status.holder = HolderInfo::from_json(&entry.holder);
        status.acquired_at = Some(entry.since);
        status.ends_in = Some(entry.ends_at.since(now));
        Some(status)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &LockName> {
        self.entries.keys()
    }
}
