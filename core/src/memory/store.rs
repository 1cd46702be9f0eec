use crate::{Claim, FencingToken, Grant, HolderInfo, LockName, LockStatus, Moment, OwnerId};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The least number of entries that is swept.
const LEAST_TO_SWEEP: usize = 64;

/// The entries of a server. An entry outlives its hold until the clock alone makes the next token larger.
#[derive(Debug, Default)]
pub(super) struct Store {
    entries: BTreeMap<LockName, Entry>,
    /// The number of entries at which those are removed that have ended without a release.
    swept_at: usize,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// `None` after a release, also while it lingers.
    pub(super) owner: Option<OwnerId>,
    pub(super) ends_at: Moment,
    /// The token of the present grant, or of the last one. The next token is larger.
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
    pub(super) fn grant(&mut self, claim: &Claim, now: Moment) -> Option<Grant> {
        self.sweep(now);
        let last = self.entries.get(claim.name()).map(|entry| entry.token);
        let token = FencingToken::after(last, micros(now))?;
        let entry = Entry {
            owner: Some(claim.owner()),
            ends_at: now.plus(claim.ttl()),
            token,
            holder: claim.holder().to_owned(),
            since: SystemTime::now(),
        };
        self.entries.insert(claim.name().clone(), entry);
        Some(Grant::new(token))
    }

    /// Ends the hold of a name, and keeps others out until `until`.
    pub(super) fn end(&mut self, name: &LockName, until: Moment, now: Moment) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        (entry.owner, entry.ends_at) = (None, until);
        if entry.may_be_forgotten(now) {
            self.entries.remove(name);
        }
    }

    /// Each time that the number of entries has doubled.
    fn sweep(&mut self, now: Moment) {
        if self.entries.len() >= self.swept_at {
            self.entries.retain(|_, entry| !entry.may_be_forgotten(now));
            self.swept_at = (2 * self.entries.len()).max(LEAST_TO_SWEEP);
        }
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

impl Entry {
    /// True if the name is free and the clock alone makes its next token larger.
    fn may_be_forgotten(&self, now: Moment) -> bool {
        self.ends_at <= now && self.token.get() < micros(now)
    }
}

fn micros(now: Moment) -> u64 {
    now.nanos() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockName;
    use std::time::Duration;

    const TTL: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Moment {
        Moment::since_origin(Duration::from_millis(millis))
    }

    fn claim_of(name: &str) -> Claim {
        Claim::new(LockName::new(name).unwrap(), OwnerId::from_u128(1), TTL, "".into())
    }

    /// A service that locks each invoice once must not fill the memory.
    #[test]
    fn free_name_is_forgotten_once_the_clock_has_passed_its_token() {
        let mut store = Store::default();
        let mut last = None;
        for number in 0..10 * LEAST_TO_SWEEP as u64 {
            let claim = claim_of(&format!("invoice/{number}"));
            store.grant(&claim, at(number)).unwrap();
            store.end(claim.name(), at(number), at(number + 1));
            // Not released: this hold ends with its lease.
            store.grant(&claim_of(&format!("left/{number}")), at(number)).unwrap();
            let often = store.grant(&claim_of("job"), at(number)).unwrap();
            assert!(last.replace(often.token) < Some(often.token));
            store.end(claim_of("job").name(), at(number), at(number + 1));
        }
        assert!(
            store.entries.len() <= 2 * TTL.as_millis() as usize + LEAST_TO_SWEEP,
            "{}",
            store.entries.len()
        );
        assert!(store.names().all(|name| name.as_str().starts_with("left/")));
    }

    #[test]
    fn token_that_is_ahead_of_the_clock_is_kept() {
        let (mut store, claim) = (Store::default(), claim_of("job"));
        let mut last = None;
        for _ in 0..3 {
            let grant = store.grant(&claim, Moment::ORIGIN).unwrap();
            assert!(last.replace(grant.token) < Some(grant.token));
            store.end(claim.name(), Moment::ORIGIN, Moment::ORIGIN);
        }
    }
}
