//! The protocol of Redlock's tokens, explored: every order of events within the bounds that are printed.
//!
//! What is known from the literature is found: tokens that are the largest of counters repeat; so do those that are
//! written back without checks. The protocol that is built here is explored to its end, and has no such history.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that unwraps fails, which is what it is for"
)]

mod protocol;

use leasehold_models::{fails, holds};
use protocol::{FENCING, Protocol, Tokens, UNIQUE};

const OURS: Protocol<3> =
    Protocol { tokens: Tokens::WrittenBack, attempts: [2, 2], retries: false, repairs: false, wipes: 0 };

#[test]
fn tokens_that_are_the_largest_of_counters_repeat() {
    fails(Protocol { tokens: Tokens::MaximumOfCounts, ..OURS }, UNIQUE);
}

#[test]
fn unchecked_write_back_repeats_tokens() {
    fails(Protocol { tokens: Tokens::Unchecked, ..OURS }, UNIQUE);
}

#[test]
fn write_back_without_the_owner_check_shuts_out_the_holder() {
    fails(Protocol { tokens: Tokens::WithoutOwnerCheck, ..OURS }, FENCING);
}

#[test]
fn write_back_without_the_smaller_check_repeats_tokens() {
    let protocol = Protocol { tokens: Tokens::WithoutSmallerCheck, attempts: [2, 1], ..OURS };
    fails(protocol, UNIQUE);
}

/// Why a node that has lost its memory weakens the promise, and why tokens follow the clocks as well.
#[test]
fn node_that_forgets_can_repeat_a_token() {
    fails(Protocol { attempts: [1, 1], wipes: 1, ..OURS }, UNIQUE);
}

#[test]
fn ours_grants_no_token_twice_and_none_out_of_order() {
    holds(Protocol { attempts: [2, 1], ..OURS });
}

#[test]
fn ours_survives_asking_again_under_the_same_owner() {
    holds(Protocol { attempts: [2, 1], retries: true, ..OURS });
}

#[test]
fn ours_survives_repairs_that_come_too_late() {
    holds(Protocol { attempts: [2, 1], repairs: true, ..OURS });
}

#[test]
fn ours_on_five_nodes() {
    let Protocol { tokens, retries, repairs, wipes, .. } = OURS;
    holds(Protocol::<5> { tokens, attempts: [1, 1], retries, repairs, wipes });
}

#[test]
fn documents_name_the_runs_of_this_program() {
    leasehold_models::names_the_runs_of_this_program();
}
