use crate::{Claim, FencingToken, Grant, HolderInfo, LockName, LockStatus, Moment, OwnerId};
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
    /// That of the present grant, or of the last one.
    pub(super) token: FencingToken,
    /// The last token of the name; the next one is larger.
    last: FencingToken,
    holder: String,
    since: SystemTime,
}

impl Store {
    /// The entry of a name that is not free now.
    pub(super) fn held(&mut self, name: &LockName, now: Moment) -> Option<&mut Entry> {
        self.entries.get_mut(name).filter(|entry| entry.ends_at > now)
    }

    /// Grants a name that is free; `None` if its tokens are used up.
    pub(super) fn grant(&mut self, claim: &Claim, now: Moment) -> Option<Grant> {
        let last = self.entries.get(claim.name()).map(|entry| entry.last);
        let token = FencingToken::after(last, now.nanos() / 1000)?;
        let tokens =
            if token.last_of(claim.tokens()).get() <= FencingToken::MAX_COUNTED { claim.tokens() } else { 1 };
        let entry = Entry {
            owner: Some(claim.owner()),
            ends_at: now.plus(claim.ttl()),
            token,
            last: token.last_of(tokens),
            holder: claim.holder().to_owned(),
            since: SystemTime::now(),
        };
        self.entries.insert(claim.name().clone(), entry);
        Some(Grant::new(token).with_tokens(tokens))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockName;
    use std::time::Duration;

    #[test]
    fn tokens_that_were_reserved_are_given_to_nobody_else() {
        let name = LockName::new("job").unwrap();
        let claim = |owner, tokens| {
            let owner = OwnerId::from_u128(owner);
            Claim::new(name.clone(), owner, Duration::from_secs(1), "".into()).with_tokens(tokens)
        };
        let (mut store, now) = (Store::default(), Moment::ORIGIN);

        let block = store.grant(&claim(1, 64), now).unwrap();
        assert_eq!(block.tokens, 64);
        let next = store.grant(&claim(2, 1), now).unwrap();
        assert!(next.token > block.token.last_of(64), "{next:?} after {block:?}");
        assert_eq!(next.tokens, 1);
    }
}
