//! Comparisons that are made for real.

use super::data::is_valid;
use crate::support::{CommandOutput, Place, Process, Running, gone, machine, until};
use rustix::process::Signal;
use serde_json::Value;

fn report(directory: &std::path::Path) -> Value {
    let report =
        serde_json::from_str(&std::fs::read_to_string(directory.join("report.json")).unwrap()).unwrap();
    is_valid(&report).unwrap();
    report
}

#[test]
fn stores_of_the_users_are_compared_and_nothing_stays_in_them() {
    let (place, server) = Place::with_redis();
    let out = place.path().join("out");
    let words = ["compare", "memory:", &server.url(), "--quick", "--bench-time", "200ms", "--seed", "0x5eed"];
    let words = words.into_iter().chain(["--out", out.to_str().unwrap()]);
    // Longer than anything else that a test waits for: it is a suite.
    let said = CommandOutput::of(&place.command(words).output().unwrap());
    for file in ["report.md", "report.html"] {
        assert!(out.join(file).exists(), "{file}");
    }
    let report = report(&out);
    assert_eq!((&report["seed"], &report["interrupted"]), (&Value::from(0x5eed), &Value::from(false)));
    let names: Vec<&str> =
        report["stores"].as_array().unwrap().iter().map(|store| store["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["memory", "redis"]);
    let mut seen = Vec::new();
    for store in report["stores"].as_array().unwrap() {
        let came_out = |how| {
            let cases = store["cases"].as_array().unwrap().iter();
            cases.filter(|case| case["outcome"]["is"] == how).count()
        };
        assert!(came_out("passed") > 20, "{}", store["name"]);
        let verdicts = [("failed", 1), ("late", 2), ("not-judged", 75)];
        seen.extend(verdicts.into_iter().filter(|(how, _)| came_out(how) > 0).map(|(_, code)| code));
        let rows = ["rows", "left_out"];
        let rows: usize = rows.iter().map(|part| store["speed"][part].as_array().unwrap().len()).sum();
        assert_eq!(rows, 11, "each row is measured, or it is said why not: {}", store["speed"]);
        assert_eq!(store["cells"].as_array().unwrap().len(), 0, "no fault is made in a user's store");
    }
    // How fast and whole a store is on a machine that does much else is not the matter here: that the code says it is.
    assert_eq!(said.code, Some(seen.into_iter().min().unwrap_or(0)), "{}", said.err);
    let keys = server.command(&["KEYS", "*leasehold-*"]).unwrap();
    assert!(!keys.contains("leasehold-bench") && !keys.contains("leasehold-conformance"), "{keys}");
}

#[test]
fn private_store_is_started_and_exposed_to_faults() {
    let place = Place::new();
    let out = place.path().join("out");
    let words = [
        "compare",
        "--preset",
        "local",
        "--store",
        "sqlite",
        "--only",
        "faults",
        "--out",
        out.to_str().unwrap(),
    ];
    // Longer than anything else that a test waits for: it is a matrix.
    let said = CommandOutput::of(&place.command(words).output().unwrap());
    let report = report(&out);
    let cells = report["stores"][0]["cells"].as_array().unwrap().clone();
    assert_eq!(cells.len(), 24);
    // A machine that is late judges some of them not, and the code says so; none is broken or late.
    let is_unjudged = cells.iter().any(|cell| cell["state"]["is"] == "not-judged");
    assert_eq!(said.code, Some(if is_unjudged { 75 } else { 0 }), "{}", said.err);
    assert!(cells.iter().any(|cell| cell["fault"] == "holder-killed" && cell["state"]["is"] == "kept"));
}

/// Its user may not delete, and need not: what the bench leaves ends with the server.
#[test]
fn private_store_is_measured_without_a_warning_about_leftovers() {
    let _alone = machine();
    let place = Place::new();
    let out = place.path().join("out");
    let store = ["compare", "--preset", "local", "--store", "mariadb-optimistic"];
    let bench = ["--only", "bench", "--quick", "--bench-time", "200ms", "--out", out.to_str().unwrap()];
    let said = place.say([&store[..], &bench].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!said.err.contains("not deleted"), "{}", said.err);
    assert!(!report(&out)["stores"][0]["speed"].is_null());
}

#[test]
fn compare_without_a_url_takes_the_configured_store() {
    let _alone = machine();
    let place = Place::new();
    let out = place.path().join("out");
    let bench = ["compare", "--only", "bench", "--quick", "--bench-time", "200ms"];
    let words = bench.into_iter().chain(["-u", "memory:", "--out", out.to_str().unwrap()]);
    place.say(words).code(0);
    assert_eq!(report(&out)["stores"][0]["name"], "memory");
}

#[test]
fn unreachable_store_is_in_the_report_and_alone_unavailable() {
    let place = Place::new();
    let out = place.path().join("out");
    let words = ["compare", "redis://127.0.0.1:1", "--quick", "--out", out.to_str().unwrap()];
    let said = place.say(words);
    assert_eq!(said.code, Some(69), "{}", said.err);
    assert!(said.err.contains("nothing was measured") && !said.err.contains("about 0s"), "{}", said.err);
    let report = report(&out);
    let why = report["stores"][0]["not_run"]["why"].as_str().unwrap();
    assert!(why.contains("127.0.0.1:1") && why.contains("; look at the address"), "what to do: {why}");
}

#[test]
fn mistakes_are_told_before_anything_is_tried() {
    let place = Place::new();
    let file = place.file("file", "");
    let out = file.join("out");
    let full = place.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("report.json"), "{}").unwrap();
    let cases: [(&[&str], &str); 17] = [
        (&["compare", "memory:", "memory:"], "the stores 1 and 2 of the call are the same"),
        (
            &["compare", "redis://127.0.0.1:1", "redis://127.0.0.1:1/"],
            "the stores 1 and 2 of the call are the same",
        ),
        (&["compare", "memory:a", "memory:b"], "two of the stores are memory"),
        (&["conformance", "memory:a", "memory:b"], "two of the stores are memory"),
        (&["bench", "sqlite:a.db", "memory:", "sqlite:a.db"], "the stores 1 and 3 of the call are the same"),
        (&["compare", "--preset", "cloud"], "invalid value 'cloud' for '--preset <NAME>'"),
        (&["compare", "memory:", "--only", "price"], "invalid value 'price' for '--only <PART>'"),
        (&["bench", "memory:", "--only", "queues"], "invalid value 'queues' for '--only <PART>'"),
        (&["compare", "memory:", "--out", "/proc"], "invalid out: /proc"),
        (&["compare", "memory:", "--out", full.to_str().unwrap()], "it has a report already"),
        (&["compare", "memory:", "redis://u:secret@127.0.0.1:1"], "it has a password"),
        (&["compare", "memory:", "-u", "redis://127.0.0.1:1"], "would not count"),
        (&["compare", "--preset", "local", "-u", "redis://127.0.0.1:1"], "would not count"),
        (&["compare", "memory:", "redis://127.0.0.1:1?timout=1s"], "timout"),
        (
            &["compare", "memory:", "--only", "faults"],
            "no fault is made in a store that somebody may be using",
        ),
        (&["compare", "--preset", "local", "--store", "consul"], "no store of this machine"),
        (&["compare", "memory:", "--out", out.to_str().unwrap()], "invalid out"),
    ];
    for (words, problem) in cases {
        let said = place.say(words.iter().copied());
        said.code(64);
        assert!(said.err.contains(problem), "{}", said.err);
    }
    assert_eq!(std::fs::read_to_string(full.join("report.json")).unwrap(), "{}");
    let mut scaled = place.command(["compare", "memory:"]);
    scaled.env("LEASEHOLD_TIME_SCALE", "100");
    let said = Running::start(scaled).wait();
    assert!(said.code(78).err.contains("LEASEHOLD_TIME_SCALE is \"100\", from 0.1 to 10"), "{said:?}");
    let unknown = place.say(["compare", "consul://127.0.0.1:1"]);
    assert!(unknown.code(78).err.contains("consul"), "{unknown:?}");
}

/// The store that is being measured has the rows that were measured until then.
#[test]
fn interrupted_comparison_keeps_finished_measurements() {
    let _alone = machine();
    let (place, server) = Place::with_redis();
    let out = place.path().join("out");
    let words = [
        "-v",
        "compare",
        &server.url(),
        "--only",
        "bench",
        "--bench-time",
        "200ms",
        "--out",
        out.to_str().unwrap(),
    ];
    let child = place.start(words);
    // The second pass: each row has been measured once.
    child.warned("pass 2: pairs@64");
    child.signal(Signal::INT);
    let said = child.wait();
    // By the signal itself, as a shell wants it.
    assert_eq!(said.code, None, "{said:?}");
    let report = report(&out);
    assert_eq!(report["interrupted"], true);
    let rows = report["stores"][0]["speed"]["rows"].as_array().unwrap();
    assert!(rows.len() > 8 && rows[0]["per_second"]["median"].as_f64().unwrap() > 0.0, "{report}");
    assert!(said.out.contains("fastest hand-over?"), "{said:?}");
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains("interrupted"));
    let keys = server.command(&["KEYS", "*leasehold-*"]).unwrap();
    assert!(!keys.contains("leasehold-bench"), "{keys}");
}

/// Here for a store that does not answer when it is to be tidied up.
#[test]
fn second_signal_ends_the_cleanup_of_a_comparison_and_it_is_reported() {
    let (place, server) = Place::with_redis();
    let mut run = place.start(["-v", "compare", &server.url(), "--only", "suite"]);
    run.warned("redis A0");
    server.pause();
    until("it has ended", || {
        run.signal(Signal::INT);
        !run.is_running()
    });
    let said = run.wait();
    assert!(matches!(said.code, None | Some(130)), "{said:?}");
    assert!(said.err.contains("not tidied up: redis: interrupted"), "{said:?}");
}

#[test]
fn servers_of_a_comparison_that_is_killed_are_killed_with_it() {
    let place = Place::new();
    let run = place.start(["compare", "--preset", "local", "--store", "redis", "--only", "suite"]);
    let mut servers = Vec::new();
    until("a server runs", || {
        // This is the title that Redis gives itself: `setpriv` has already executed it.
        servers = Process::marked("redis-server 127.0.0.1:");
        servers.retain(|server| server.parent() == Some(run.process()));
        !servers.is_empty()
    });
    run.signal(Signal::KILL);
    gone(&servers);
}
