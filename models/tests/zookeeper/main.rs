//! The lock recipe on ZooKeeper, explored: every order of events within the bounds that are printed.
//!
//! The search finds the faults that locks have been published with: the sequence number as the token, a watch that is believed,
//! a watch that is set too late, a second node after a lost reply, a node of an earlier session, a list of a server that is
//! behind; and the faults of readers and writers. It explores the recipe of `backend-zk` to the end, and finds none.

#![allow(clippy::cast_possible_truncation, reason = "there are a handful of each")]

mod client;
mod ensemble;
mod protocol;
mod steps;

use leasehold_models::{fails, holds};
use protocol::{CLEAN, EXCLUSIVE, Faults, GROWING, Protocol, Recipe, WOKEN};

const NONE: Faults = Faults { lost: 0, expiries: 0, given_up: 0, deletions: 0, touches: 0, rechecks: 0 };
const TWO_WRITERS: Protocol = Protocol { recipe: Recipe::Ours, writers: 2, readers: 0, at_most: NONE };
const THREE_WRITERS: Protocol = Protocol { writers: 3, ..TWO_WRITERS };
const READERS_AND_WRITER: Protocol = Protocol { writers: 1, readers: 2, ..TWO_WRITERS };

/// The numbers begin again with the directory.
#[test]
fn sequence_number_as_the_token_repeats() {
    fails(Protocol { recipe: Recipe::NumberAsToken, ..TWO_WRITERS }, GROWING);
}

#[test]
fn watch_on_the_lowest_node_grants_to_all_waiters() {
    fails(Protocol { recipe: Recipe::WatchesTheLowest, ..THREE_WRITERS }, EXCLUSIVE);
}

/// The blocker may have left without ever holding.
#[test]
fn watch_that_is_taken_for_a_grant_grants_twice() {
    fails(Protocol { recipe: Recipe::BelievesTheWatch, ..THREE_WRITERS }, EXCLUSIVE);
}

#[test]
fn watch_that_is_set_after_the_read_misses_the_release() {
    fails(Protocol { recipe: Recipe::WatchesAfterTheRead, ..TWO_WRITERS }, WOKEN);
}

#[test]
fn second_node_after_a_lost_reply_waits_for_the_first() {
    let at_most = Faults { lost: 1, ..NONE };
    fails(Protocol { recipe: Recipe::CreatesAgain, at_most, ..TWO_WRITERS }, WOKEN);
}

#[test]
fn second_node_after_a_lost_reply_leaves_the_first_behind() {
    let at_most = Faults { lost: 1, ..NONE };
    fails(Protocol { recipe: Recipe::CreatesAgain, at_most, ..TWO_WRITERS }, CLEAN);
}

/// CURATOR-604: the ensemble ends the node with its session, and the next claim holds.
#[test]
fn node_of_an_earlier_session_grants_twice() {
    let at_most = Faults { lost: 1, expiries: 1, given_up: 1, ..NONE };
    fails(Protocol { recipe: Recipe::AdoptsAnyNode, at_most, ..TWO_WRITERS }, EXCLUSIVE);
}

/// A server that is cut off shows the node of an ended session.
#[test]
fn list_of_a_server_that_is_behind_grants_out_of_order() {
    let at_most = Faults { expiries: 1, ..NONE };
    fails(Protocol { recipe: Recipe::CountsFromTheList, at_most, ..THREE_WRITERS }, GROWING);
}

#[test]
fn failed_attempt_that_is_not_repeated_misses_the_release() {
    let at_most = Faults { lost: 1, ..NONE };
    fails(Protocol { recipe: Recipe::ForgetsAFailure, at_most, ..TWO_WRITERS }, WOKEN);
}

#[test]
fn writer_that_ignores_readers_holds_beside_one() {
    fails(Protocol { recipe: Recipe::WriterIgnoresReaders, ..READERS_AND_WRITER }, EXCLUSIVE);
}

#[test]
fn reader_that_passes_a_waiting_writer_holds_beside_it() {
    fails(Protocol { recipe: Recipe::ReaderPassesWriters, ..READERS_AND_WRITER }, EXCLUSIVE);
}

/// The reader in front holds, and this one holds with it, but is never told.
#[test]
fn reader_that_watches_the_reader_in_front_misses_its_turn() {
    fails(Protocol { recipe: Recipe::ReaderWatchesTheNodeInFront, ..READERS_AND_WRITER }, WOKEN);
}

#[test]
fn ours_among_three_writers() {
    holds(THREE_WRITERS);
}

#[test]
fn ours_with_lost_replies() {
    holds(Protocol { at_most: Faults { lost: 2, ..NONE }, ..TWO_WRITERS });
}

#[test]
fn ours_with_sessions_that_end() {
    let at_most = Faults { lost: 1, expiries: 2, given_up: 1, ..NONE };
    holds(Protocol { at_most, ..TWO_WRITERS });
}

#[test]
fn ours_with_nodes_deleted_by_hand() {
    let at_most = Faults { expiries: 1, deletions: 2, ..NONE };
    holds(Protocol { at_most, ..TWO_WRITERS });
}

#[test]
fn ours_with_blockers_that_are_checked_and_touched() {
    let at_most = Faults { lost: 1, touches: 1, rechecks: 1, ..NONE };
    holds(Protocol { at_most, ..THREE_WRITERS });
}

#[test]
fn ours_among_three_writers_with_a_lost_reply_and_a_session_that_ends() {
    let at_most = Faults { lost: 1, expiries: 1, ..NONE };
    holds(Protocol { at_most, ..THREE_WRITERS });
}

#[test]
fn ours_with_two_readers_and_two_writers() {
    holds(Protocol { writers: 2, readers: 2, ..TWO_WRITERS });
}

#[test]
fn ours_with_two_readers_and_two_writers_that_lose_a_reply() {
    holds(Protocol { writers: 2, readers: 2, at_most: Faults { lost: 1, ..NONE }, ..TWO_WRITERS });
}

#[test]
fn ours_with_readers_and_a_writer_that_lose_replies() {
    holds(Protocol { at_most: Faults { lost: 2, ..NONE }, ..READERS_AND_WRITER });
}

#[test]
fn ours_with_readers_and_a_writer_whose_session_ends() {
    let at_most = Faults { lost: 1, expiries: 1, ..NONE };
    holds(Protocol { at_most, ..READERS_AND_WRITER });
}

#[test]
fn ours_with_readers_and_a_writer_and_nodes_deleted_by_hand() {
    let at_most = Faults { deletions: 2, rechecks: 1, ..NONE };
    holds(Protocol { at_most, ..READERS_AND_WRITER });
}

#[test]
fn documents_name_these_runs() {
    leasehold_models::names_the_runs_of_this_program();
}
