//! Model of Redlock's fencing tokens.
//!
//! The known faults are found: the largest counter as the token, a write-back without its checks, and a node that loses its data.
//! The implemented protocol has none of them within the bounds.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "an unwrap on None fails the test; all numbers are small"
)]

mod protocol;

use leasehold_models::{refute, verify};
use protocol::{FENCING, Redlock, TokenRule, UNIQUE};

const BASE: Redlock<3> = Redlock {
    token_rule: TokenRule::WrittenBack,
    attempts: [2, 2],
    retries: false,
    repairs: false,
    max_wipes: 0,
};

#[test]
fn token_from_the_largest_counter_repeats() {
    refute(Redlock { token_rule: TokenRule::MaxOfCounters, ..BASE }, UNIQUE);
}

#[test]
fn write_back_without_checks_repeats_tokens() {
    refute(Redlock { token_rule: TokenRule::Unchecked, ..BASE }, UNIQUE);
}

#[test]
fn write_back_without_owner_check_breaks_fencing() {
    refute(Redlock { token_rule: TokenRule::WithoutOwnerCheck, ..BASE }, FENCING);
}

#[test]
fn write_back_without_token_comparison_repeats_tokens() {
    let token_rule = TokenRule::WithoutTokenComparison;
    refute(Redlock { token_rule, attempts: [2, 1], ..BASE }, UNIQUE);
}

/// For this reason the implemented tokens also follow the clocks of the nodes.
#[test]
fn node_that_loses_its_data_repeats_tokens() {
    refute(Redlock { attempts: [1, 1], max_wipes: 1, ..BASE }, UNIQUE);
}

#[test]
fn protocol_on_three_nodes_is_safe() {
    verify(Redlock { attempts: [2, 1], ..BASE });
}

#[test]
fn protocol_with_repeated_attempts_is_safe() {
    verify(Redlock { attempts: [2, 1], retries: true, ..BASE });
}

#[test]
fn protocol_with_late_repairs_is_safe() {
    verify(Redlock { attempts: [2, 1], repairs: true, ..BASE });
}

#[test]
fn protocol_on_five_nodes_is_safe() {
    let Redlock { token_rule, retries, repairs, max_wipes, .. } = BASE;
    verify(Redlock::<5> { token_rule, attempts: [1, 1], retries, repairs, max_wipes });
}

#[test]
fn table_lists_every_run() {
    leasehold_models::check_run_list();
}
