//! Owners, tokens, beliefs, effects.

use super::super::script::{MILLI, Script};
use super::super::{model, rules};
use super::oracle;
use crate::checker::Rule;
use std::time::Duration;

#[test]
fn release_confirmed_to_a_former_owner_is_a_foreign_release() {
    oracle(&[Rule::OwnerOnly, Rule::Resurrection], |h| {
        let first = h.grant((10, 12), 1);
        h.is_told_of_its_loss(first, 998);
        h.grant((998, 1000), 2);
        h.release(first, (1100, 1102));
    });
    oracle(&[], |h| {
        let first = h.grant((10, 12), 1);
        h.is_told_of_its_loss(first, 998);
        h.grant((998, 1000), 2);
        h.release_refused(first, (1100, 1102));
    });
}

#[test]
fn foreign_release_is_found_where_a_keeper_may_have_renewed() {
    oracle(&[Rule::OwnerOnly], |h| {
        let first = h.kept_up((10, 12), 1);
        h.is_told_of_its_loss(first, 998);
        h.grant((998, 1000), 2);
        h.release(first, (1001, 1002));
    });
    oracle(&[], |h| {
        let first = h.kept_up((10, 12), 1);
        h.is_told_of_its_loss(first, 998);
        h.grant((998, 1001), 2);
        h.release(first, (1001, 1002));
    });
}

#[test]
fn renewal_confirmed_to_a_former_owner_is_a_foreign_renewal() {
    oracle(&[Rule::OwnerOnly], |h| {
        let first = h.kept_up((10, 12), 1);
        h.is_told_of_its_loss(first, 998);
        let second = h.grant((998, 1000), 2);
        h.release(second, (1003, 1005));
        h.renew(first, (1001, 1002));
    });
}

#[test]
fn renewal_confirmed_after_the_end_of_a_lease_is_found() {
    oracle(&[Rule::Resurrection], |h| {
        let only = h.grant((10, 12), 1);
        h.renew(only, (1025, 1027));
    });
    // A clock that is one in a hundred slower is within what is allowed for.
    oracle(&[], |h| {
        let only = h.grant((10, 12), 1);
        h.renew(only, (1024, 1027));
    });
    oracle(&[], |h| {
        let only = h.grant((10, 12), 1);
        h.renew_unknown(only, (900, 902));
        h.renew(only, (1025, 1027));
    });
}

#[test]
fn release_confirmed_after_the_end_of_its_lease_is_found() {
    oracle(&[Rule::Resurrection], |h| {
        let only = h.grant((10, 12), 1);
        h.release(only, (1025, 1027));
    });
}

#[test]
fn two_grants_with_one_token_are_found() {
    oracle(&[Rule::TokenUnique], |h| {
        let first = h.grant((10, 12), 7);
        h.release(first, (20, 22));
        h.grant((23, 25), 7);
    });
}

#[test]
fn later_grant_with_a_smaller_token_breaks_token_order_alone() {
    oracle(&[Rule::TokenOrder], |h| {
        let first = h.grant((10, 12), 7);
        h.release(first, (20, 22));
        h.grant((23, 25), 6);
    });
}

#[test]
fn answers_may_arrive_in_another_order_than_grants_were_made() {
    // The second one's answer overtook the first one's, whose lease was over by then.
    oracle(&[], |h| {
        let slow = h.grant((10, 1010), 1);
        h.is_told_of_its_loss(slow, 1010);
        h.grant((11, 1000), 2);
    });
}

#[test]
fn overlapping_beliefs_are_found_and_measured() {
    let mut h = Script::default();
    let first = h.grant((10, 12), 1);
    h.believes(first, 980, 1005);
    h.grant((990, 1000), 2);
    let report = h.check(&model());
    assert_eq!(report.violations.len(), 1, "{report}");
    assert_eq!(report.violations[0].rule, Rule::Belief);
    assert_eq!(report.measured.belief_overlap, Duration::from_millis(5));
}

#[test]
fn belief_ends_with_the_question_for_a_release_with_the_loss_and_with_death() {
    for end in ["release", "loss", "death"] {
        oracle(&[], |h| {
            let first = h.grant((10, 12), 1);
            h.believes(first, 900, 1100);
            match end {
                "release" => h.release_unknown(first, (1000, 1050)),
                "loss" => h.is_told_of_its_loss(first, 1000),
                _ => h.kill(first, 1000),
            }
            h.grant((990, 1000), 2);
        });
    }
}

#[test]
fn older_write_that_is_accepted_late_is_found() {
    let write = |h: &mut Script, late: Option<u64>| {
        let first = h.grant((10, 12), 1);
        h.writes(first, 13, true, 1, Some(1));
        h.is_told_of_its_loss(first, 990);
        let second = h.grant((998, 1000), 2);
        h.writes(second, 1001, true, 2, Some(2));
        h.writes(first, 1002, true, 1, late);
    };
    oracle(&[Rule::Effects], |h| write(h, Some(3)));
    oracle(&[Rule::Effects], |h| write(h, Some(2)));
    oracle(&[], |h| write(h, None));
}

#[test]
fn lost_update_of_a_plain_counter_is_measured_and_is_no_violation() {
    let mut h = Script::default();
    let first = h.grant((10, 12), 1);
    h.is_told_of_its_loss(first, 990);
    let second = h.grant((998, 1000), 2);
    h.writes(second, 1001, false, 2, Some(1));
    h.writes(first, 1002, false, 1, Some(1));
    let report = h.check(&model());
    assert!(report.violations.is_empty(), "{report}");
    assert_eq!((report.measured.plain.accepted, report.measured.plain.lost), (2, 1));
    assert_eq!(report.measured.fenced.accepted, 0);
}

#[test]
fn promise_of_tokens_alone_allows_two_owners_and_no_older_token() {
    let two_owners = |token: u64, lenient: (u64, u64)| {
        let mut model = model();
        model.fenced_only = vec![(lenient.0 * MILLI, lenient.1 * MILLI)];
        let mut h = Script::default();
        h.grant((10, 12), 5);
        h.grant((100, 102), token);
        rules(&h.check(&model))
    };
    let found = |rules: &[Rule]| rules.iter().copied().collect();
    assert_eq!(two_owners(6, (101, 103)), found(&[]));
    assert_eq!(two_owners(6, (103, 200)), found(&[Rule::Exclusion, Rule::Belief]), "before");
    assert_eq!(two_owners(6, (20, 101)), found(&[Rule::Exclusion, Rule::Belief]), "after");
    assert_eq!(two_owners(4, (0, 200)), found(&[Rule::TokenOrder]));
    assert_eq!(two_owners(5, (0, 200)), found(&[Rule::TokenUnique]));
}
