//! The lock recipe on ZooKeeper, explored: every order of events within the bounds that are printed.
//!
//! What locks have been published with is found: the number as a token, the watch that is believed, the watch that is
//! set too late, the ghost of a lost reply, the node of a dead session, the list of a server that is behind; and of
//! claims of one process, which hand over to each other, the word that is believed too far, and what is heard during a look and
//! forgotten. The recipe that is built here is explored to its end, and has no such history.

#![allow(clippy::cast_possible_truncation, reason = "there are a handful of each")]

mod actions;
mod asking;
mod bell;
mod client;
mod ensemble;
mod follower;
mod judging;
mod listening;
mod protocol;
mod requests;
mod steps;

use leasehold_models::{fails, holds};
use protocol::{CLEAN, EXCLUSIVE, Faults, GROWING, PLACED, Protocol, Recipe, WOKEN};

const OURS: Protocol =
    Protocol { recipe: Recipe::Ours, clients: 2, of_one_process: 0, come_first: false, at_most: NONE };
const NONE: Faults = Faults { lost: 0, expiries: 0, given_up: 0, deletions: 0, touches: 0, unasked: 0 };
const ONE_HAND: Faults = Faults { deletions: 1, ..NONE };

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
    fails(Protocol { recipe: Recipe::CountsFromTheLook, clients: 3, at_most, ..OURS }, GROWING);
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

/// Those of one process tell each other, and watch their own nodes from when their turn comes.
const ONE_PROCESS: Protocol = Protocol { clients: 3, of_one_process: 3, ..OURS };
/// With one between them, or in front, or behind.
const MIXED: Protocol = Protocol { clients: 3, of_one_process: 2, ..OURS };
/// With one of another process behind three of which two have left, who have asked for what the third is to listen to.
const LONG: Protocol = Protocol { clients: 4, of_one_process: 3, come_first: true, ..OURS };

#[test]
fn one_process_in_front_that_has_not_held_hands_nothing_over() {
    fails(Protocol { recipe: Recipe::HandsOverUnheld, ..ONE_PROCESS }, EXCLUSIVE);
}

#[test]
fn one_process_whoever_is_told_nothing_sleeps_for_ever() {
    fails(Protocol { recipe: Recipe::LeavesWithoutAWord, ..ONE_PROCESS }, WOKEN);
}

#[test]
fn one_process_a_word_is_not_to_be_believed_without_a_watch_of_its_own() {
    fails(Protocol { recipe: Recipe::DoesNotWatchItself, at_most: ONE_HAND, ..MIXED }, EXCLUSIVE);
}

/// It looked for who was behind it when it began.
#[test]
fn one_process_who_leaves_has_not_looked_for_who_comes_later() {
    fails(Protocol { recipe: Recipe::ReliesOnWhoLeaves, at_most: ONE_HAND, ..MIXED }, EXCLUSIVE);
}

#[test]
fn one_process_a_word_for_an_earlier_node_is_not_for_this_one() {
    fails(Protocol { recipe: Recipe::BelievesAnyWord, at_most: ONE_HAND, ..ONE_PROCESS }, EXCLUSIVE);
}

/// Who is in front has told it once, and is still there.
#[test]
fn one_process_whoever_fails_to_look_is_not_told_again() {
    let at_most = Faults { lost: 2, ..NONE };
    fails(
        Protocol { recipe: Recipe::ForgetsThatItWasTold, clients: 2, of_one_process: 2, at_most, ..OURS },
        WOKEN,
    );
}

/// Its watch has fired, for its node is gone; the look that this was to lead to has failed; then the word comes.
#[test]
fn one_process_whoever_fails_to_look_has_no_watch_to_believe_by() {
    let at_most = Faults { lost: 1, deletions: 1, ..NONE };
    fails(Protocol { recipe: Recipe::ForgetsThatItWasTold, at_most, ..MIXED }, EXCLUSIVE);
}

/// The answer is not there yet, and nobody has looked since whether the node is.
#[test]
fn one_process_whoever_is_asked_for_does_not_listen_yet() {
    fails(Protocol { recipe: Recipe::TrustsWhatWasAsked, at_most: ONE_HAND, ..LONG }, EXCLUSIVE);
}

#[test]
fn one_process_who_has_asked_tells_nobody_later() {
    fails(Protocol { recipe: Recipe::LeavesItToWhoHasAsked, ..ONE_PROCESS }, WOKEN);
}

/// The one in front has left, and has not heard yet that it has. In the meantime the directory was made anew.
#[test]
fn one_process_the_next_number_may_be_that_of_another_directory() {
    let at_most = Faults { deletions: 2, ..NONE };
    fails(Protocol { recipe: Recipe::CountsAcrossDirectories, at_most, ..MIXED }, EXCLUSIVE);
}

