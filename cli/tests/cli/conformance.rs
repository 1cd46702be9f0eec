//! `leasehold conformance`: what it says, what it leaves behind, and how it ends. What the cases ask stands in the suite.

use crate::support::{CommandOutput, Place, Running, until};
use leasehold_test_stores::servers::RedisServer;
use rustix::process::Signal;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

fn keys(server: &RedisServer) -> String {
    server.command(&["DBSIZE"]).unwrap()
}

fn last_line(said: &CommandOutput) -> &str {
    said.out.lines().last().unwrap_or_default()
}

#[test]
fn user_store_is_tested_and_left_as_it_was() {
    let (place, server) = Place::with_redis();
    server.command(&["SET", "leasehold:theirs", "another program's"]).unwrap();
    // Locks that are given back, dropped, listed, taken by processes that are killed; and a whole family.
    let filters = ["--filter", "::A", "--filter", "C10", "--filter", "I01", "--filter", "E10"];
    let said = place.say([&["conformance", "--seed", "7"], &filters[..]].concat());
    said.code(0);
    assert!(said.out.contains("ok      store::A05_four_processes_are_never_two_at_once ("), "{said:?}");
    assert!(said.out.contains("skipped store::A08_thousand_cycles_leave_nothing_behind: "), "{said:?}");
    assert!(last_line(&said).contains(" passed, 0 failed, "), "{said:?}");
    assert!(!said.out.contains('\u{1b}'), "{said:?}");
    assert_eq!(keys(&server), ":1", "{}", server.command(&["KEYS", "*"]).unwrap());
    assert!(server.command(&["GET", "leasehold:theirs"]).unwrap().ends_with("another program's"));
}

#[test]
fn cases_that_would_disturb_others_are_skipped_and_say_so() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path().join("locks.db").display());
    let said = place.say(["conformance", &url, "--filter", "D16", "--filter", "P12", "--filter", "A01"]);
    said.code(0);
    assert!(said.out.contains("D16_ten_thousand_holds_are_all_renewed: it is a load that"), "{said:?}");
    assert!(said.out.contains("P12_purge_forgets_nothing_that_counts: it would change what"), "{said:?}");
    assert_eq!(last_line(&said), "1 passed, 0 failed, 2 skipped");
}

#[test]
fn conformance_list_runs_nothing() {
    let place = Place::new();
    let said = place.say(["conformance", "--faults", "redis", "sqlite:", "--list", "--filter", "A01"]);
    said.expect(
        0,
        "sqlite::A01_released_lock_can_be_had_again\n\
         redis::A01_released_lock_can_be_had_again\n",
        "",
    );
    // A listing does not need a store either.
    let said = place.say(["conformance", "redis://127.0.0.1:1", "--list", "--filter", "A02_"]);
    said.expect(0, "redis::A02_held_lock_refuses_a_second_holder_at_once\n", "");
    assert!(!place.default_store().exists());
}

#[test]
fn run_without_a_case_is_a_failure() {
    let (place, _server) = Place::with_redis();
    let said = place.say(["conformance", "--filter", "P07"]);
    said.code(1);
    assert!(
        said.out.ends_with("nothing ran: that is a failure\n0 passed, 0 failed, 1 skipped\n"),
        "{said:?}"
    );
    let said = place.say(["conformance", "--filter", "no such case"]);
    said.code(64);
    assert!(said.err.contains("invalid filter: [\"no such case\"]"), "{said:?}");
    let said = place.say(["conformance", "--faults", "consul"]);
    said.code(64);
    assert!(said.err.contains("\"consul\" names no store"), "{said:?}");
}

#[test]
fn unreachable_store_is_reported_once() {
    let place = Place::new();
    let said = place.say(["conformance", "redis://127.0.0.1:1"]);
    said.code(69);
    assert_eq!((said.out.as_str(), said.err.matches("error[").count()), ("", 1), "{said:?}");
}

