//! Model of a lease in a database row.
//!
//! The known faults are found: a read followed by an unchecked write, a renewal or a release without its checks, and a token or a
//! version that restarts with its row. The statements of `backend-sql` have none of them within the bounds. They depend on the
//! database's clock: if it is set forward, a lease ends before its holder's belief; if it is set back by the purge delay, a token
//! repeats.

#![allow(clippy::cast_possible_truncation, reason = "all numbers are small")]

mod normalize;
mod protocol;
mod statements;

use leasehold_models::{refute, verify};
use protocol::{BELIEF, EXCLUSIVE, GROWING, PURGE_DELAY, RENEWED, SqlLease, Statements};

const BASE: SqlLease =
    SqlLease { statements: Statements::Lease, owners: 2, ticks: 3, max_back: 0, max_forward: 0 };
const OPTIMISTIC: SqlLease = SqlLease { statements: Statements::Optimistic, ticks: 2, ..BASE };

#[test]
fn read_then_write_grants_to_two_owners() {
    refute(SqlLease { statements: Statements::ReadThenWrite, ..BASE }, EXCLUSIVE);
}

#[test]
fn renewal_without_owner_check_extends_the_lease_of_another_owner() {
    refute(SqlLease { statements: Statements::RenewWithoutOwnerCheck, ..BASE }, RENEWED);
}

#[test]
fn renewal_without_expiry_check_revives_a_lease() {
    refute(SqlLease { statements: Statements::RenewWithoutExpiryCheck, ..BASE }, RENEWED);
}

#[test]
fn release_without_owner_check_frees_the_lease_of_another_owner() {
    let statements = Statements::ReleaseWithoutOwnerCheck;
    refute(SqlLease { statements, owners: 3, ticks: 1, ..BASE }, EXCLUSIVE);
}

#[test]
fn token_without_clock_restarts_after_a_purge() {
    refute(SqlLease { statements: Statements::TokenWithoutClock, ..BASE }, GROWING);
}

/// An owner reads the row and stops; the row is granted, released, purged, and created again with the version that was read.
#[test]
fn version_that_restarts_with_its_row_repeats_a_token() {
    let statements = Statements::OptimisticFromZero;
    refute(SqlLease { statements, ..OPTIMISTIC }, GROWING);
}

/// For this reason `docs/semantics.md` promises only the token for this fault, and not exclusion.
#[test]
fn clock_set_forward_leaves_two_holders() {
    refute(SqlLease { max_forward: 1, ..BASE }, BELIEF);
}

#[test]
fn clock_set_back_by_the_purge_delay_repeats_tokens() {
    refute(SqlLease { max_back: PURGE_DELAY, ..BASE }, GROWING);
}

#[test]
fn lease_mode_with_two_owners_is_safe() {
    verify(BASE);
}

#[test]
fn lease_mode_with_a_clock_set_back_is_safe() {
    verify(SqlLease { max_back: PURGE_DELAY - 1, ..BASE });
}

#[test]
fn lease_mode_with_three_owners_is_safe() {
    verify(SqlLease { owners: 3, ticks: 1, ..BASE });
}

#[test]
fn optimistic_mode_with_two_owners_is_safe() {
    verify(OPTIMISTIC);
}

#[test]
fn optimistic_mode_with_a_clock_set_back_is_safe() {
    verify(SqlLease { max_back: PURGE_DELAY - 1, ..OPTIMISTIC });
}

#[test]
fn table_lists_every_run() {
    leasehold_models::check_run_list();
}
