//! Belief over a change of leaders in etcd, explored: every order of events within the bounds that are printed.
//!
//! The search finds the fault of each rule that is left out: an extension without a read, or a read without an extension; answers
//! of two terms; a read of one member; belief that is counted from the answer; a grant on a lease that has ended; a renewal that
//! revives; a key on another lease. It explores the rules together to the end, and finds none. It also finds what they rest on: a
//! leader whose clock gains more than the margin, and a replaced leader that still ends leases, leave two holders.

mod client;
mod cluster;
mod protocol;
mod steps;

use leasehold_models::{fails, holds};
use protocol::{BELIEF, Faults, Protocol, RECORDED, Recipe};

const NONE: Faults = Faults { elections: 0, lost: 0, moves: 0, gained: 0 };
const ELECTION: Faults = Faults { elections: 1, ..NONE };
const MOVE: Faults = Faults { lost: 1, moves: 1, ..NONE };
const OURS: Protocol = Protocol {
    recipe: Recipe::Ours,
    ticks: 2,
    margin: 0,
    two_members: false,
    replaced_revokes: false,
    at_most: NONE,
};
const OVER_AN_ELECTION: Protocol = Protocol { at_most: ELECTION, ..OURS };

/// A leader that was replaced answers.
#[test]
fn renewal_by_the_extension_alone_holds_beside_the_next() {
    fails(Protocol { recipe: Recipe::BelievesTheExtension, ..OVER_AN_ELECTION }, BELIEF);
}

#[test]
fn call_without_an_extension_outlives_its_lease() {
    fails(Protocol { recipe: Recipe::BelievesTheRead, ..OURS }, BELIEF);
}

/// The leader of the old term extends the lease, and that of the new one shows the key, shortly before it ends the lease.
#[test]
fn answers_of_two_terms_hold_beside_the_next() {
    fails(Protocol { recipe: Recipe::AnyTerm, ..OVER_AN_ELECTION }, BELIEF);
}

#[test]
fn answers_of_two_terms_hold_beside_another_record() {
    fails(Protocol { recipe: Recipe::AnyTerm, ..OVER_AN_ELECTION }, RECORDED);
}

#[test]
fn read_of_one_member_holds_beside_the_next() {
    fails(Protocol { recipe: Recipe::ReadsOneMember, ..OVER_AN_ELECTION }, BELIEF);
}

#[test]
fn belief_counted_from_the_answer_outlives_the_lease() {
    fails(Protocol { recipe: Recipe::CountsFromTheAnswer, ..OURS }, BELIEF);
}

/// etcd 11456: granted on a lease that has ended.
#[test]
fn grant_on_an_ended_lease_holds_beside_the_next() {
    fails(Protocol { recipe: Recipe::AnyExtension, ..OURS }, BELIEF);
}

/// The end of the lease is in the log, and not committed, when a leader is elected. The new leader starts the lease anew, and
/// extends it before it has applied that entry. Both answers have the old term. `backend-etcd` counts such a grant.
#[test]
fn grant_on_a_lease_that_ends_in_an_election_holds_beside_the_next() {
    fails(Protocol { recipe: Recipe::AnyGrant, ..OVER_AN_ELECTION }, BELIEF);
}

/// The same for a renewal: here the loss rule of the core prevents it.
#[test]
fn renewal_after_the_end_of_belief_holds_beside_the_next() {
    fails(Protocol { recipe: Recipe::Revives, ..OVER_AN_ELECTION }, BELIEF);
}

#[test]
fn key_on_another_lease_than_the_extended_one_is_lost_under_belief() {
    fails(Protocol { recipe: Recipe::AnyLease, at_most: MOVE, ..OURS }, BELIEF);
}

/// The move is carried out after the look, to a lease that was never extended. `backend-etcd` looks after a failed `extend`.
#[test]
fn look_after_a_move_without_an_answer_holds_beside_the_next() {
    fails(Protocol { recipe: Recipe::LooksAfterAMove, at_most: MOVE, ..OURS }, BELIEF);
}

/// The lease ends before its extension is carried out, and belief by the lease before goes on. `backend-etcd` may take such a one.
#[test]
fn move_to_a_lease_that_ends_earlier_holds_beside_the_next() {
    let at_most = Faults { moves: 1, ..NONE };
    fails(Protocol { recipe: Recipe::MovesToAnyLease, at_most, ..OURS }, BELIEF);
}

/// Why belief ends earlier than the lease.
#[test]
fn clock_of_a_leader_that_gains_more_than_the_margin_leaves_two_holders() {
    fails(Protocol { at_most: Faults { gained: 1, ..NONE }, ..OURS }, BELIEF);
}

/// etcd 15247: why a fail-over is only fenced before etcd 3.5.13.
#[test]
fn replaced_leader_that_still_ends_leases_leaves_two_holders() {
    fails(Protocol { replaced_revokes: true, ..OVER_AN_ELECTION }, BELIEF);
}

#[test]
fn ours_without_elections() {
    holds(Protocol { ticks: 3, ..OURS });
}

#[test]
fn ours_over_an_election() {
    holds(OVER_AN_ELECTION);
}

#[test]
fn ours_over_an_election_with_a_lost_answer() {
    holds(Protocol { at_most: Faults { lost: 1, ..ELECTION }, ..OURS });
}

/// The term alone decides: that both answers are of one member adds nothing.
#[test]
fn ours_over_an_election_with_calls_to_two_members() {
    holds(Protocol { two_members: true, ..OVER_AN_ELECTION });
}

#[test]
fn ours_with_a_key_that_is_moved() {
    holds(Protocol { at_most: MOVE, ..OURS });
}

#[test]
fn ours_with_a_clock_that_gains_the_margin() {
    holds(Protocol { margin: 1, ticks: 3, at_most: Faults { gained: 1, ..NONE }, ..OURS });
}

/// Terms are compared because of elections alone.
#[test]
fn answers_of_any_term_hold_without_elections() {
    holds(Protocol { recipe: Recipe::AnyTerm, ..OURS });
}

#[test]
fn grant_on_any_extended_lease_holds_without_elections() {
    holds(Protocol { recipe: Recipe::AnyGrant, ..OURS });
}

#[test]
fn documents_name_these_runs() {
    leasehold_models::names_the_runs_of_this_program();
}