/// Its node goes during an attempt; who comes next stands behind it, as the last to have come.
#[test]
fn one_process_who_has_heard_of_its_node_leads_nobody() {
    fails(Protocol { recipe: Recipe::LeadsBeforeItHasLooked, at_most: ONE_HAND, ..ONE_PROCESS }, WOKEN);
}

/// Its node goes when it has begun to listen to it, and nobody knows that yet.
#[test]
fn one_process_who_begins_to_listen_tells_what_it_has_heard() {
    fails(Protocol { recipe: Recipe::KeepsToItselfWhatCameEarly, at_most: ONE_HAND, ..ONE_PROCESS }, WOKEN);
}

#[test]
fn one_process_what_is_heard_between_two_requests_counts() {
    fails(Protocol { recipe: Recipe::ForgetsWhatItHeardMeanwhile, at_most: ONE_HAND, ..MIXED }, PLACED);
}

#[test]
fn one_process_whoever_finds_its_node_gone_does_not_wait_on() {
    fails(Protocol { recipe: Recipe::WaitsWithoutANode, at_most: ONE_HAND, ..ONE_PROCESS }, PLACED);
}

#[test]
fn one_process_who_comes_next_does_not_wait_for_one_without_a_node() {
    fails(Protocol { recipe: Recipe::WaitsWithoutANode, at_most: ONE_HAND, ..ONE_PROCESS }, WOKEN);
}

/// The one in front goes at the moment when it asks.
#[test]
fn a_look_without_news_that_fails_is_made_again() {
    let at_most = Faults { lost: 1, unasked: 1, ..NONE };
    fails(Protocol { recipe: Recipe::RestsAfterALookThatFailed, at_most, ..OURS }, WOKEN);
}

#[test]
fn ours_in_one_process_looks_without_news() {
    let at_most = Faults { deletions: 1, unasked: 1, ..NONE };
    holds(Protocol { at_most, ..ONE_PROCESS });
}

#[test]
fn ours_in_two_processes_looks_without_news_in_vain() {
    let at_most = Faults { lost: 1, unasked: 1, ..NONE };
    holds(Protocol { at_most, ..MIXED });
}

#[test]
fn ours_in_one_process_hands_over_in_line() {
    holds(ONE_PROCESS);
}

#[test]
fn ours_in_one_process_survives_hands_that_delete() {
    let at_most = Faults { deletions: 2, ..NONE };
    holds(Protocol { at_most, ..ONE_PROCESS });
}

#[test]
fn ours_in_one_process_survives_lost_replies() {
    let at_most = Faults { lost: 2, ..NONE };
    holds(Protocol { at_most, ..ONE_PROCESS });
}

#[test]
fn ours_in_one_process_survives_a_hand_and_a_lost_reply() {
    let at_most = Faults { lost: 1, deletions: 1, ..NONE };
    holds(Protocol { at_most, ..ONE_PROCESS });
}

#[test]
fn ours_in_one_process_survives_a_session_that_ends() {
    let at_most = Faults { expiries: 1, ..NONE };
    holds(Protocol { at_most, ..ONE_PROCESS });
}

#[test]
fn ours_in_a_process_of_two_survives_a_lost_reply_and_sessions_that_end() {
    let at_most = Faults { lost: 1, expiries: 1, given_up: 1, ..NONE };
    holds(Protocol { clients: 2, of_one_process: 2, at_most, ..OURS });
}

#[test]
fn ours_in_a_longer_line_of_two_processes_hands_over() {
    holds(LONG);
}

#[test]
fn ours_in_a_longer_line_of_two_processes_survives_a_hand_that_deletes() {
    holds(Protocol { at_most: ONE_HAND, ..LONG });
}

#[test]
fn ours_in_two_processes_hands_over_in_line() {
    holds(MIXED);
}

#[test]
fn ours_in_two_processes_survives_hands_that_delete() {
    let at_most = Faults { deletions: 2, ..NONE };
    holds(Protocol { at_most, ..MIXED });
}

#[test]
fn ours_in_two_processes_survives_a_hand_and_a_lost_reply() {
    let at_most = Faults { lost: 1, deletions: 1, ..NONE };
    holds(Protocol { at_most, ..MIXED });
}

#[test]
fn ours_in_two_processes_survives_hands_that_touch() {
    let at_most = Faults { deletions: 1, touches: 1, ..NONE };
    holds(Protocol { at_most, ..MIXED });
}

#[test]
fn ours_in_two_processes_survives_a_session_that_ends() {
    let at_most = Faults { expiries: 1, ..NONE };
    holds(Protocol { at_most, ..MIXED });
}

#[test]
fn the_documents_name_these_runs() {
    leasehold_models::names_the_runs_of_this_program();
}
