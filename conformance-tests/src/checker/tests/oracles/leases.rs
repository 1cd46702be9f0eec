//! One after the other, leases that end, outcomes that nobody knows.

use super::oracle;
use crate::checker::Rule;

#[test]
fn grants_that_do_not_overlap_are_accepted() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        let second = h.grant((23, 25), 2);
        h.release(second, (30, 32));
    });
}

#[test]
fn grant_as_soon_as_the_release_may_have_arrived_is_accepted() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.grant((15, 20), 2);
        h.release(first, (20, 22));
    });
}

#[test]
fn grant_before_the_release_was_asked_for_is_a_second_owner() {
    oracle(&[Rule::Exclusion, Rule::Belief], |h| {
        let first = h.grant((10, 12), 1);
        h.grant((15, 19), 2);
        h.release(first, (20, 22));
    });
}

#[test]
fn lease_without_renewal_may_end() {
    oracle(&[], |h| {
        h.grant((10, 12), 1);
        h.grant((990, 998), 2);
    });
}

#[test]
fn grant_before_the_end_of_a_lease_is_a_second_owner() {
    oracle(&[Rule::Exclusion, Rule::Belief], |h| {
        h.grant((10, 12), 1);
        h.grant((990, 997), 2);
    });
}

#[test]
fn lease_begins_no_earlier_than_the_previous_lease_ended() {
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
fn renewal_carries_a_lease_on() {
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
fn renewal_of_unknown_outcome_may_carry_nothing_on() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.renew_unknown(first, (500, 502));
        h.grant((990, 998), 2);
    });
}

#[test]
fn release_of_unknown_outcome_may_free_the_lock_at_once() {
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
fn release_of_unknown_outcome_may_have_failed() {
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.release_unknown(first, (20, 22));
        h.refused((900, 902));
        h.grant((990, 998), 2);
    });
}

#[test]
fn acquisition_of_unknown_outcome_disturbs_no_other() {
    oracle(&[], |h| {
        h.unanswered(5);
        let first = h.grant((10, 12), 1);
        h.left((11, 13));
        h.release(first, (20, 22));
        h.unanswered(21);
        h.grant((23, 25), 2);
    });
}
