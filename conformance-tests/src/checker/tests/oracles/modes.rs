//! Readers and writers, and the slots of semaphores.

use super::super::model;
use super::super::script::Script;
use super::{oracle, oracle_of};
use crate::checker::{Model, RefusedFor, Rule};
use leasehold_core::{LockMode, Sharing};
use std::time::Duration;

const READ: LockMode = LockMode::Shared;
const WRITE: LockMode = LockMode::Write;

fn held(h: &mut Script, mode: LockMode, (from, to): (u64, u64), token: u64) {
    h.by(mode);
    let hold = h.grant((from, from + 2), token);
    h.release(hold, (to, to + 2));
}

#[test]
fn readers_hold_together_and_a_writer_alone() {
    oracle(&[], |h| {
        held(h, READ, (10, 50), 1);
        held(h, READ, (15, 30), 2);
        held(h, WRITE, (51, 60), 3);
        held(h, READ, (61, 70), 4);
    });
    for modes in [[READ, WRITE], [WRITE, READ], [READ, LockMode::Exclusive], [WRITE, WRITE]] {
        oracle(&[Rule::Exclusion, Rule::Belief], |h| {
            held(h, modes[0], (10, 50), 1);
            held(h, modes[1], (15, 30), 2);
        });
    }
}

#[test]
fn writer_waits_for_the_first_reader_too() {
    oracle(&[Rule::Exclusion, Rule::Belief], |h| {
        held(h, READ, (10, 50), 1);
        held(h, READ, (15, 30), 2);
        held(h, WRITE, (35, 45), 3);
    });
}

#[test]
fn tokens_of_readers_are_unique_and_grow() {
    oracle(&[Rule::TokenUnique], |h| {
        held(h, READ, (10, 50), 1);
        held(h, READ, (15, 30), 1);
    });
    oracle(&[Rule::TokenOrder], |h| {
        held(h, READ, (10, 50), 2);
        held(h, READ, (15, 30), 1);
    });
}

#[test]
fn refusal_needs_a_conflicting_hold_or_a_writer_that_waits() {
    let refused = |h: &mut Script, holder: LockMode, refused: LockMode| {
        held(h, holder, (10, 50), 1);
        h.by(refused);
        h.refused((20, 22));
    };
    oracle(&[Rule::Refusal], |h| refused(h, READ, READ));
    for [holder, other] in [[READ, WRITE], [WRITE, READ], [WRITE, WRITE]] {
        oracle(&[], |h| refused(h, holder, other));
    }
    let writer_first = Model { refused_for: RefusedFor::Waiters, sharing: Sharing::WriterFirst, ..model() };
    for (gave_up, expected) in [(19, &[][..]), (5, &[Rule::Refusal])] {
        oracle_of(&Model { overshoot: Duration::ZERO, ..writer_first.clone() }, expected, |h| {
            refused(h, READ, READ);
            h.by(WRITE);
            h.timed_out((3, gave_up + 1), gave_up);
        });
    }
    // A writer of unknown outcome may wait for as long as anything.
    let twice = |h: &mut Script| {
        refused(h, READ, READ);
        held(h, WRITE, (53, 60), 2);
        h.by(READ);
        h.refused((65, 67));
        h.by(WRITE);
        h.unanswered(3);
    };
    oracle_of(&writer_first, &[], twice);
    oracle(&[Rule::Refusal], twice);
}

#[test]
fn reader_that_readers_alone_keep_waiting_is_not_woken() {
    let late = |writer: bool| {
        move |h: &mut Script| {
            held(h, READ, (10, 400), 1);
            h.by(READ);
            h.waited((100, 300), 900, 2);
            h.by(WRITE);
            if writer {
                h.timed_out((50, 290), 250);
            }
        }
    };
    oracle(&[Rule::WakeUp], late(false));
    oracle(&[], late(true));
}

#[test]
fn readers_that_pass_a_waiting_writer_are_found_where_turns_are_declared() {
    let passes = |second: u64| {
        move |h: &mut Script| {
            held(h, READ, (10, 400), 1);
            held(h, READ, (100, 410), 2);
            held(h, READ, (second, 420), 3);
            h.by(WRITE);
            h.waited((20, 422), 900, 4);
        }
    };
    let writer_first = Model { sharing: Sharing::WriterFirst, ..model() };
    oracle_of(&writer_first, &[Rule::Order], passes(200));
    // The writer's mark has lapsed once.
    oracle_of(&writer_first, &[], passes(140));
    let fifo = Model { order: Some(Duration::from_millis(10)), sharing: Sharing::Fifo, ..model() };
    oracle_of(&fifo, &[Rule::Order], |h| {
        held(h, READ, (10, 400), 1);
        held(h, READ, (100, 410), 2);
        h.by(WRITE);
        h.waited((20, 412), 900, 3);
    });
    // Readers that are let in together.
    oracle_of(&fifo, &[], |h| {
        held(h, WRITE, (10, 100), 1);
        h.by(READ);
        h.waited((20, 102), 900, 3);
        h.waited((80, 102), 900, 2);
    });
}

#[test]
fn resource_judges_writers_by_all_and_readers_by_writers() {
    let stale = |stale: LockMode, newer: LockMode| {
        move |h: &mut Script| {
            h.by(stale);
            let first = h.grant((10, 12), 1);
            h.is_told_of_its_loss(first, 990);
            h.by(newer);
            let second = h.grant((1012, 1014), 2);
            h.writes(second, 1015, true, 2, Some(u64::from(!newer.is_shared())));
            h.by(stale);
            h.writes(first, 1016, true, 1, Some(if newer.is_shared() { 1 } else { 2 }));
        }
    };
    oracle(&[Rule::Effects], stale(WRITE, READ));
    oracle(&[Rule::Effects], stale(WRITE, WRITE));
    oracle(&[Rule::Effects], stale(READ, WRITE));
    oracle(&[], stale(READ, READ));
}

#[test]
fn permits_are_slots_and_no_more_than_their_number() {
    let permit = |h: &mut Script, slot: u32, took: (u64, u64), token: u64| {
        h.permit(2, slot);
        held(h, LockMode::Exclusive, took, token);
    };
    oracle(&[], |h| {
        permit(h, 0, (10, 50), 1);
        permit(h, 1, (15, 60), 1);
        h.refused((20, 25));
        permit(h, 0, (51, 70), 2);
    });
    oracle(&[Rule::Exclusion], |h| permit(h, 2, (10, 50), 1));
    oracle(&[Rule::Exclusion, Rule::Belief], |h| {
        permit(h, 0, (10, 50), 1);
        permit(h, 0, (15, 60), 2);
    });
    oracle(&[Rule::TokenUnique], |h| {
        permit(h, 0, (10, 50), 1);
        permit(h, 0, (53, 60), 1);
    });
    // Only one of the two permits was taken.
    oracle(&[Rule::Refusal], |h| {
        permit(h, 0, (10, 50), 1);
        h.refused((20, 25));
    });
}
