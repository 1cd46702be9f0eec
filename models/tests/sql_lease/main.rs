//! The lease in a row of a database, explored: every order of events within the bounds that are printed.
//!
//! The search finds each known fault: two statements for one, a renewal or a release without an owner, a renewal that
//! revives, a token that is lost with its row. It explores the statements of `backend-sql` to the end and finds no fault.
//! It also finds what they rest on: a clock that is set forward ends belief too late, and a clock that is set back by as much
//! as a purged row was idle repeats a token.

#![allow(clippy::cast_possible_truncation, reason = "there are a handful of each")]

mod alike;
mod protocol;
mod statements;

use leasehold_models::{fails, holds};
use protocol::{BELIEF, EXCLUSIVE, GROWING, IDLE, Protocol, RENEWED, Statements};

const OURS: Protocol = Protocol { statements: Statements::Ours, owners: 2, ticks: 3, back: 0, forward: 0 };

#[test]
fn read_followed_by_a_write_grants_to_two_owners() {
    fails(Protocol { statements: Statements::ReadThenWrite, ..OURS }, EXCLUSIVE);
}

#[test]
fn renewal_without_a_check_of_the_owner_extends_the_lease_of_another() {
    fails(Protocol { statements: Statements::RenewWithoutOwner, ..OURS }, RENEWED);
}

#[test]
fn renewal_without_a_check_of_the_end_revives_a_lease() {
    fails(Protocol { statements: Statements::RenewRevives, ..OURS }, RENEWED);
}

#[test]
fn release_without_a_check_of_the_owner_frees_the_lease_of_another() {
    let protocol = Protocol { statements: Statements::ReleaseWithoutOwner, owners: 3, ticks: 1, ..OURS };
    fails(protocol, EXCLUSIVE);
}

#[test]
fn token_that_follows_no_clock_is_forgotten_with_its_row() {
    fails(Protocol { statements: Statements::TokenWithoutClock, ..OURS }, GROWING);
}

/// An owner reads the row and stops; the row is taken, released, purged, and made again.
#[test]
fn version_that_begins_anew_with_its_row_repeats_a_token() {
    let statements = Statements::OptimisticFromZero;
    fails(Protocol { statements, ticks: 2, ..OURS }, GROWING);
}

/// Why the table of semantics says of this fault that the token holds, and exclusion may not.
#[test]
fn clock_that_is_set_forward_ends_a_lease_before_its_holder_does() {
    fails(Protocol { forward: 1, ..OURS }, BELIEF);
}

#[test]
fn clock_that_is_set_back_by_as_much_as_a_purged_row_was_idle_repeats_tokens() {
    fails(Protocol { back: IDLE, ..OURS }, GROWING);
}

#[test]
fn lease_strategy_grants_to_one_owner_at_a_time() {
    holds(OURS);
}

#[test]
fn lease_strategy_survives_a_clock_that_is_set_back() {
    holds(Protocol { back: IDLE - 1, ..OURS });
}

#[test]
fn lease_strategy_grants_to_one_of_three_owners_at_a_time() {
    holds(Protocol { owners: 3, ticks: 1, ..OURS });
}

#[test]
fn optimistic_strategy_grants_to_one_owner_at_a_time() {
    holds(Protocol { statements: Statements::Optimistic, ticks: 2, ..OURS });
}

#[test]
fn optimistic_strategy_survives_a_clock_that_is_set_back() {
    holds(Protocol { statements: Statements::Optimistic, ticks: 2, back: IDLE - 1, ..OURS });
}

#[test]
fn documents_name_the_runs_of_this_program() {
    leasehold_models::names_the_runs_of_this_program();
}
