//! The lock recipe on ZooKeeper, explored: every order of events within the bounds that are printed.
//!
//! What locks have been published with is found: the number as a token, the watch that is believed, the watch that is set
//! too late, the ghost of a lost reply, the node of a dead session, the list of a server that is behind. The recipe that is built here is explored to its end,
//! and has no such history.

#![allow(clippy::cast_possible_truncation, reason = "there are a handful of each")]

mod client;
mod ensemble;
mod judging;
mod protocol;
mod steps;

use leasehold_models::{fails, holds};
use protocol::{CLEAN, EXCLUSIVE, Faults, GROWING, Protocol, Recipe, WOKEN};

const OURS: Protocol = Protocol { recipe: Recipe::Ours, clients: 2, at_most: NONE };
const NONE: Faults = Faults { lost: 0, expiries: 0, given_up: 0, deletions: 0 };

/// The numbers begin anew with the directory.
#[test]
fn the_number_is_no_token() {
    fails(Protocol { recipe: Recipe::NumberAsToken, ..OURS }, GROWING);
}

#[test]
fn when_the_lowest_node_goes_not_everybody_holds() {
    fails(Protocol { recipe: Recipe::WatchesTheLowest, clients: 3, ..OURS }, EXCLUSIVE);
}

/// Who was in front may have left without ever having held.
#[test]
fn when_the_predecessor_goes_its_successor_need_not_hold() {
    fails(Protocol { recipe: Recipe::BelievesTheWatch, clients: 3, ..OURS }, EXCLUSIVE);
}

#[test]
fn a_watch_that_is_set_after_the_read_sleeps_for_ever() {
    fails(Protocol { recipe: Recipe::WatchesAfterTheRead, ..OURS }, WOKEN);
}

#[test]
fn the_ghost_of_a_lost_reply_stands_in_its_own_way() {
    let at_most = Faults { lost: 1, ..NONE };
    fails(Protocol { recipe: Recipe::StandsAgain, at_most, ..OURS }, WOKEN);
}

#[test]
fn the_ghost_of_a_lost_reply_is_left_behind() {
    let at_most = Faults { lost: 1, ..NONE };
    fails(Protocol { recipe: Recipe::StandsAgain, at_most, ..OURS }, CLEAN);
}

/// CURATOR-604: the ensemble ends the node with its session, and the next one holds.
#[test]
fn the_node_of_an_earlier_session_is_not_to_be_believed_in() {
    let at_most = Faults { lost: 1, expiries: 1, given_up: 1, ..NONE };
    fails(Protocol { recipe: Recipe::AdoptsAnyNode, at_most, ..OURS }, EXCLUSIVE);
}

/// A server that is cut off shows a session's node for as long as it likes.
#[test]
fn the_list_of_a_server_that_is_behind_is_not_to_be_counted_from() {
    let at_most = Faults { expiries: 1, ..NONE };
    fails(Protocol { recipe: Recipe::CountsFromTheLook, clients: 3, at_most }, GROWING);
}

#[test]
fn ours_hands_over_in_line() {
    holds(Protocol { clients: 3, ..OURS });
}

#[test]
fn ours_survives_lost_replies() {
    holds(Protocol { at_most: Faults { lost: 2, ..NONE }, ..OURS });
}

#[test]
fn ours_survives_sessions_that_end() {
    let at_most = Faults { lost: 1, expiries: 2, given_up: 1, ..NONE };
    holds(Protocol { at_most, ..OURS });
}

#[test]
fn ours_survives_hands_that_delete() {
    let at_most = Faults { expiries: 1, deletions: 2, ..NONE };
    holds(Protocol { at_most, ..OURS });
}

#[test]
fn ours_in_a_line_of_three_that_loses_a_reply_or_a_session() {
    let at_most = Faults { lost: 1, expiries: 1, ..NONE };
    holds(Protocol { clients: 3, at_most, ..OURS });
}

#[test]
fn the_documents_name_these_runs() {
    leasehold_models::names_the_runs_of_this_program();
}
