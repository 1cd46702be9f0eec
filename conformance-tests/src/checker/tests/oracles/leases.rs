//! One after the other, leases that end, outcomes that nobody knows.

use super::oracle;
use crate::checker::Rule;

#[test]
fn one_after_the_other_is_a_lock() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        let second = h.grant((23, 25), 2);
        h.release(second, (30, 32));
    });
}

#[test]
fn a_grant_may_be_made_as_soon_as_the_release_may_have_arrived() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.grant((15, 20), 2);
        h.release(first, (20, 22));
    });
}

#[test]
fn a_grant_before_the_release_was_even_asked_for_is_a_second_owner() {
    oracle(&[Rule::Exclusion, Rule::Belief], |h| {
        let first = h.grant((10, 12), 1);
        h.grant((15, 19), 2);
        h.release(first, (20, 22));
    });
}

#[test]
fn a_lease_without_renewal_may_end() {
    oracle(&[], |h| {
        h.grant((10, 12), 1);
        h.grant((990, 998), 2);
    });
}

#[test]
fn a_lease_does_not_end_before_its_time() {
    oracle(&[Rule::Exclusion, Rule::Belief], |h| {
        h.grant((10, 12), 1);
        h.grant((990, 997), 2);
    });
}

#[test]
fn a_lease_begins_no_earlier_than_the_one_before_has_ended() {
    oracle(&[], |h| {
        h.grant((10, 12), 1);
        let second = h.grant_until((20, 1000), 2, 1986);
        h.is_told_of_its_loss(second, 1001);
        h.grant((990, 1986), 3);
    });
    // The second one waited. It cannot have had the lock before 998, nor the third before 1986.
    oracle(&[Rule::Exclusion], |h| {
        h.grant((10, 12), 1);
        let second = h.grant_until((20, 1000), 2, 1986);
        h.is_told_of_its_loss(second, 1001);
        h.grant((990, 1985), 3);
    });
}

#[test]
fn a_renewal_carries_a_lease_on() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.renew(first, (500, 502));
        h.grant((1400, 1488), 2);
    });
    oracle(&[Rule::Exclusion, Rule::Belief], |h| {
        let first = h.grant((10, 12), 1);
        h.renew(first, (500, 502));
        h.grant((1400, 1487), 2);
    });
}

#[test]
fn a_renewal_of_unknown_outcome_carries_nothing_on_for_sure() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.renew_unknown(first, (500, 502));
        h.grant((990, 998), 2);
    });
}

#[test]
fn a_release_of_unknown_outcome_may_free_the_lock_at_once() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.release_unknown(first, (20, 22));
        h.grant((18, 21), 2);
    });
    oracle(&[Rule::Exclusion, Rule::Belief], |h| {
        let first = h.grant((10, 12), 1);
        h.release_unknown(first, (20, 22));
        h.grant((18, 19), 2);
    });
}

#[test]
fn a_release_of_unknown_outcome_may_as_well_have_failed() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.release_unknown(first, (20, 22));
        h.refused((900, 902));
        h.grant((990, 998), 2);
    });
}

#[test]
fn an_acquisition_of_unknown_outcome_disturbs_nobody() {
    oracle(&[], |h| {
        h.unanswered(5);
        let first = h.grant((10, 12), 1);
        h.left((11, 13));
        h.release(first, (20, 22));
        h.unanswered(21);
        h.grant((23, 25), 2);
    });
}
