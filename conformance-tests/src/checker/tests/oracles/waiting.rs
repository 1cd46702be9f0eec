//! Refusals, and how long waits last.

use super::super::model;
use super::super::script::Script;
use super::{oracle, oracle_of};
use crate::checker::{Model, RefusedFor, Rule};
use leasehold_core::{Fault, HoldKind};
use std::time::Duration;

#[test]
fn refusal_without_a_possible_holder_is_found() {
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
fn refusal_after_the_release_was_confirmed_is_found() {
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
fn release_with_a_late_answer_was_over_when_the_next_holder_held() {
    oracle(&[Rule::Refusal], |h| {
        let first = h.grant((10, 12), 1);
        h.release(first, (13, 30));
        let second = h.grant((14, 16), 2);
        h.release(second, (17, 19));
        h.refused((21, 23));
    });
}

#[test]
fn waiter_with_a_later_token_held_not_before_the_earlier_grant() {
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
fn unknown_acquisition_excuses_the_refusals_of_a_single_gap() {
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
fn attempts_of_contenders_that_keep_each_other_out_may_all_fail() {
    let both = |h: &mut Script| {
        h.refused((5, 8));
        h.refused((7, 9));
    };
    let one = |h: &mut Script| {
        h.refused((5, 6));
        h.refused((7, 9));
    };
    let lenient = Model { refused_for: RefusedFor::Contenders, ..model() };
    oracle(&[Rule::Refusal], both);
    oracle_of(&lenient, &[], both);
    oracle_of(&lenient, &[Rule::Refusal], one);
}

#[test]
fn failed_attempt_may_have_held_until_a_moment_after_its_answer() {
    let lenient = Model { refused_for: RefusedFor::Waiters, ..model() };
    let write = |h: &mut Script, refused: u64, waits: bool| {
        h.failed((4, 8));
        if waits {
            h.timed_out((refused, refused + 2), 2);
        } else {
            h.refused((refused, refused + 2));
        }
    };
    for waits in [true, false] {
        oracle(&[Rule::Refusal], |h| write(h, 5, waits));
        oracle_of(&lenient, &[], |h| write(h, 5, waits));
        oracle_of(&lenient, &[], |h| write(h, 58, waits));
        oracle_of(&lenient, &[Rule::Refusal], |h| write(h, 59, waits));
        oracle_of(&lenient, &[Rule::Refusal], |h| write(h, 1, waits));
    }
}

#[test]
fn granted_waiter_may_have_held_since_its_request() {
    let lenient = Model { refused_for: RefusedFor::Waiters, ..model() };
    let write = |h: &mut Script, asked: u64| {
        let first = h.grant((1, 2), 1);
        h.release(first, (3, 4));
        h.refused((5, 9));
        let second = h.grant((10, 11), 2);
        h.release(second, (12, 13));
        h.waited((asked, 20), 3_000, 3);
    };
    oracle_of(&lenient, &[], |h| write(h, 9));
    oracle_of(&lenient, &[Rule::Refusal], |h| write(h, 10));
    oracle(&[Rule::Refusal], |h| write(h, 9));
}

#[test]
fn end_later_than_the_deadline_and_the_slack_is_found() {
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
fn process_that_stands_still_keeps_no_deadline() {
    oracle(&[], |h| {
        h.grant((10, 12), 1);
        h.timed_out((20, 500), 100);
        h.fault(Fault::HolderPaused, 30, true, Some(2));
        h.fault(Fault::HolderPaused, 400, false, Some(2));
    });
}

#[test]
fn absent_store_excuses_a_hand_over_and_a_client_clock_does_not() {
    let late = |h: &mut Script, fault| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.waited((15, 500), 1_000, 2);
        h.fault(fault, 30, true, None);
        h.fault(fault, 400, false, None);
    };
    for fault in [Fault::StoreRestarted, Fault::QuorumLost, Fault::DiskFull, Fault::HolderPartitioned] {
        oracle(&[], |h| late(h, fault));
    }
    for fault in [Fault::ClientClockJumps, Fault::RecordDeleted] {
        oracle(&[Rule::WakeUp], |h| late(h, fault));
    }
}

#[test]
fn deadline_is_kept_without_the_store() {
    let late = |h: &mut Script, fault| {
        h.grant((10, 12), 1);
        h.timed_out((20, 500), 100);
        h.fault(fault, 30, true, None);
        h.fault(fault, 400, false, None);
    };
    for fault in [Fault::StoreRestarted, Fault::QuorumLost, Fault::DiskFull, Fault::HolderPartitioned] {
        oracle(&[Rule::Deadline], |h| late(h, fault));
    }
    oracle(&[], |h| late(h, Fault::StorePaused));
}

#[test]
fn free_lock_that_its_waiter_gets_late_is_found() {
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
fn waiter_that_gave_up_excuses_a_late_grant_for_a_moment_only() {
    let write = |h: &mut Script, granted: u64, dropped: bool| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.waited((15, granted), 1000, 2);
        if dropped { h.left((12, 30)) } else { h.timed_out((12, 30), 18) }
    };
    for dropped in [false, true] {
        oracle(&[], |h| write(h, 130, dropped));
        oracle(&[Rule::WakeUp], |h| write(h, 131, dropped));
    }
    // Its earlier time in the queue excuses nothing: it would have been told of a grant.
    oracle(&[Rule::WakeUp], |h| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.timed_out((14, 174), 160);
        h.waited((15, 176), 1000, 2);
    });
}

#[test]
fn partitioned_waiter_excuses_a_late_grant_until_its_lease_ends() {
    let write = |h: &mut Script, target: u32| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.timed_out((12, 30), 18);
        h.waited((15, 900), 1000, 2);
        h.fault(Fault::HolderPartitioned, 25, true, Some(target));
        h.fault(Fault::HolderPartitioned, 40, false, Some(target));
    };
    oracle(&[], |h| write(h, 3));
    oracle(&[Rule::WakeUp], |h| write(h, 1));
}

#[test]
fn killed_holder_that_is_replaced_late_is_found() {
    let write = |h: &mut Script, granted: u64| {
        let first = h.kept_up((10, 12), 1);
        h.kill(first, 900);
        h.waited((500, granted), 3000, 2);
    };
    oracle(&[], |h| write(h, 1950));
    oracle(&[Rule::Crash], |h| write(h, 1951));
}

#[test]
fn connection_ends_with_its_process_and_a_lease_does_not() {
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
fn session_ends_no_earlier_than_its_holder_was_told() {
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
fn deleted_record_frees_its_lock() {
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
fn later_waiter_served_first_violates_a_declared_order() {
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
