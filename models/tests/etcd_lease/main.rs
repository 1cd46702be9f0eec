//! Model of leases and keys in etcd while the leader changes.
//!
//! A fault is found for each rule that is left out of the recipe of `backend-etcd`, and none for the complete recipe within the bounds.
//! The recipe depends on two assumptions: two clients hold the lock if the clock of a leader runs ahead by more than the margin, or if a
//! replaced leader still revokes leases.

mod client;
mod cluster;
mod protocol;
mod steps;

use leasehold_models::{refute, verify};
use protocol::{BELIEF, EtcdLease, Faults, RECORDED, Recipe};

const NONE: Faults = Faults { elections: 0, lost_answers: 0, moved_keys: 0, gained_ticks: 0 };
const ONE_ELECTION: Faults = Faults { elections: 1, ..NONE };
const ONE_MOVE: Faults = Faults { lost_answers: 1, moved_keys: 1, ..NONE };
const BASE: EtcdLease = EtcdLease {
    recipe: Recipe::Implemented,
    ticks: 2,
    margin: 0,
    two_members: false,
    replaced_leaders_revoke: false,
    max_faults: NONE,
};
const WITH_ELECTION: EtcdLease = EtcdLease { max_faults: ONE_ELECTION, ..BASE };
const WITH_MOVE: EtcdLease = EtcdLease { max_faults: ONE_MOVE, ..BASE };

/// A replaced leader answers the extension.
#[test]
fn renewal_by_extension_only_leaves_two_holders() {
    refute(EtcdLease { recipe: Recipe::ExtensionOnly, ..WITH_ELECTION }, BELIEF);
}

#[test]
fn call_without_extension_leaves_two_holders() {
    refute(EtcdLease { recipe: Recipe::TransactionOnly, ..BASE }, BELIEF);
}

/// The replaced leader extends the lease, and the new leader shows the key shortly before it revokes the lease.
#[test]
fn answers_of_two_terms_leave_two_holders() {
    refute(EtcdLease { recipe: Recipe::IgnoresTerms, ..WITH_ELECTION }, BELIEF);
}

#[test]
fn answers_of_two_terms_leave_a_holder_without_the_oldest_key() {
    refute(EtcdLease { recipe: Recipe::IgnoresTerms, ..WITH_ELECTION }, RECORDED);
}

#[test]
fn non_linearizable_read_leaves_two_holders() {
    refute(EtcdLease { recipe: Recipe::NonLinearizableRead, ..WITH_ELECTION }, BELIEF);
}

#[test]
fn belief_counted_from_the_answer_leaves_two_holders() {
    refute(EtcdLease { recipe: Recipe::CountsFromAnswer, ..BASE }, BELIEF);
}

/// etcd issue 11456.
#[test]
fn grant_on_an_ended_lease_leaves_two_holders() {
    refute(EtcdLease { recipe: Recipe::IgnoresExtensionResult, ..BASE }, BELIEF);
}

/// The revocation of the lease is proposed, but not committed, when a leader is elected. The new leader restarts the lease, and extends
/// it before it applies that entry. Both answers have the old term.
#[test]
fn grant_on_a_lease_that_ends_during_an_election_leaves_two_holders() {
    refute(EtcdLease { recipe: Recipe::GrantsAfterLeaseEnd, ..WITH_ELECTION }, BELIEF);
}

/// The same fault in a renewal, which the loss rule of the core prevents.
#[test]
fn renewal_after_the_end_of_belief_leaves_two_holders() {
    refute(EtcdLease { recipe: Recipe::RenewsAfterBeliefEnd, ..WITH_ELECTION }, BELIEF);
}

#[test]
fn key_on_a_lease_that_is_not_extended_leaves_two_holders() {
    refute(EtcdLease { recipe: Recipe::AcceptsAnyLease, ..WITH_MOVE }, BELIEF);
}

/// The move is executed after the read, to a lease that was never extended.
#[test]
fn read_after_a_move_without_an_answer_leaves_two_holders() {
    refute(EtcdLease { recipe: Recipe::ReadsAfterMove, ..WITH_MOVE }, BELIEF);
}

/// The new lease ends before its extension is executed, while belief still counts from the previous lease.
#[test]
fn move_to_a_lease_that_ends_earlier_leaves_two_holders() {
    let max_faults = Faults { moved_keys: 1, ..NONE };
    refute(EtcdLease { recipe: Recipe::MovesToShorterLease, max_faults, ..BASE }, BELIEF);
}

/// For this reason belief ends earlier than the lease.
#[test]
fn leader_clock_ahead_by_more_than_the_margin_leaves_two_holders() {
    refute(EtcdLease { max_faults: Faults { gained_ticks: 1, ..NONE }, ..BASE }, BELIEF);
}

/// etcd issue 15247. For this reason only tokens protect a fail-over before etcd 3.5.13.
#[test]
fn replaced_leader_that_still_revokes_leases_leaves_two_holders() {
    refute(EtcdLease { replaced_leaders_revoke: true, ..WITH_ELECTION }, BELIEF);
}

#[test]
fn recipe_without_elections_is_safe() {
    verify(EtcdLease { ticks: 3, ..BASE });
}

#[test]
fn recipe_with_an_election_is_safe() {
    verify(WITH_ELECTION);
}

#[test]
fn recipe_with_an_election_and_a_lost_answer_is_safe() {
    verify(EtcdLease { max_faults: Faults { lost_answers: 1, ..ONE_ELECTION }, ..BASE });
}

/// The comparison of terms is sufficient, although `backend-etcd` also compares the members.
#[test]
fn recipe_with_an_election_and_calls_to_two_members_is_safe() {
    verify(EtcdLease { two_members: true, ..WITH_ELECTION });
}

#[test]
fn recipe_with_a_moved_key_is_safe() {
    verify(WITH_MOVE);
}

#[test]
fn recipe_with_a_leader_clock_ahead_by_the_margin_is_safe() {
    verify(EtcdLease { margin: 1, ticks: 3, max_faults: Faults { gained_ticks: 1, ..NONE }, ..BASE });
}

/// Terms are compared only because of elections.
#[test]
fn answers_of_any_term_without_elections_are_safe() {
    verify(EtcdLease { recipe: Recipe::IgnoresTerms, ..BASE });
}

#[test]
fn grant_on_any_extended_lease_without_elections_is_safe() {
    verify(EtcdLease { recipe: Recipe::GrantsAfterLeaseEnd, ..BASE });
}

#[test]
fn table_lists_every_run() {
    leasehold_models::check_run_list();
}