/// A user without the right to list fails the case that lists, and the line that shows it again stands beside it.
#[test]
fn failed_case_is_shown_with_the_command_that_repeats_it() {
    let (place, server) = Place::with_redis();
    server.command(&["ACL", "SETUSER", "default", "-scan"]).unwrap();
    let junit = place.path().join("result.xml");
    let words = ["conformance", "--seed", "7", "--filter", "C10", "--filter", "A01", "--junit"];
    let said = place.say([&words[..], &[junit.to_str().unwrap()]].concat());
    said.code(1);
    assert!(said.out.contains("FAILED  store::C10_listing_shows_exactly_the_held_names ("), "{said:?}");
    assert!(said.out.contains("again: leasehold conformance --filter store::C10 --seed 7"), "{said:?}");
    assert!(said.out.ends_with("1 passed, 1 failed, 0 skipped\n"), "{said:?}");
    // What was found says more than that the store could not be tidied up, and both are said.
    assert!(said.err.contains("error[E_DENIED]"), "{said:?}");
    is_well_formed(&std::fs::read_to_string(junit).unwrap());
}

/// A fresh one for every client, as the configuration would make it, has no lock in common with the next.
#[test]
fn memory_is_one_store_wherever_its_url_comes_from() {
    let place = Place::with_store("memory:");
    let file = place.file("mine.toml", "default = \"p\"\n[profile.p]\nurl = \"memory:\"\n");
    let mut by_profile =
        place.command(["--config", file.to_str().unwrap(), "conformance", "--filter", "A02"]);
    by_profile.env_remove("LEASEHOLD_URL");
    let by_variable = place.command(["conformance", "--filter", "A02"]);
    for call in [by_variable, by_profile] {
        let said = Running::start(call).wait();
        assert_eq!(last_line(said.code(0)), "1 passed, 0 failed, 0 skipped");
    }
}

/// With the options of the call, without which it would be another store.
#[test]
fn repeat_command_of_a_failure_names_the_same_store() {
    let (place, server) = Place::with_redis();
    server.command(&["ACL", "SETUSER", "default", "-scan"]).unwrap();
    let profile = format!("[profile.p]\nurl = \"{}\"\n", server.url());
    let file = place.file("my.toml", &profile);
    let file = file.to_str().unwrap();
    let words = ["conformance", "-p", "p", "--config", file, "--seed", "7", "--filter", "C10"];
    let mut call = place.command(words);
    call.env_remove("LEASEHOLD_URL");
    let said = Running::start(call).wait();
    let again = format!("again: leasehold conformance -p p --config {file} --filter store::C10 --seed 7");
    assert!(said.code(1).out.contains(&again), "{said:?}");
    let url = server.url();
    let said = place.say(["conformance", "-u", &url, "--seed", "7", "--filter", "C10"]);
    let again = format!("again: leasehold conformance -u {url} --filter redis::C10 --seed 7");
    assert!(said.code(1).out.contains(&again), "{said:?}");
}

#[test]
fn url_option_beside_named_stores_is_refused() {
    let place = Place::new();
    for words in ["conformance --faults sqlite", "conformance memory:", "bench memory:"] {
        let words: Vec<&str> = ["-u", "sqlite:mine.db"].into_iter().chain(words.split(' ')).collect();
        let said = place.say(&words);
        assert!(
            said.code(64).err.starts_with("error[E_INVALID]: invalid --url: it names a store beside "),
            "{said:?}"
        );
    }
}

/// Every tag is closed in its turn, and the numbers are those of the run.
fn is_well_formed(text: &str) {
    let mut open = Vec::new();
    for tag in text.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("a tag without an end: {tag}"));
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = |tag: &str| tag.split(' ').next().unwrap_or_default().to_owned();
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(name(closed)), "{text}"),
            None if tag.ends_with('/') || tag.starts_with('?') => {}
            None => open.push(name(tag)),
        }
    }
    assert!(open.is_empty(), "{open:?} are open in {text}");
    assert!(text.contains("tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""), "{text}");
}

#[test]
fn events_are_one_object_in_a_line() {
    let (place, _server) = Place::with_redis();
    let said = place.say(["conformance", "--format", "ndjson", "--filter", "A01", "--seed", "7"]);
    said.code(0);
    let events: Vec<serde_json::Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["case_started", "case_finished", "run_finished"]);
    assert_eq!((&events[1]["case"], &events[1]["outcome"]["is"]), (&"A01".into(), &"passed".into()));
    assert_eq!((&events[2]["passed"], &events[2]["seed"]), (&1.into(), &"7".into()));
}

