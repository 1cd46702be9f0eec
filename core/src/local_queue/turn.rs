use super::LocalQueue;
use crate::{Claim, FencingToken, Grant, Moment, OwnerId};
use std::time::Duration;

/// The longest turn, as a part of the lease.
const PARTS: u32 = 3;

/// The time for which this process has the hold in the store.
#[derive(Debug)]
pub(super) struct Turn {
    /// The claim that the store knows. Whose it was may be gone by now.
    claim: Claim,
    holder: OwnerId,
    /// The token of the grant, by which one turn of a claim is told from the next.
    first: FencingToken,
    /// The holder's own.
    token: FencingToken,
    /// How many more may get it.
    left: u32,
    /// A moment before the last proof that the store keeps it for `lease`, which is counted from here.
    since: Moment,
    /// What whoever gets it is told: no more than was asked for, however far it was extended.
    lease: Duration,
    /// The end of what the store has confirmed.
    ends_at: Moment,
    pass_on_until: Moment,
}

impl Turn {
    /// The store has granted `claim`, some time after `since`.
    pub(super) fn begin(
        claim: Claim,
        holder: OwnerId,
        grant: &Grant,
        since: Moment,
        now: Moment,
        rule: LocalQueue,
    ) -> Self {
        let at_most = LocalQueue::LONGEST_TURN.min(claim.ttl() / PARTS);
        let lease = grant.lease.map_or(claim.ttl(), |lease| lease.min(claim.ttl()));
        Self {
            holder,
            first: grant.token,
            token: grant.token,
            left: grant.tokens.min(rule.grants()).saturating_sub(1),
            since,
            lease,
            ends_at: since.plus(lease),
            pass_on_until: now.plus(at_most),
            claim,
        }
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(super) fn holder(&self) -> OwnerId {
        self.holder
    }

    pub(super) fn first(&self) -> FencingToken {
        self.first
    }

    pub(super) fn since(&self) -> Moment {
        self.since
    }

    /// What its holder is told.
    pub(super) fn grant(&self) -> Grant {
        Grant::new(self.token).with_lease(self.lease).counted_from(self.since)
    }

    /// True from when the store need not keep it any more.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        now >= self.ends_at()
    }

    /// The end of the lease, unless it is renewed. No drift is allowed for: nobody's belief depends on this.
    pub(super) fn ends_at(&self) -> Moment {
        self.ends_at
    }

    /// True if one more may get it.
    pub(super) fn may_pass_on(&self, now: Moment) -> bool {
        self.left > 0 && now < self.pass_on_until && !self.is_over(now)
    }

    /// Makes `next` its holder, with the next token.
    pub(super) fn pass_to(&mut self, next: OwnerId) {
        self.holder = next;
        self.token = self.token.last_of(2);
        self.left = self.left.saturating_sub(1);
    }

    /// The holder has not taken its grant, and another takes its stead: the same token, which nobody has seen.
    pub(super) fn put_in(&mut self, other: OwnerId) {
        self.holder = other;
    }

    /// The store has confirmed that it keeps it for `lease` after `sent_at`.
    pub(super) fn confirmed(&mut self, sent_at: Moment, lease: Duration) {
        if lease >= self.lease {
            self.since = self.since.max(sent_at);
        }
        // Apart from `since`: who holds now may renew for less than an earlier holder has extended it by.
        self.ends_at = self.ends_at.max(sent_at.plus(lease));
        if lease > self.claim.ttl() {
            // Extended: who comes next asked for less, and shall not keep others out for longer if it crashes.
            self.left = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockName;
    use std::sync::Arc;

    const TTL: Duration = Duration::from_millis(300);

    fn turn() -> Turn {
        turn_of(TTL)
    }

    fn turn_of(ttl: Duration) -> Turn {
        let claim = Claim::new(LockName::new("job").unwrap(), OwnerId::from_u128(1), ttl, Arc::from(""));
        let (grant, now) = (Grant::new(FencingToken::new(7)).with_tokens(3), Moment::ORIGIN);
        Turn::begin(claim, OwnerId::from_u128(1), &grant, now, now, LocalQueue::new(3).unwrap())
    }

    #[test]
    fn a_turn_is_over_long_before_its_lease_is() {
        let turn = turn();
        assert!(turn.may_pass_on(Moment::ORIGIN));
        assert!(!turn.may_pass_on(Moment::since_origin(TTL / PARTS)));
        assert!(!turn.is_over(Moment::since_origin(TTL / PARTS)));
    }

    /// Other processes wait for it: of a short lease a third, and of a long one no more than they are told.
    #[test]
    fn a_turn_lasts_a_third_of_the_lease_and_never_longer_than_the_longest() {
        for (ttl, lasts) in [(90, 30), (60_000, 100)].map(|(ttl, lasts)| (Duration::from_millis(ttl), lasts))
        {
            let (turn, at) = (turn_of(ttl), |millis| Moment::since_origin(Duration::from_millis(millis)));
            assert!(turn.may_pass_on(at(lasts - 1)) && !turn.may_pass_on(at(lasts)), "{ttl:?}");
        }
    }

    #[test]
    fn a_renewal_leaves_the_turn_as_it_is_and_an_extension_ends_it() {
        let mut turn = turn();
        turn.confirmed(Moment::ORIGIN, TTL);
        assert!(turn.may_pass_on(Moment::ORIGIN));
        turn.confirmed(Moment::ORIGIN, TTL * 2);
        assert!(!turn.may_pass_on(Moment::ORIGIN));
    }

    /// Renewed in leases of its own length, which end before the longer one does, and later after it.
    #[test]
    fn who_was_passed_a_hold_whose_extension_was_confirmed_late_keeps_it_by_its_own_renewals() {
        let mut turn = turn();
        let at = |ttls: u32| Moment::since_origin(TTL * ttls);
        turn.pass_to(OwnerId::from_u128(2));
        turn.confirmed(Moment::ORIGIN, TTL * 4);
        assert_eq!((turn.ends_at(), turn.since()), (at(4), Moment::ORIGIN));
        turn.confirmed(at(1), TTL);
        assert_eq!((turn.ends_at(), turn.since()), (at(4), at(1)));
        turn.confirmed(at(4), TTL);
        assert_eq!((turn.ends_at(), turn.since()), (at(5), at(4)));
        assert_eq!(turn.grant().lease, Some(TTL), "no more than what it had asked for");
    }
}
