use crate::{Claim, FencingToken, Grant, HolderInfo, LockName, LockStatus, Moment, OwnerId};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Fewer entries are not looked through.
const LEAST_TO_SWEEP: usize = 64;

/// What a server would keep: the entry of each name, and its last token beyond the entry's end, for as long as the clock
/// alone would not make the next one larger.
#[derive(Debug, Default)]
pub(super) struct Store {
    entries: BTreeMap<LockName, Entry>,
    /// At so many entries, those are forgotten that have ended without a release.
    swept_at: usize,
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
        self.sweep(now);
        let last = self.entries.get(claim.name()).map(|entry| entry.last);
        let token = FencingToken::after(last, micros(now))?;
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

    /// Ends the hold of a name, and keeps others out until then.
    pub(super) fn end(&mut self, name: &LockName, until: Moment, now: Moment) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        (entry.owner, entry.ends_at) = (None, until);
        if entry.may_be_forgotten(now) {
            self.entries.remove(name);
        }
    }

    /// Not at each grant: as rarely as the number of entries doubles.
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
    /// True if nothing would be lost with it: the name is free, and its next token is larger by the clock alone.
    fn may_be_forgotten(&self, now: Moment) -> bool {
        self.ends_at <= now && self.last.get() < micros(now)
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

    /// A service that locks each of its invoices once would keep them all.
    #[test]
    fn of_a_free_name_nothing_is_kept_once_the_clock_has_passed_its_tokens() {
        let mut store = Store::default();
        let mut last = None;
        for number in 0..10 * LEAST_TO_SWEEP as u64 {
            let claim = claim_of(&format!("invoice/{number}"));
            store.grant(&claim, at(number)).unwrap();
            store.end(claim.name(), at(number), at(number + 1));
            // Left to its end.
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
    fn a_token_that_is_ahead_of_the_clock_is_kept() {
        let mut store = Store::default();
        let claim = claim_of("job").with_tokens(64);
        let block = store.grant(&claim, Moment::ORIGIN).unwrap();
        store.end(claim.name(), Moment::ORIGIN, Moment::ORIGIN);
        let next = store.grant(&claim_of("job"), Moment::ORIGIN).unwrap();
        assert!(next.token > block.token.last_of(64), "{next:?} after {block:?}");
    }

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
