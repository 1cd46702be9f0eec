//! Shared locks, permits and several names, by `run`, `hold`, `try`, `ls`, `inspect` and `release`.

use crate::support::{Place, Process, Running, gone, until};
use leasehold::client::{Clock, SystemClock};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;

/// Holds these locks in a process of its own, and answers what it has printed.
fn hold(place: &Place, words: &[&str]) -> (Running, Value) {
    let mut command = place.command([&["hold"], words].concat());
    command.stdin(std::process::Stdio::piped());
    let mut holder = Running::start(command);
    let line = holder.line("{");
    (holder, serde_json::from_str(&format!("{{{line}")).unwrap())
}

#[test]
fn readers_run_together_and_keep_a_writer_out() {
    let (redis, _server) = Place::with_redis();
    for place in [Place::new(), redis] {
        let (_reader, _) = hold(&place, &["--shared", "x"]);
        place.say(["-q", "run", "-n", "--shared", "x", "--", "echo", "read"]).expect(0, "read\n", "");
        let writer = place.say(["-q", "run", "-n", "x", "--", "echo", "written"]);
        assert_eq!((writer.code, writer.out.as_str()), (Some(75), ""), "{writer:?}");
        place.say(["try", "--shared", "x"]).expect(0, "\"x\" is free for a reader\n", "");
        place.say(["-q", "try", "x"]).code(75);
    }
    let place = Place::new();
    let _writer = place.hold("x");
    place.say(["-q", "try", "--shared", "x"]).code(75);
    place.say(["-qq", "run", "-n", "--shared", "x", "--", "true"]).code(75);
}

#[test]
fn as_many_run_as_there_are_permits_each_in_a_slot_of_its_own() {
    let place = Place::new();
    let show = "echo slot $LEASEHOLD_SLOT of $LEASEHOLD_NAME; exec sleep 1000";
    let mut runs: Vec<Running> =
        (0..2).map(|_| place.start(["run", "--permits", "2", "pool", "--", "sh", "-c", show])).collect();
    let mut slots: Vec<String> = runs.iter_mut().map(|run| run.line("slot ")).collect();
    slots.sort();
    assert_eq!(slots, ["0 of pool", "1 of pool"]);

    let third = place.say(["run", "-n", "--permits", "2", "pool", "--", "true"]);
    let said = &third.code(75).err;
    assert!(said.contains("error[E_BUSY]: all 2 permits of semaphore \"pool\" are held"), "{said}");
    assert!(said.contains(", slot 0\n") && said.contains(", slot 1\n"), "{said}");
    place.say(["try", "--permits", "2", "pool"]).expect(75, "\"pool\" has 0 of 2 permits free\n", "");
    place.say(["try", "--permits", "3", "pool"]).expect(0, "\"pool\" has 1 of 3 permits free\n", "");
    let state: Value =
        serde_json::from_str(&place.say(["try", "--json", "--permits", "3", "pool"]).out).unwrap();
    assert_eq!(state, json!({"name": "pool", "held": false, "permits": 3, "free": 1}));
    // The lock of this name is another lock.
    place.say(["-q", "run", "-n", "pool", "--", "env"]).code(0);
}