#[test]
fn ctrl_c_ends_conformance_and_leaves_nothing_in_the_store() {
    let (place, server) = Place::with_redis();
    let mut run = place.start(["conformance", "--filter", "D0", "--filter", "B0", "--filter", "A0"]);
    until("it is at it", || keys(&server) != ":0" && run.is_running());
    run.process().signal(Signal::INT);
    let said = run.wait();
    assert!(matches!(said.code, None | Some(130)), "{said:?}");
    assert!(last_line(&said).contains(", interrupted: "), "{said:?}");
    assert_eq!(keys(&server), ":0", "{}", server.command(&["KEYS", "*"]).unwrap());
}

/// Here for a store that does not answer when it is to be tidied up.
#[test]
fn second_signal_ends_the_wait_and_a_missing_cleanup_is_reported() {
    let (place, server) = Place::with_redis();
    let mut run = place.start(["conformance", "--filter", "D0", "--filter", "B0", "--filter", "A0"]);
    run.line("ok ");
    server.pause();
    until("it has ended", || {
        run.signal(Signal::INT);
        !run.is_running()
    });
    let said = run.wait();
    assert!(matches!(said.code, None | Some(130)), "{said:?}");
    assert!(
        said.err.contains("leasehold: clean-up was interrupted; to see what the cases left: leasehold ls "),
        "{said:?}"
    );
}

#[test]
fn faults_are_one_line_each_and_count() {
    let place = Place::new();
    let junit = place.path().join("result.xml");
    let words =
        ["conformance", "--faults", "sqlite", "--filter", "fault_record", "--filter", "fault_store-paused"];
    let said = place.say([&words[..], &["--seed", "7", "--junit", junit.to_str().unwrap()]].concat());
    said.code(0);
    let line = |begin: &str| said.out.lines().find(|line| line.starts_with(begin)).unwrap_or_default();
    let played = line("ok      sqlite::fault_record-deleted (");
    assert!(played.ends_with(" s): fenced only, as promised"), "{said:?}");
    let spared = line("skipped sqlite::fault_store-paused: not applicable: ");
    assert!(spared.contains("the store is a file"), "{said:?}");
    assert_eq!(last_line(&said), "1 passed, 0 failed, 1 skipped");
    assert!(std::fs::read_to_string(junit).unwrap().contains("name=\"fault_record-deleted\""));
}

/// The servers that it has started end, and their data with them: one that is just being started.
#[test]
fn faults_that_are_interrupted_leave_nothing() {
    interrupted(&["--filter", "fault_store-restarted"], |left, _| {
        until("the server is there", || left().iter().any(|data| data.join("db/postmaster.pid").exists()));
    });
}

/// And one that waits for its next case.
#[test]
fn faults_that_are_interrupted_leave_no_server_that_is_idle() {
    let more = ["--filter", "postgres::A01", "--filter", "postgres::D16", "--threads", "1"];
    interrupted(&more, |_, run| {
        run.line("ok      postgres::A01");
    });
}

