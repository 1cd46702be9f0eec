//! The protocol of Redlock's tokens, explored: every order of events within the bounds that are printed.
//!
//! What is known from the literature is found: tokens that are the largest of counters repeat; so do those that are
//! written back without checks. The protocol that is built here is explored to its end, and has no such history.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a test that unwraps fails, which is what it is for; what was explored is for people"
)]

mod protocol;

use protocol::{FENCING, Protocol, Tokens, UNIQUE};
use stateright::{Checker, HasDiscoveries, Model};

fn explore<const NODES: usize>(
    what: &str,
    protocol: Protocol<NODES>,
    until: HasDiscoveries,
) -> impl Checker<Protocol<NODES>> {
    let bounds =
        format!("{NODES} nodes, 2 clients with {:?} attempts, wipes {}", protocol.attempts, protocol.wipes);
    let start = std::time::Instant::now();
    let checker = protocol.checker().threads(2).finish_when(until).spawn_bfs().join();
    let (states, depth, took) = (checker.unique_state_count(), checker.max_depth(), start.elapsed());
    println!("{what}: {bounds}: {states} states, up to {depth} steps, in {took:.1?}");
    checker
}

const OURS: Protocol<3> =
    Protocol { tokens: Tokens::WrittenBack, attempts: [2, 2], retries: false, repairs: false, wipes: 0 };

fn holds<const NODES: usize>(what: &str, protocol: Protocol<NODES>) {
    explore(what, protocol, HasDiscoveries::AnyFailures).assert_properties();
}

fn fails(what: &str, protocol: Protocol<3>, expected: &'static str) {
    let checker = explore(what, protocol, HasDiscoveries::AnyOf([expected].into()));
    let Some(path) = checker.discovery(expected) else {
        panic!("{what}: {expected:?} holds of a protocol that is known to be wrong");
    };
    println!("  not {expected}: {:?}", path.into_actions());
}

#[test]
fn tokens_that_are_the_largest_of_counters_repeat() {
    fails("maximum of counts", Protocol { tokens: Tokens::MaximumOfCounts, ..OURS }, UNIQUE);
}

#[test]
fn unchecked_write_back_repeats_tokens() {
    fails("unchecked", Protocol { tokens: Tokens::Unchecked, ..OURS }, UNIQUE);
}

#[test]
fn write_back_without_the_owner_check_shuts_out_the_holder() {
    fails("without owner check", Protocol { tokens: Tokens::WithoutOwnerCheck, ..OURS }, FENCING);
}

#[test]
fn write_back_without_the_smaller_check_repeats_tokens() {
    let protocol = Protocol { tokens: Tokens::WithoutSmallerCheck, attempts: [2, 1], ..OURS };
    fails("without smaller check", protocol, UNIQUE);
}

/// Why a node that has lost its memory weakens the promise, and why tokens follow the clocks as well.
#[test]
fn one_node_that_forgets_can_repeat_a_token() {
    fails("one node forgets", Protocol { attempts: [1, 1], wipes: 1, ..OURS }, UNIQUE);
}

#[test]
fn ours_grants_no_token_twice_and_none_out_of_order() {
    holds("ours", Protocol { attempts: [2, 1], ..OURS });
}

#[test]
fn ours_survives_asking_again_under_the_same_owner() {
    holds("ours, asking again", Protocol { attempts: [2, 1], retries: true, ..OURS });
}

#[test]
fn ours_survives_repairs_that_come_too_late() {
    holds("ours, repairing", Protocol { attempts: [2, 1], repairs: true, ..OURS });
}

#[test]
fn ours_on_five_nodes() {
    let Protocol { tokens, retries, repairs, wipes, .. } = OURS;
    holds("ours", Protocol::<5> { tokens, attempts: [1, 1], retries, repairs, wipes });
}
