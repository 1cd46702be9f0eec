use crate::{
    Attempt, Busy, Claim, Error, FencingToken, Grant, HolderInfo, LockMode, LockName, LockStatus, Moment,
    OwnerId, Result,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How often a waiter asks. The tasks of one client wake each other; the clones of a store do not wake other clients.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// When the map reaches this size, entries that may be forgotten are removed.
const LEAST_TO_SWEEP: usize = 64;
/// How long readers give way to a writer that has asked and was refused. Longer than the pause of a waiter that is the first of
/// its client; the mark of a writer behind others may end between its questions.
const WRITER_MARK_TTL: Duration = POLL_INTERVAL.saturating_mul(4);

/// The entries of a server. An entry may be forgotten only when the clock is past its last token: the next token is then larger
/// without it.
#[derive(Debug, Default)]
pub(super) struct Store {
    entries: BTreeMap<LockName, Entry>,
    /// The number of entries at which those of free names are removed.
    sweep_threshold: usize,
}

#[derive(Debug, Default)]
struct Entry {
    /// In the order of their grants. Several only if all are shared. Holds that have ended stay until the next look.
    holds: Vec<HoldRecord>,
    /// The token of the last grant. The next token is larger.
    last_token: Option<FencingToken>,
    /// The writers that wait for readers to leave, and until when new readers give way to each.
    writer_marks: Vec<(OwnerId, Moment)>,
}

#[derive(Debug)]
struct HoldRecord {
    /// `None` after a release that lingers.
    owner: Option<OwnerId>,
    mode: LockMode,
    ends_at: Moment,
    token: FencingToken,
    holder: Arc<str>,
    since: SystemTime,
}

impl Store {
    /// Grants a claim, unless another owner's hold conflicts with it. A claim that holds already gets its token again.
    pub(super) fn grant(&mut self, claim: &Claim, now: Moment) -> Result<Attempt> {
        self.sweep(now);
        let end = now.plus(claim.ttl());
        let entry = self.entries.entry(claim.name().clone()).or_default();
        entry.holds.retain(|hold| hold.ends_at > now);
        if let Some(own) = entry.hold_of(claim.owner()) {
            own.ends_at = own.ends_at.max(end);
            return Ok(Attempt::Granted(Grant::new(own.token)));
        }
        entry.writer_marks.retain(|(owner, until)| *until > now && *owner != claim.owner());
        if let Some(until) = entry.conflict(claim, now) {
            let mut busy = Busy::new().with_end(until.since(now));
            if entry.is_to_be_marked(claim) {
                entry.writer_marks.push((claim.owner(), now.plus(WRITER_MARK_TTL)));
                busy = busy.with_place_in_queue();
            }
            return Ok(Attempt::Busy(busy));
        }
        let token = FencingToken::after(entry.last_token, micros(now));
        let token = token.ok_or_else(Error::tokens_used_up)?;
        entry.last_token = Some(token);
        entry.holds.push(HoldRecord {
            owner: Some(claim.owner()),
            mode: claim.mode(),
            ends_at: end,
            token,
            holder: Arc::clone(claim.holder()),
            since: SystemTime::now(),
        });
        Ok(Attempt::Granted(Grant::new(token)))
    }

    /// True if the claim is held; its lease then ends at `end` or later.
    pub(super) fn renew(&mut self, claim: &Claim, end: Moment, now: Moment) -> bool {
        let own = self.live_entry(claim.name(), now).and_then(|entry| entry.hold_of(claim.owner()));
        own.map(|own| own.ends_at = own.ends_at.max(end)).is_some()
    }

    /// Ends the hold of a claim, and its mark; keeps others out until `until`. False if it did not hold, also if it had a mark.
    pub(super) fn release(&mut self, claim: &Claim, until: Moment, now: Moment) -> bool {
        let Some(entry) = self.live_entry(claim.name(), now) else { return false };
        entry.writer_marks.retain(|(owner, _)| *owner != claim.owner());
        let released = entry.hold_of(claim.owner());
        released.map(|hold| (hold.owner, hold.ends_at) = (None, until)).is_some()
    }

    /// Ends the holds of a name, or the one with this token.
    pub(super) fn force_release(&mut self, name: &LockName, token: Option<FencingToken>, now: Moment) {
        if let Some(entry) = self.live_entry(name, now) {
            entry.holds.retain(|hold| token.is_some_and(|token| hold.token != token));
        }
    }

    /// True if the name is taken, also by a hold that lingers.
    pub(super) fn is_held(&mut self, name: &LockName, now: Moment) -> bool {
        self.live_entry(name, now).is_some_and(|entry| !entry.holds.is_empty())
    }

    /// The holds of a name, in the order of their grants.
    pub(super) fn status(&self, name: &LockName, now: Moment) -> Vec<LockStatus> {
        let holds = self.entries.get(name).map_or(&[][..], |entry| &entry.holds);
        holds.iter().filter(|hold| hold.ends_at > now).map(|hold| hold.status(name, now)).collect()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &LockName> {
        self.entries.keys()
    }

    /// An entry, after the removal of the holds that have ended.
    fn live_entry(&mut self, name: &LockName, now: Moment) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(name)?;
        entry.holds.retain(|hold| hold.ends_at > now);
        Some(entry)
    }

    /// Forgets free names, each time that the number of entries has doubled.
    fn sweep(&mut self, now: Moment) {
        if self.entries.len() >= self.sweep_threshold {
            self.entries.retain(|_, entry| !entry.may_be_forgotten(now));
            self.sweep_threshold = (2 * self.entries.len()).max(LEAST_TO_SWEEP);
        }
    }
}

impl Entry {
    fn hold_of(&mut self, owner: OwnerId) -> Option<&mut HoldRecord> {
        self.holds.iter_mut().find(|hold| hold.owner == Some(owner))
    }

    /// The moment until which others keep a claim out. New readers give way to the writers that have left a mark, also once the
    /// last reader has left.
    fn conflict(&self, claim: &Claim, now: Moment) -> Option<Moment> {
        let conflicts = self.holds.iter().filter(|hold| hold.mode.conflicts_with(claim.mode()));
        let held_until = conflicts.map(|hold| hold.ends_at).max();
        let marks = self.writer_marks.iter().map(|(_, until)| *until).filter(|until| *until > now);
        held_until.or_else(|| marks.max().filter(|_| claim.mode().is_shared()))
    }

    /// True for a writer that waits and is refused by readers. A writer that is refused by a writer leaves no mark: after each
    /// writer, readers and writers ask as equals.
    fn is_to_be_marked(&self, claim: &Claim) -> bool {
        claim.waits() && !claim.mode().is_shared() && self.holds.iter().any(|hold| hold.mode.is_shared())
    }

    /// True if the name is free and the clock alone makes its next token larger.
    fn may_be_forgotten(&self, now: Moment) -> bool {
        self.holds.iter().all(|hold| hold.ends_at <= now)
            && self.writer_marks.iter().all(|(_, until)| *until <= now)
            && self.last_token < Some(FencingToken::new(micros(now)))
    }
}

impl HoldRecord {
    fn status(&self, name: &LockName, now: Moment) -> LockStatus {
        let mut status = LockStatus::new(name.clone());
        status.owner = self.owner;
        status.mode = self.mode;
        status.token = Some(self.token);
        status.holder = HolderInfo::from_json(&self.holder);
        status.acquired_at = Some(self.since);
        status.ends_in = Some(self.ends_at.since(now));
        status
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

    /// The token of a claim that is granted now; `None` if it is refused.
    fn granted(store: &mut Store, claim: &Claim, now: Moment) -> Option<FencingToken> {
        match store.grant(claim, now).unwrap() {
            Attempt::Granted(grant) => Some(grant.token),
            Attempt::Busy(_) => None,
        }
    }

    /// A service that locks each invoice once must not fill the memory.
    #[test]
    fn free_name_is_forgotten_once_the_clock_has_passed_its_token() {
        let mut store = Store::default();
        let mut last = None;
        for number in 0..10 * LEAST_TO_SWEEP as u64 {
            let claim = claim_of(&format!("invoice/{number}"));
            granted(&mut store, &claim, at(number)).unwrap();
            store.release(&claim, at(number), at(number + 1));
            // Not released: this hold ends with its lease.
            granted(&mut store, &claim_of(&format!("left/{number}")), at(number)).unwrap();
            let token = granted(&mut store, &claim_of("job"), at(number)).unwrap();
            assert!(last.replace(token) < Some(token));
            store.release(&claim_of("job"), at(number), at(number + 1));
        }
        // A lease is left each millisecond, and the number may double between two sweeps.
        let most = 2 * TTL.as_millis() as usize + LEAST_TO_SWEEP;
        assert!(store.entries.len() <= most, "{}", store.entries.len());
    }

    /// Two writers wait for a reader, and one of them gives up.
    #[test]
    fn readers_give_way_while_any_writer_waits() {
        let mut store = Store::default();
        let claim = |owner, mode| {
            Claim::new(LockName::new("job").unwrap(), OwnerId::from_u128(owner), TTL, "".into())
                .with_mode(mode)
                .with_waiting(true)
        };
        let (reader, late) = (claim(1, LockMode::Shared), claim(4, LockMode::Shared));
        let writers = [claim(2, LockMode::Write), claim(3, LockMode::Exclusive)];
        granted(&mut store, &reader, at(1)).unwrap();
        for writer in &writers {
            assert!(matches!(store.grant(writer, at(1)), Ok(Attempt::Busy(Busy { queued: true, .. }))));
        }
        assert!(!store.release(&writers[1], at(2), at(2)));
        assert!(store.release(&reader, at(2), at(2)));
        assert!(granted(&mut store, &late, at(2)).is_none(), "a writer waits");
        granted(&mut store, &writers[0], at(2)).unwrap();
        store.release(&writers[0], at(3), at(3));
        granted(&mut store, &late, at(3)).unwrap();
    }

    #[test]
    fn token_that_is_ahead_of_the_clock_is_kept() {
        let (mut store, claim) = (Store::default(), claim_of("job"));
        let mut last = None;
        for _ in 0..3 {
            let token = granted(&mut store, &claim, Moment::ORIGIN).unwrap();
            assert!(last.replace(token) < Some(token));
            store.release(&claim, Moment::ORIGIN, Moment::ORIGIN);
        }
    }
}
