//! Model of the lock recipe on ZooKeeper.
//!
//! The known faults of published locks are found: the sequence number as the token, a watch that is treated as a grant, a watch that is
//! set too late, a second node after a lost reply, a node of an earlier session, a list from a stale server, and the faults of readers and
//! writers. The recipe of `backend-zk` has none of them within the bounds.

#![allow(clippy::cast_possible_truncation, reason = "all numbers are small")]

mod client;
mod ensemble;
mod protocol;
mod steps;

use leasehold_models::{refute, verify};
use protocol::{CLEAN, EXCLUSIVE, Faults, GROWING, Recipe, WOKEN, ZooKeeperQueue};

const NONE: Faults = Faults {
    lost_replies: 0,
    expired_sessions: 0,
    abandoned_sessions: 0,
    deleted_nodes: 0,
    touched_nodes: 0,
    rechecks: 0,
};
const TWO_WRITERS: ZooKeeperQueue =
    ZooKeeperQueue { recipe: Recipe::Implemented, writers: 2, readers: 0, max_faults: NONE };
const THREE_WRITERS: ZooKeeperQueue = ZooKeeperQueue { writers: 3, ..TWO_WRITERS };
const READERS_AND_WRITER: ZooKeeperQueue = ZooKeeperQueue { writers: 1, readers: 2, ..TWO_WRITERS };

/// Sequence numbers restart when the directory is created again.
#[test]
fn sequence_number_as_token_repeats() {
    refute(ZooKeeperQueue { recipe: Recipe::SequenceAsToken, ..TWO_WRITERS }, GROWING);
}

#[test]
fn watch_on_the_lowest_node_grants_to_all_waiters() {
    refute(ZooKeeperQueue { recipe: Recipe::WatchesLowestNode, ..THREE_WRITERS }, EXCLUSIVE);
}

/// The blocker may have given up without ever holding the lock.
#[test]
fn watch_treated_as_a_grant_grants_twice() {
    refute(ZooKeeperQueue { recipe: Recipe::WatchAsGrant, ..THREE_WRITERS }, EXCLUSIVE);
}

#[test]
fn watch_set_after_the_read_misses_the_release() {
    refute(ZooKeeperQueue { recipe: Recipe::WatchesAfterRead, ..TWO_WRITERS }, WOKEN);
}

#[test]
fn second_node_after_a_lost_reply_waits_for_the_first() {
    let max_faults = Faults { lost_replies: 1, ..NONE };
    refute(ZooKeeperQueue { recipe: Recipe::CreatesAgain, max_faults, ..TWO_WRITERS }, WOKEN);
}

#[test]
fn second_node_after_a_lost_reply_leaves_the_first_behind() {
    let max_faults = Faults { lost_replies: 1, ..NONE };
    refute(ZooKeeperQueue { recipe: Recipe::CreatesAgain, max_faults, ..TWO_WRITERS }, CLEAN);
}

/// CURATOR-604: the node is deleted with its session, and the next claim is granted the lock.
#[test]
fn node_accepted_from_an_earlier_session_grants_twice() {
    let max_faults = Faults { lost_replies: 1, expired_sessions: 1, abandoned_sessions: 1, ..NONE };
    refute(ZooKeeperQueue { recipe: Recipe::AdoptsAnyNode, max_faults, ..TWO_WRITERS }, EXCLUSIVE);
}

/// A partitioned server shows the node of an expired session.
#[test]
fn list_of_a_stale_server_grants_out_of_order() {
    let max_faults = Faults { expired_sessions: 1, ..NONE };
    refute(ZooKeeperQueue { recipe: Recipe::CountsFromStaleList, max_faults, ..THREE_WRITERS }, GROWING);
}

#[test]
fn failed_attempt_without_a_retry_misses_the_release() {
    let max_faults = Faults { lost_replies: 1, ..NONE };
    refute(ZooKeeperQueue { recipe: Recipe::NoRetry, max_faults, ..TWO_WRITERS }, WOKEN);
}

#[test]
fn writer_that_ignores_readers_holds_with_a_reader() {
    refute(ZooKeeperQueue { recipe: Recipe::WriterIgnoresReaders, ..READERS_AND_WRITER }, EXCLUSIVE);
}

#[test]
fn reader_that_passes_a_waiting_writer_holds_with_the_writer() {
    refute(ZooKeeperQueue { recipe: Recipe::ReaderPassesWriters, ..READERS_AND_WRITER }, EXCLUSIVE);
}

/// Both readers may hold the lock, but this one is notified only when the other one releases it.
#[test]
fn reader_that_watches_another_reader_is_not_woken() {
    refute(ZooKeeperQueue { recipe: Recipe::ReaderWatchesReader, ..READERS_AND_WRITER }, WOKEN);
}

#[test]
fn recipe_with_three_writers_is_safe() {
    verify(THREE_WRITERS);
}

#[test]
fn recipe_with_lost_replies_is_safe() {
    verify(ZooKeeperQueue { max_faults: Faults { lost_replies: 2, ..NONE }, ..TWO_WRITERS });
}

#[test]
fn recipe_with_expired_sessions_is_safe() {
    let max_faults = Faults { lost_replies: 1, expired_sessions: 2, abandoned_sessions: 1, ..NONE };
    verify(ZooKeeperQueue { max_faults, ..TWO_WRITERS });
}

#[test]
fn recipe_with_nodes_deleted_by_hand_is_safe() {
    let max_faults = Faults { expired_sessions: 1, deleted_nodes: 2, ..NONE };
    verify(ZooKeeperQueue { max_faults, ..TWO_WRITERS });
}

#[test]
fn recipe_with_checked_and_touched_blockers_is_safe() {
    let max_faults = Faults { lost_replies: 1, touched_nodes: 1, rechecks: 1, ..NONE };
    verify(ZooKeeperQueue { max_faults, ..THREE_WRITERS });
}

#[test]
fn recipe_with_three_writers_a_lost_reply_and_an_expired_session_is_safe() {
    let max_faults = Faults { lost_replies: 1, expired_sessions: 1, ..NONE };
    verify(ZooKeeperQueue { max_faults, ..THREE_WRITERS });
}

#[test]
fn recipe_with_two_readers_and_two_writers_is_safe() {
    verify(ZooKeeperQueue { writers: 2, readers: 2, ..TWO_WRITERS });
}

#[test]
fn recipe_with_two_readers_two_writers_and_a_lost_reply_is_safe() {
    verify(ZooKeeperQueue {
        writers: 2,
        readers: 2,
        max_faults: Faults { lost_replies: 1, ..NONE },
        ..TWO_WRITERS
    });
}

#[test]
fn recipe_with_two_readers_a_writer_and_lost_replies_is_safe() {
    verify(ZooKeeperQueue { max_faults: Faults { lost_replies: 2, ..NONE }, ..READERS_AND_WRITER });
}

#[test]
fn recipe_with_two_readers_a_writer_and_an_expired_session_is_safe() {
    let max_faults = Faults { lost_replies: 1, expired_sessions: 1, ..NONE };
    verify(ZooKeeperQueue { max_faults, ..READERS_AND_WRITER });
}

#[test]
fn recipe_with_two_readers_a_writer_and_nodes_deleted_by_hand_is_safe() {
    let max_faults = Faults { deleted_nodes: 2, rechecks: 1, ..NONE };
    verify(ZooKeeperQueue { max_faults, ..READERS_AND_WRITER });
}

#[test]
fn table_lists_every_run() {
    leasehold_models::check_run_list();
}