/// Interrupts it when it is `time`.
fn interrupted(more: &[&str], time: impl FnOnce(&dyn Fn() -> Vec<PathBuf>, &mut Running)) {
    let place = Place::new();
    let scratch = place.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    // The server of PostgreSQL runs as somebody else.
    for folder in [place.path(), &scratch] {
        std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = place.command([&["conformance", "--faults", "postgres"], more].concat());
    command.env("TMPDIR", &scratch);
    // But for what is made once, and kept for the next run.
    let left = || {
        let all = std::fs::read_dir(&scratch).unwrap().map(|entry| entry.unwrap().path());
        let kept =
            |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("leasehold-servers");
        all.filter(|path| !kept(path)).collect::<Vec<_>>()
    };
    let mut run = Running::start(command);
    time(&left, &mut run);
    run.signal(Signal::INT);
    let said = run.wait();
    assert!(matches!(said.code, None | Some(130)), "{said:?}");
    assert!(last_line(&said).contains(" passed, 0 failed, 0 skipped, interrupted: "), "{said:?}");
    assert_eq!(left(), Vec::<PathBuf>::new());
}

#[test]
fn junit_is_written_although_the_output_is_not_read() {
    let place = Place::new();
    let said = place.shell("\"$0\" conformance memory: --filter A0 --junit out.xml | head -1");
    assert!(said.out.contains("A0"), "{said:?}");
    let written = std::fs::read_to_string(place.path().join("out.xml")).unwrap();
    assert!(written.trim_end().ends_with("</testsuites>"), "{written}");
}

/// Like the cases: what can never be seen here is no success.
#[test]
fn faults_of_which_none_was_made_are_a_failure() {
    let place = Place::new();
    let words =
        ["conformance", "--faults", "sqlite", "--filter", "sqlite::fault_pooler", "--format", "ndjson"];
    let said = place.say(words);
    said.code(1);
    let events: Vec<serde_json::Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&events[0]["event"], &events[0]["fault"]), (&"cell_finished".into(), &"pooler".into()));
    assert_eq!((&events[0]["state"]["is"], &events[1]["skipped"]), (&"not-applicable".into(), &1.into()));
    place.say([&words[..5], &["--list"]].concat()).expect(0, "sqlite::fault_pooler\n", "");
}

/// It is skipped only if the user asks for that; a run in which nothing else was there is no success.
#[test]
fn missing_server_is_not_judged_unless_skipping_is_allowed() {
    let place = Place::new();
    let say = |stores: &[&str], may_be_missing: bool| {
        let words = [&["conformance", "--faults"][..], stores, &["--filter", "::A01"]].concat();
        let mut command = place.command(words);
        command.env("PATH", place.path());
        if may_be_missing {
            command.env("LEASEHOLD_SKIP_MISSING", "1");
        }
        Running::start(command).wait()
    };
    let missing = "redis-server is not installed (Debian package redis-tools)";

    let said = say(&["redis", "sqlite"], false);
    said.code(75);
    assert!(said.out.contains("not judged redis::A01_") && said.out.contains(missing), "{said:?}");
    assert_eq!(last_line(&said), "1 passed, 0 failed, 0 skipped, 1 not judged");

    let said = say(&["redis", "sqlite"], true);
    said.code(0);
    assert!(said.out.contains("skipped redis::A01_") && said.out.contains(missing), "{said:?}");
    assert_eq!(last_line(&said), "1 passed, 0 failed, 1 skipped");

    let said = say(&["redis"], true);
    said.code(1);
    assert_eq!(last_line(&said), "0 passed, 0 failed, 1 skipped");
}

#[test]
fn soak_prints_the_seed_and_schedule_of_each_round() {
    let place = Place::new();
    let said = place.say(["conformance", "--faults", "redis", "--soak", "1s", "--seed", "7"]);
    said.code(0);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines[0], "soak of 1 s, seed 7");
    assert!(lines[1].starts_with("ok      redis seed 7 ("), "{said:?}");
    let (_, seen) = lines[1].split_once(" s): ").unwrap();
    let (schedule, seen) = seen.rsplit_once("; ").unwrap();
    assert!(schedule.contains(" at "), "{said:?}");
    assert!(seen.contains(" grants, ") && seen.ends_with(" faults met a hold"), "{said:?}");
    assert_eq!(last_line(&said), "rounds: 1 passed, 0 failed, 0 skipped");
}

#[test]
fn memory_is_one_store_to_all_clients_of_a_case() {
    let said = Place::new().say(["conformance", "memory:", "--filter", "A0"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains(" 0 failed"), "{said:?}");
}
