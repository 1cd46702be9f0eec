//! Ids that no case has: what they stand for is shown by a test that is not asked of every backend, or has no meaning here.
//! An id is for good, so none of them is ever given to a case about something else.

use Place::{Case, Nowhere, Test};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Where it is shown.
enum Place {
    /// By this test of this file.
    Test(&'static str, &'static str),
    /// By a case with another id.
    Case(&'static str),
    /// It has no meaning, or is not there; why.
    Nowhere(&'static str),
}

/// The id, what it stands for, and where that is shown.
const ELSEWHERE: &[(&str, &str, Place)] = &[
    ("A10", "so many releases as re-entrant acquisitions", Nowhere("no lock is re-entrant; A09 and A11")),
    ("D11", "the lease after a re-entrant acquisition", Nowhere("no lock is re-entrant")),
    ("E08", "a hold that cannot say that it is lost says so", Nowhere("every hold can")),
    ("F05", "the token of a re-entrant acquisition", Nowhere("no lock is re-entrant")),
    (
        "F09",
        "a write in the same store that is refused after a loss",
        Test("backend-sql/tests/servers/fenced.rs", "a_paused_holder_writes_nothing_after_its_successor"),
    ),
    (
        "F10",
        "tokens that go on in another store",
        Nowhere("none does; `docs/fencing.md` says which begin above"),
    ),
    ("H06", "what a hand-over costs, whoever waits", Case("Q01")),
    (
        "H08",
        "connections of a process with many waiters: Redis",
        Test(
            "backend-redis/tests/redis/handover.rs",
            "a_process_has_one_connection_and_one_subscription_and_that_only_if_it_waits",
        ),
    ),
    (
        "H08",
        "the same: databases",
        Test(
            "backend-sql/tests/servers/waking.rs",
            "thousands_who_wait_in_one_process_are_served_by_its_looks",
        ),
    ),
    ("J01", "a reset connection under a holder", Case("J11")),
    (
        "J01",
        "the same: ZooKeeper",
        Test(
            "backend-zk/tests/zk/session.rs",
            "a_lost_connection_puts_at_risk_at_once_and_a_reconnect_takes_it_back",
        ),
    ),
    (
        "J02",
        "a session that ends under a holder",
        Test(
            "backend-zk/tests/zk/session.rs",
            "a_session_that_is_over_ends_its_holds_with_that_cause_and_the_next_has_a_new_one",
        ),
    ),
    (
        "J03",
        "a new session beside the node of the old one",
        Test(
            "backend-zk/tests/zk/session.rs",
            "a_waiter_whose_session_has_ended_does_not_get_the_lock_by_its_old_node",
        ),
    ),
    ("J29", "", Nowhere("never given")),
    ("J30", "", Nowhere("never given")),
    (
        "K04",
        "all keys of a name on one node of a cluster",
        Test("backend-redis/tests/topologies/cluster.rs", "odd_names_are_queued_for_and_handed_over"),
    ),
    (
        "P05",
        "the victim of a deadlock tries again",
        Test(
            "backend-sql/tests/servers/deadlocks.rs",
            "a_renewal_that_is_the_victim_of_a_deadlock_is_made_again",
        ),
    ),
    ("P08", "a lock in its user's transaction", Nowhere("no lock joins one; F09 is the write in it")),
    ("P09", "what `GET_LOCK` cannot do", Nowhere("no lock is made of it")),
    (
        "P09",
        "a node of a Galera cluster",
        Test(
            "backend-sql/tests/servers/refusals.rs",
            "a_node_of_a_galera_cluster_is_an_error_unless_it_alone_is_written_to",
        ),
    ),
    ("P10", "the clock of a client ends no lease", Case("J14")),
    (
        "P11",
        "a table that is not there",
        Test(
            "backend-sql/tests/servers/first_use.rs",
            "a_table_that_is_missing_is_said_with_the_way_to_make_it",
        ),
    ),
    (
        "P11",
        "a table of a newer version",
        Test("backend-sql/tests/sqlite/schema.rs", "a_newer_schema_is_refused"),
    ),
    (
        "P13",
        "a release that found nothing is no success",
        Test("backend-sql/tests/sqlite/releases.rs", "a_second_release_finds_nothing_to_end"),
    ),
    (
        "P14",
        "SQLite between processes",
        Test("backend-sql/tests/sqlite/contention.rs", "two_processes_count_exactly"),
    ),
    (
        "P14",
        "SQLite, when the file is busy for too long",
        Test(
            "backend-sql/tests/sqlite/busy.rs",
            "a_file_that_stays_locked_is_unavailable_and_nothing_was_done",
        ),
    ),
    (
        "P14",
        "SQLite on a network file system",
        Test(
            "backend-sql/tests/sqlite/disk.rs",
            "a_file_that_is_seen_over_a_network_file_system_is_refused_and_nothing_is_made_there",
        ),
    ),
    (
        "Q02",
        "a lost reply to a create",
        Test("backend-zk/tests/zk/lost_replies.rs", "a_lost_create_is_found_and_not_doubled"),
    ),
    (
        "Q03",
        "a predecessor that goes between the list and the watch, in every order",
        Test("models/tests/zookeeper/main.rs", "ours_survives_hands_that_delete"),
    ),
    (
        "Q04",
        "numbers of places after the last one",
        Test("backend-zk/tests/zk/numbers.rs", "nobody_holds_by_a_number_that_another_may_have_too"),
    ),
    (
        "Q06",
        "rights on every node",
        Test("backend-zk/tests/zk/access.rs", "the_nodes_of_a_user_are_closed_to_everybody_else"),
    ),
    (
        "Q07",
        "nodes of other programs",
        Test("backend-zk/tests/zk/line.rs", "children_of_others_are_passed_over_and_never_deleted"),
    ),
    (
        "Q07",
        "contenders of other programs",
        Test("backend-zk/tests/zk/line.rs", "contenders_of_other_programs_are_respected"),
    ),
    (
        "R01",
        "a command under a lock: its code",
        Test("cli/tests/cli/exit_codes.rs", "it_is_the_commands_own"),
    ),
    ("R01", "its signals", Test("cli/tests/cli/signals.rs", "every_signal_is_passed_on_to_the_command")),
    ("R01", "its environment", Test("cli/tests/cli/environment.rs", "the_command_is_told_of_its_lock")),
    (
        "R02",
        "the end of a command whose lock is lost",
        Test(
            "cli/tests/cli/watchdog.rs",
            "leasehold_stopped_its_command_is_gone_before_the_lease_ends_and_it_says_so_when_it_goes_on",
        ),
    ),
    ("R03", "one program on every backend, by its URL", Nowhere("the suite is that program: `stores`")),
    (
        "R04",
        "a parameter that nobody knows",
        Test("core/src/url/tests.rs", "parameters_are_taken_or_refused_with_the_nearest"),
    ),
    (
        "R05",
        "what can be observed",
        Test("core/tests/promises/traces.rs", "every_event_is_logged_with_the_lock_that_it_is_about"),
    ),
    ("S04", "random histories under faults", Test("conformance-tests/tests/matrix/soak.rs", "trials")),
    (
        "S05",
        "what is declared against what is seen",
        Test("tests/tables/run.rs", "run_broke_no_promise_and_no_cell_of_it_is_void"),
    ),
    ("L", "read-write locks", Nowhere("there are none")),
    ("M", "semaphores and latches", Nowhere("there are none")),
    ("N", "several locks as one", Nowhere("there are none")),
    ("O", "leaders, and locks that are asked back", Nowhere("there are none")),
];

#[test]
fn an_id_without_a_case_is_no_case_and_what_it_stands_for_is_where_it_is_said() {
    let cases: HashSet<&str> = super::all().map(|case| case.id).collect();
    for (id, _, place) in ELSEWHERE {
        assert!(!cases.contains(id), "{id} is a case");
        match place {
            Test(file, test) => {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                assert!(text.contains(&format!("fn {test}(")), "{id}: {file} has no {test}");
            }
            Case(other) => assert!(cases.contains(other), "{id}: there is no {other}"),
            Nowhere(why) => assert!(!why.is_empty(), "{id}"),
        }
    }
}

#[test]
fn every_gap_between_ids_is_accounted_for() {
    let mut last = BTreeMap::new();
    let number = |id: &str| id[1..].parse::<u32>().unwrap();
    for case in super::all() {
        let last = last.entry(&case.id[..1]).or_insert(0);
        *last = (*last).max(number(case.id));
    }
    let is_known = |id: &str| super::by_id(id).is_some() || ELSEWHERE.iter().any(|(other, ..)| *other == id);
    for (family, last) in last {
        for id in (1..last).map(|number| format!("{family}{number:02}")) {
            assert!(is_known(&id), "{id} is neither a case nor shown elsewhere");
        }
    }
}
