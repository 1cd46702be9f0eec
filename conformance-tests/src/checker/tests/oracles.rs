//! Tiny histories whose verdict is known: each rule, both sides of each of its boundaries, unknown outcomes everywhere.

use super::model;
use super::script::Script;
use crate::checker::{Model, Rule, Verdict};
use crate::history::{Event, History, Phase, Reason, Step};
use leasehold_core::{Fault, HoldKind};
use std::time::Duration;

/// Written by this, it breaks exactly these rules of the model.
#[track_caller]
fn oracle(expected: &[Rule], write: impl FnOnce(&mut Script)) {
    oracle_of(&model(), expected, write);
}

#[track_caller]
fn oracle_of(model: &Model, expected: &[Rule], write: impl FnOnce(&mut Script)) {
    let mut script = Script::default();
    write(&mut script);
    script.breaks(model, expected);
}

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
fn a_lease_that_nobody_renews_may_end() {
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

#[test]
fn a_release_confirmed_to_a_former_owner_is_a_foreign_release() {
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
fn a_foreign_release_is_found_where_a_keeper_may_have_renewed() {
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
fn a_renewal_confirmed_to_a_former_owner_is_a_foreign_renewal() {
    oracle(&[Rule::OwnerOnly], |h| {
        let first = h.kept_up((10, 12), 1);
        h.is_told_of_its_loss(first, 998);
        let second = h.grant((998, 1000), 2);
        h.release(second, (1003, 1005));
        h.renew(first, (1001, 1002));
    });
}

#[test]
fn a_lease_that_is_over_is_not_brought_back() {
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
fn a_release_confirmed_after_the_lease_was_over_is_no_cover() {
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
fn a_later_grant_with_a_smaller_token_is_found_and_nothing_else_is_said() {
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
fn two_who_believe_at_once_are_found_and_measured() {
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
fn an_older_write_that_is_accepted_late_is_found() {
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
fn what_a_plain_counter_loses_is_measured_and_is_no_violation() {
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
fn a_refusal_needs_somebody_who_may_have_held() {
    oracle(&[Rule::Refusal], |h| h.refused((5, 6)));
    oracle(&[Rule::Refusal], |h| {
        h.refused((5, 9));
        h.grant((10, 12), 1);
    });
    oracle(&[], |h| {
        h.refused((5, 10));
        h.grant((10, 12), 1);
    });
}

#[test]
fn a_refusal_after_the_release_was_confirmed_is_wrong() {
    let write = |h: &mut Script, asked: u64| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.refused((asked, asked + 3));
        h.grant((30, 32), 2);
    };
    oracle(&[], |h| write(h, 22));
    oracle(&[Rule::Refusal], |h| write(h, 23));
    oracle(&[], |h| write(h, 27));
}

#[test]
fn a_release_whose_answer_is_late_was_over_when_the_next_one_held() {
    oracle(&[Rule::Refusal], |h| {
        let first = h.grant((10, 12), 1);
        h.release(first, (13, 30));
        let second = h.grant((14, 16), 2);
        h.release(second, (17, 19));
        h.refused((21, 23));
    });
}

#[test]
fn a_waiter_who_has_not_got_it_yet_is_no_holder_before_the_one_in_front() {
    oracle(&[Rule::Refusal], |h| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.refused((25, 28));
        // It has been waiting all the time; but its token says that it came after the next.
        let second = h.grant((30, 32), 2);
        h.release(second, (33, 34));
        h.waited((15, 36), 100, 3);
    });
}

#[test]
fn one_unknown_acquisition_excuses_the_refusals_of_one_gap() {
    let write = |h: &mut Script, unknown: u64| {
        for asked in 0..unknown {
            h.unanswered(asked);
        }
        h.refused((5, 6));
        h.refused((7, 8));
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.refused((25, 26));
        h.grant((30, 32), 2);
    };
    oracle(&[Rule::Refusal], |h| write(h, 0));
    oracle(&[Rule::Refusal], |h| write(h, 1));
    oracle(&[], |h| write(h, 2));
}

#[test]
fn where_contenders_keep_each_other_out_two_attempts_may_both_fail() {
    let both = |h: &mut Script| {
        h.refused((5, 8));
        h.refused((7, 9));
    };
    let one = |h: &mut Script| {
        h.refused((5, 6));
        h.refused((7, 9));
    };
    let lenient = Model { contenders_refuse: true, ..model() };
    oracle(&[Rule::Refusal], both);
    oracle_of(&lenient, &[], both);
    oracle_of(&lenient, &[Rule::Refusal], one);
}

#[test]
fn a_deadline_is_kept() {
    let write = |h: &mut Script, end: u64| {
        h.grant((10, 12), 1);
        h.timed_out((20, end), 100);
    };
    oracle(&[], |h| write(h, 170));
    oracle(&[Rule::Deadline], |h| write(h, 171));
    oracle(&[Rule::Deadline], |h| {
        h.waited((10, 161), 100, 1);
    });
}

#[test]
fn a_process_that_stands_still_keeps_no_deadline() {
    oracle(&[], |h| {
        h.grant((10, 12), 1);
        h.timed_out((20, 500), 100);
        h.fault(Fault::HolderPaused, 30, true, Some(2));
        h.fault(Fault::HolderPaused, 400, false, Some(2));
    });
}

#[test]
fn a_free_lock_does_not_wait_for_its_waiter() {
    let write = |h: &mut Script, granted: u64| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.waited((15, granted), 1000, 2);
    };
    oracle(&[], |h| write(h, 72));
    oracle(&[Rule::WakeUp], |h| write(h, 73));
    oracle(&[], |h| {
        write(h, 73);
        h.unanswered(14);
    });
}

#[test]
fn a_killed_holder_is_replaced_in_time() {
    let write = |h: &mut Script, granted: u64| {
        let first = h.kept_up((10, 12), 1);
        h.kill(first, 900);
        h.waited((500, granted), 3000, 2);
    };
    oracle(&[], |h| write(h, 1950));
    oracle(&[Rule::Crash], |h| write(h, 1951));
    let mut h = Script::default();
    write(&mut h, 1700);
    assert_eq!(h.check(&model()).measured.detection, Some((Duration::from_millis(800), 1)));
}

#[test]
fn a_connection_ends_with_its_process_and_a_lease_does_not() {
    let connection = Model { hold: HoldKind::Connection, ..model() };
    let write = |h: &mut Script, granted: u64| {
        let first = h.grant((10, 12), 1);
        h.kill(first, 100);
        h.grant((90, granted), 2);
    };
    oracle_of(&connection, &[], |h| write(h, 100));
    oracle_of(&connection, &[Rule::Exclusion, Rule::Belief], |h| write(h, 99));
    oracle(&[Rule::Exclusion], |h| write(h, 101));
}

#[test]
fn a_session_ends_no_earlier_than_its_holder_was_told() {
    let session = Model { hold: HoldKind::Session, ..model() };
    let write = |h: &mut Script, granted: u64| {
        let first = h.grant((10, 12), 1);
        h.is_told_of_its_loss(first, 13);
        h.grant((90, granted), 2);
    };
    oracle_of(&session, &[], |h| write(h, 998));
    oracle_of(&session, &[Rule::Exclusion], |h| write(h, 997));
}

#[test]
fn a_record_that_was_deleted_is_nobodys() {
    let write = |h: &mut Script, granted: u64| {
        let first = h.grant((10, 12), 1);
        h.is_told_of_its_loss(first, 13);
        h.fault(Fault::RecordDeleted, 50, true, None);
        h.fault(Fault::RecordDeleted, 52, false, None);
        h.grant((40, granted), 2);
    };
    oracle(&[], |h| write(h, 50));
    oracle(&[Rule::Exclusion], |h| write(h, 49));
}

#[test]
fn where_order_is_declared_who_came_first_is_served_first() {
    let fifo = Model { order: Some(Duration::from_millis(10)), ..model() };
    let write = |h: &mut Script, second: u64| {
        let holder = h.grant((10, 12), 1);
        h.release(holder, (100, 101));
        h.waited((20, 130), 1000, 3);
        let early = h.waited((second, 102), 1000, 2);
        h.release(early, (103, 104));
    };
    oracle_of(&fifo, &[Rule::Order], |h| write(h, 31));
    oracle_of(&fifo, &[], |h| write(h, 30));
    oracle(&[], |h| write(h, 31));
}

#[test]
fn what_shows_nothing_is_void() {
    let demanding = model().with_least(2, 1, 40);
    let verdict = |write: &dyn Fn(&mut Script)| {
        let mut script = Script::default();
        write(&mut script);
        let report = script.check(&demanding);
        (report.verdict(), report.void.join("; "))
    };
    let two = |h: &mut Script| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.waited((15, 25), 100, 2);
    };
    assert_eq!(verdict(&two), (Verdict::Accepted, String::new()));
    let alone = |h: &mut Script| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.waited((22, 25), 100, 2);
    };
    assert_eq!(verdict(&alone), (Verdict::Void, "0 met a holder, at least 1".to_owned()));
    let nobody_knows = |h: &mut Script| {
        two(h);
        h.unanswered(30);
        h.unanswered(31);
    };
    let reason = "2 of 4 outcomes are unknown, at most 40 %".to_owned();
    assert_eq!(verdict(&nobody_knows), (Verdict::Void, reason));
    let (few, reason) = verdict(&|h| {
        h.grant((10, 12), 1);
        h.refused((13, 14));
    });
    assert_eq!((few, reason.as_str()), (Verdict::Void, "1 grants, at least 2"));
}

#[test]
fn a_fault_that_met_no_holder_is_void() {
    let write = |from: u64, to: u64, target: Option<u32>| {
        let mut h = Script::default();
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.fault(Fault::HolderPaused, from, true, target);
        h.fault(Fault::HolderPaused, to, false, target);
        h.check(&model()).verdict()
    };
    assert_eq!(write(15, 17, Some(1)), Verdict::Accepted);
    assert_eq!(write(15, 17, None), Verdict::Accepted);
    assert_eq!(write(15, 17, Some(2)), Verdict::Void);
    assert_eq!(write(21, 30, None), Verdict::Void);
    assert_eq!(write(5, 11, None), Verdict::Void);
}

#[test]
fn names_have_nothing_to_do_with_each_other() {
    oracle(&[], |h| {
        h.grant((10, 12), 2);
        h.on("another");
        h.grant((11, 13), 2);
        h.grant((1005, 1007), 3);
    });
}

#[test]
fn what_no_recorder_can_have_written_is_refused() {
    let answer = Step::Acquire(Phase::Fail(Reason { why: "Busy".to_owned() }));
    let event = Event { at: 1, process: 2, op: 3, step: answer };
    let error = History::from_events(vec![event]).unwrap_err().to_string();
    assert_eq!(error, "operation 3 of process 2: an answer without a question");
}