#[test]
fn several_names_are_all_held_or_none() {
    let place = Place::new();
    let script = r#""$0" -q run --token-fd 3 b a -- env 3>tokens"#;
    let said = place.shell(script);
    let told = |variable: &str| {
        let line = said.code(0).out.lines().find_map(|line| line.strip_prefix(variable)?.strip_prefix('='));
        line.map(str::to_owned)
    };
    assert_eq!(told("LEASEHOLD_NAMES").as_deref(), Some(r#"["b","a"]"#));
    assert_eq!((told("LEASEHOLD_NAME"), told("LEASEHOLD_TOKEN")), (None, None), "of which lock?");
    let tokens: Value = serde_json::from_str(&told("LEASEHOLD_TOKENS").unwrap()).unwrap();
    let lines = std::fs::read_to_string(place.path().join("tokens")).unwrap();
    assert_eq!(lines, format!("{}\n{}\n", tokens["b"], tokens["a"]), "in the order of the command line");

    let _holder = place.hold("b");
    let busy = place.say(["run", "-n", "a", "b", "c", "--", "echo", "ran"]);
    assert!(busy.code(75).err.contains("\"b\" is held by ada@") && busy.out.is_empty(), "{busy:?}");
    for name in ["a", "c"] {
        until("it was given back", || !place.is_held(name));
    }
    let (_set, line) = hold(&place, &["c", "a"]);
    assert_eq!(line["names"], json!(["c", "a"]));
    assert!(line["tokens"]["a"].is_u64() && line["name"].is_null(), "{line}");
}

#[test]
fn inner_command_has_no_variable_of_an_outer_lock_of_another_kind() {
    let place = Place::new();
    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let words = |outer: &[&str], inner: &[&str]| {
        place.say([&["-q", "run"], outer, &["--", leasehold, "-q", "run"], inner, &["--", "env"]].concat())
    };
    let variables = |out: &str, names: &[&str]| -> Vec<bool> {
        names.iter().map(|name| out.lines().any(|line| line.starts_with(&format!("{name}=")))).collect()
    };
    let names = ["LEASEHOLD_NAME", "LEASEHOLD_NAMES", "LEASEHOLD_TOKENS", "LEASEHOLD_SLOT"];
    let said = words(&["a", "b"], &["--permits", "2", "pool"]);
    assert_eq!(variables(&said.code(0).out, &names), [true, false, false, true]);
    let said = words(&["--permits", "2", "pool"], &["a", "b"]);
    assert_eq!(variables(&said.code(0).out, &names), [false, true, true, false]);
    let said = words(&["a", "b"], &["b"]);
    assert!(said.code(64).err.contains("\"b\" is held by a command that this one runs under"), "{said:?}");
    let said = words(&["--permits", "1", "pool"], &["--permits", "1", "pool"]);
    assert!(said.code(64).err.contains("every permit of \"pool\" is held by a command"), "{said:?}");
    words(&["--permits", "2", "pool"], &["--permits", "2", "pool"]).code(0);
}

#[test]
fn holders_of_each_kind_stand_under_the_name_that_a_person_gave() {
    let place = Place::new();
    let _permits = [(); 2].map(|()| hold(&place, &["--permits", "2", "pool"]));
    let _readers = [(); 2].map(|()| hold(&place, &["--shared", "page"]));
    let _lock = place.hold("zz");
    let listed = place.say(["ls"]);
    let first: Vec<&str> =
        listed.code(0).out.lines().map(str::trim).map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(first, ["NAME", "page", "reader", "reader", "pool", "slot 0", "slot 1", "zz"]);
    assert!(listed.out.contains("2 permits") && listed.out.contains("2 readers"), "{}", listed.out);
    let json: Value = serde_json::from_str(&place.say(["ls", "--json", "pool"]).out).unwrap();
    assert_eq!((&json[1]["semaphore"], &json[1]["slot"]), (&json!("pool"), &json!(1)));

    let shown = place.say(["inspect", "pool"]);
    let words = "\"pool\" is a semaphore, with 2 permits in use\nslot 0\n  holder   ada@";
    assert!(shown.code(0).out.starts_with(words), "{}", shown.out);
    assert_eq!(place.say(["inspect", "page"]).out.matches("\"page\" is held shared by ").count(), 2);
}

#[test]
fn forced_release_ends_one_reader_or_one_permit() {
    let place = Place::new();
    let release = |words: &[&str]| place.say([&["-q", "release", "--force", "--yes"], words].concat());
    let (permit, line) = hold(&place, &["--permits", "2", "pool"]);
    let (_other, _) = hold(&place, &["--permits", "2", "pool"]);
    let slot = line["slot"].to_string();
    let whole = release(&["pool"]);
    assert!(whole.code(64).err.contains("invalid call: \"pool\" is a semaphore"), "{whole:?}");
    let missing = release(&["--slot", "7", "pool"]);
    assert!(missing.code(64).err.contains("slot 7 of semaphore \"pool\" is not held"), "{missing:?}");
    let taken = place.say(["release", "--force", "--yes", "--slot", &slot, "pool"]);
    let words = format!("leasehold: slot {slot} of \"pool\" was taken from its holder\n");
    assert!(taken.code(0).err.ends_with(&words) && !taken.err.contains("::slot:"), "{taken:?}");
    place.say(["try", "--permits", "2", "pool"]).expect(0, "\"pool\" has 1 of 2 permits free\n", "");
    permit.signal(Signal::TERM);
    permit.wait().code(80);

    let (reader, line) = hold(&place, &["--shared", "page"]);
    let (_other, _) = hold(&place, &["--shared", "page"]);
    release(&["--reader", "1", "page"]).code(75);
    release(&["--reader", &line["token"].to_string(), "page"]).code(0);
    assert_eq!(place.say(["inspect", "page"]).out.matches("\"page\" is held shared").count(), 1);
    reader.signal(Signal::TERM);
    reader.wait().code(80);
    // A writer is no reader.
    let _writer = place.hold("other");
    release(&["--reader", "1", "other"]).code(75);
}

#[test]
fn bad_request_for_a_kind_is_refused_before_anything_runs() {
    let place = Place::new();
    let many: Vec<String> = (0..65).map(|number| format!("n{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let cases: [(&[&str], &str); 11] = [
        (&["--shared", "--permits", "2", "x"], "'--shared' cannot be used with '--permits"),
        (&["--shared", "a", "b"], "invalid --shared: with several names"),
        (&["--permits", "2", "a", "b"], "invalid --permits: with several names"),
        (&["--permits", "0", "x"], "0 is not in 1..=1000"),
        (&["--permits", "1001", "x"], "1001 is not in 1..=1000"),
        (&["--permits", "-1", "x"], "-1 is not in 1..=1000"),
        (&["--permits", "2", &"x".repeat(512)], "invalid lock name: 520 bytes, limit 512"),
        (&["a", "b", "a"], "invalid lock name: \"a\" twice"),
        (&many, "invalid set of locks: 65 names, limit 64"),
        (&["--hold-at-least", "1m", "a", "b"], "invalid hold_at_least: a set of locks cannot have it"),
        (
            &["-u", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--shared", "x"],
            "invalid --shared: redis (redlock) has no shared locks",
        ),
    ];
    for (words, message) in cases {
        let said = place.say([&["run"], words, &["--", "echo", "ran"]].concat());
        assert!(said.code(64).err.contains(message) && said.out.is_empty(), "{words:?}: {said:?}");
    }
    assert!(!place.default_store().exists(), "the store was opened");
    let mut command = place.command(["run", "x", "--", "echo", "ran"]);
    command.env("LEASEHOLD_TOKENS", "{}");
    let said = Running::start(command).wait();
    assert!(said.code(64).err.contains("invalid LEASEHOLD_TOKENS: it is set"), "{said:?}");
    for (slot, message) in [("1000", "1000 is not in"), ("5", "slot 5 of semaphore \"x\" is not held")] {
        let said = place.say(["release", "--force", "--slot", slot, "x"]);
        assert!(said.code(64).err.contains(message), "{said:?}");
    }
    let majority = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3";
    let said = place.say(["-u", majority, "try", "--shared", "x"]);
    assert!(said.code(64).err.contains("has no shared locks"), "{said:?}");
}

/// As two containers that share the name of their host.
#[test]
fn holder_of_the_same_host_name_and_process_id_is_shown() {
    let place = Place::new();
    let first_process = |words: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-U", "-r", "-p", "-f", "--mount-proc", env!("CARGO_BIN_EXE_leasehold")]).args(words);
        place.settle(&mut command);
        command
    };
    let mut holder = first_process(&["hold", "x"]);
    holder.stdin(std::process::Stdio::piped());
    let mut holder = Running::start(holder);
    holder.line("{");
    let said = Running::start(first_process(&["run", "-n", "x", "--", "true"])).wait();
    assert!(said.code(75).err.contains("error[E_BUSY]: \"x\" is held by ada@"), "{said:?}");
    holder.end_input();
    holder.wait().code(0);
}

/// The command under each kind of lock, and its lock keys on Redis.
const KINDS: [(&[&str], &str); 4] = [
    (&["--shared", "x"], "leasehold:x"),
    (&["--permits", "1", "x"], "leasehold:x::slot:0"),
    (&["w", "x"], "leasehold:x"),
    (&["x", "y"], "leasehold:y"),
];

fn start(place: &Place, kind: &[&str]) -> (Running, Process) {
    let words = ["--", "sh", "-c", "trap '' TERM; echo pid $$; while :; do sleep 1000; done"];
    let mut run = place.start([&["run", "--ttl", "1500ms"], kind, &words].concat());
    let command = run.process_line("pid ");
    (run, command)
}

#[test]
fn command_of_each_kind_is_gone_in_time_when_the_record_is_deleted() {
    for (kind, key) in KINDS {
        let (place, server) = Place::with_redis();
        let (run, command) = start(&place, kind);
        assert_ne!(server.command(&["DEL", key, &format!("{{{key}}}:shared")]).unwrap(), ":0", "{kind:?}");
        let mut next =
            place.start([&["run"], kind, &["--", "sh", "-c", "echo mine; exec sleep 1000"]].concat());
        next.line("mine");
        let is_shared = kind[0] == "--shared";
        assert!(is_shared || !command.lives(), "{kind:?}");
        let said = run.wait();
        assert!(said.code(80).err.contains("was lost"), "{kind:?}: {}", said.err);
    }
}

#[test]
fn command_of_each_kind_is_gone_within_its_lease_when_the_server_is_stopped() {
    for (kind, _) in KINDS {
        let (place, server) = Place::with_redis();
        let (run, command) = start(&place, kind);
        server.pause();
        let lease_end = SystemClock::new().now().plus(Duration::from_millis(1500));
        gone(&[command]);
        assert!(SystemClock::new().now() < lease_end, "{kind:?}: the lease was over before the command was");
        run.wait().code(80);
    }
}

#[test]
fn command_of_each_kind_is_gone_before_the_next_when_leasehold_is_killed() {
    for (kind, _) in KINDS {
        let (place, _server) = Place::with_redis();
        let (run, command) = start(&place, kind);
        run.signal(Signal::KILL);
        // It conflicts with each kind.
        let conflicting: &[&str] = if kind[0] == "--permits" { kind } else { &["x"] };
        let mut next =
            place.start([&["run"], conflicting, &["--", "sh", "-c", "echo mine; exec sleep 1000"]].concat());
        next.line("mine");
        assert!(!command.lives(), "{kind:?}");
    }
}
