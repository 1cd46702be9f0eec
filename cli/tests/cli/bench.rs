//! `leasehold bench`: what it says, and what it leaves behind. Not how fast anything is.

use crate::support::{CommandOutput, Place, Running, gone, machine, until};
use leasehold_test_stores::servers::{
    MariaDbServer, PostgresServer, RedisServer, ZooKeeperServer, mariadb_server_missing,
    postgres_server_missing, zookeeper_server_missing,
};
use rustix::process::Signal;
use serde_json::Value;
use std::process::{Command, Stdio};

/// A short run with these options too.
fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    words_for("150ms", more)
}

/// With windows in which the crowd that is asked for turns round, in a debug build and on a machine that others use.
fn words_for<'a>(window: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["bench", "--quick", "--passes", "1", "--duration", window], more].concat()
}

fn json(said: &CommandOutput) -> Value {
    serde_json::from_str(&said.code(0).out).unwrap()
}

fn rows(report: &Value) -> Vec<&Value> {
    report["stores"][0]["speed"]["rows"].as_array().unwrap().iter().collect()
}

fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let rows = rows(report);
    rows.into_iter().find(|row| row["row"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// The keys of the server.
fn keys(server: &RedisServer) -> Vec<String> {
    let reply = server.command(&["KEYS", "*"]).unwrap();
    reply.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
}

fn is_at_it(server: &RedisServer) {
    until("it is at it", || keys(server).iter().any(|key| key.contains("hand-over")));
}

/// What every run must have shown, whatever the store: nobody shared a lock, and all figures are there.
fn is_whole(report: &Value) {
    assert_eq!(report["schema"], 4);
    assert_eq!(report["interrupted"], false);
    for row in rows(report) {
        let name = row["row"].as_str().unwrap();
        if name.starts_with("held@") {
            assert_eq!(row["held"]["lost"], 0, "{name}");
            assert!(row["held"]["bytes_each"].as_u64().unwrap() < 16 * 1024, "{row}");
            continue;
        }
        if name.starts_with("waiting@") {
            assert!(row["per_second"].is_null() && row["client_cpu_us"].as_f64().unwrap() > 0.0, "{row}");
            continue;
        }
        let rate = &row["per_second"];
        let of = |what: &str| rate[what].as_f64().unwrap();
        assert!(of("min") <= of("median") && of("median") <= of("max") && of("max") > 0.0, "{row}");
        if row["latency_us"].is_null() {
            // Where waiters look for themselves, one may have had all turns of a window as short as this.
            assert!(
                name.starts_with("hand-over@") && row["fairness"]["max"].as_f64().unwrap() <= 0.5,
                "{row}"
            );
        } else {
            let at = |what: &str| row["latency_us"][what].as_f64().unwrap();
            assert!(0.0 < at("p50") && at("p50") <= at("p99") && at("p99") <= at("max"), "{row}");
        }
        if !name.starts_with("pairs@") {
            let none = Value::from(0);
            assert_eq!((&row["overlaps"], &row["stale_tokens"]), (&none, &none), "{name}");
        }
        if name.starts_with("hand-over@") || name.starts_with("permits@") {
            let fairness = row["fairness"]["max"].as_f64().unwrap();
            assert!(0.0 < fairness && fairness <= 1.0 + 1e-9, "{row}");
        }
    }
}

#[test]
fn every_row_is_measured_on_redis_and_nothing_stays_there() {
    let _alone = machine();
    let (place, server) = Place::with_redis();
    let report = json(&place.say(words_for("750ms", &["--processes", "2", "--format", "json"])));
    is_whole(&report);
    let names: Vec<&str> = rows(&report).iter().map(|row| row["row"].as_str().unwrap()).collect();
    let expected = [
        "pairs@1",
        "pairs@64",
        "pairs@1000",
        "hand-over@1x1p",
        "hand-over@8x1p",
        "hand-over@64x1p",
        "hand-over@64x2p",
        "reads@64",
        "mixed@8",
        "permits@64/8",
        "waiting@100",
        "held@1000",
    ];
    assert_eq!(names, expected);
    assert!(report["stores"][0]["speed"]["server"].as_str().unwrap().starts_with("redis "), "{report}");
    // Two scripts, and what they call: six and four commands. One in each looks whether an owner waits. Claims of one request
    // share all but what each of them writes and reads.
    for (name, expected) in [("pairs@1", 9.5..10.5), ("pairs@64", 4.0..6.0)] {
        let commands = row(&report, name)["server_commands"].as_f64().unwrap();
        assert!(expected.contains(&commands), "{name}: {commands}");
    }
    assert!(row(&report, "mixed@8")["writes_per_second"]["median"].as_f64().unwrap() > 0.0);
    // Each asks every half second, one script: whether it is the first, and what that looks at.
    let asked = row(&report, "waiting@100")["server_commands"].as_f64().unwrap();
    assert!((1.0..40.0).contains(&asked), "{asked}");
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[test]
fn sqlite_is_measured_and_keeps_no_row() {
    let _alone = machine();
    let place = Place::with_store("sqlite:locks.db");
    let said =
        place.say(words_for("1s", &["--only", "handover", "--only", "uncontended", "--format", "json"]));
    let report = json(&said);
    is_whole(&report);
    assert!(rows(&report).iter().all(|row| row["server_commands"].is_null() && row["held"].is_null()));
    place.say(["ls"]).expect(0, "", "");
    let count = "import sqlite3; print(*sqlite3.connect('locks.db').execute('SELECT count(*) FROM leasehold').fetchone())";
    let mut python = Command::new("/usr/bin/python3");
    let counted = python.args(["-c", count]).current_dir(place.path()).output().unwrap();
    CommandOutput::of(&counted).expect(0, "0\n", "");
    let left_out = report["stores"][0]["speed"]["left_out"].as_array().unwrap();
    assert!(left_out.iter().any(|left| left["row"] == "held@1000"), "{report}");
}

/// True if what is to be measured is not installed, and somebody has said to do without.
fn is_left_out(missing: Option<String>) -> bool {
    let Some(missing) = missing else { return false };
    assert!(
        std::env::var_os("LEASEHOLD_SKIP_MISSING").is_some(),
        "{missing}; scripts/test installs it, LEASEHOLD_SKIP_MISSING=1 skips what needs it"
    );
    eprintln!("NOT RUN: {missing}");
    true
}

/// What the server has no room for costs its own row, and no other: each hold takes a connection in this mode.
#[test]
fn row_beyond_the_room_of_the_store_is_left_out_with_the_reason() {
    if is_left_out(mariadb_server_missing()) {
        return;
    }
    let server = MariaDbServer::start_with(&["--max-connections=40"], &[]).unwrap();
    let place = Place::with_store(format!(
        "mariadb://root@127.0.0.1:{}/locks?sslmode=disable&mode=for-update",
        server.port()
    ));
    place.say(["init"]).code(0);
    let only = ["--only", "handover", "--only", "held", "--processes", "1", "--format", "json"];
    let report = json(&place.say(words(&only)));
    let names: Vec<&str> = rows(&report).iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(names, ["hand-over@1x1p", "hand-over@8x1p", "hand-over@64x1p"]);
    let left_out = report["stores"][0]["speed"]["left_out"].as_array().unwrap();
    let many = left_out.iter().find(|left| left["row"] == "held@1000").unwrap();
    assert!(many["why"].as_str().unwrap().contains("no connections left"), "{many}");
}

#[test]
fn database_and_zookeeper_servers_are_measured() {
    let _alone = machine();
    let only = ["--only", "uncontended", "--only", "handover", "--processes", "1", "--format", "json"];
    let measured = |url: String| {
        let place = Place::with_store(url);
        place.say(["init"]).code(0);
        // A database that has just been set up may stand still for longer than the usual window.
        let report = json(&place.say(words_for("1s", &only)));
        is_whole(&report);
        report
    };
    if !is_left_out(mariadb_server_missing()) {
        let server = MariaDbServer::start().unwrap();
        let report = measured(format!("mariadb://root@127.0.0.1:{}/locks?sslmode=disable", server.port()));
        assert!(report["stores"][0]["speed"]["server"].as_str().unwrap().contains("MariaDB"), "{report}");
        // A statement each.
        let commands = row(&report, "pairs@1")["server_commands"].as_f64().unwrap();
        assert!((1.9..4.0).contains(&commands), "{commands}");
    }
    if !is_left_out(postgres_server_missing()) {
        let server = PostgresServer::start().unwrap();
        let report =
            measured(format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", server.port()));
        assert!(
            report["stores"][0]["speed"]["server"].as_str().unwrap().starts_with("PostgreSQL "),
            "{report}"
        );
    }
    if !is_left_out(zookeeper_server_missing()) {
        let server = ZooKeeperServer::start().unwrap();
        let report = measured(server.url());
        assert!(
            report["stores"][0]["speed"]["server"].as_str().unwrap().starts_with("zookeeper 3."),
            "{report}"
        );
        let commands = row(&report, "pairs@1")["server_commands"].as_f64().unwrap();
        assert!((2.5..5.0).contains(&commands), "{commands}");
    }
}

#[test]
fn unreachable_store_is_reported_once_by_bench() {
    let place = Place::with_store("redis://127.0.0.1:1");
    let said = place.say(words(&[]));
    assert_eq!(said.code(69).err.matches("error[").count(), 1, "{}", said.err);
    assert_eq!(said.out, "");
}

/// It took minutes.
#[test]
fn results_are_shown_although_a_later_store_is_missing() {
    let _alone = machine();
    let place = Place::new();
    let stores = ["memory:", "redis://127.0.0.1:1"];
    let only = ["--only", "uncontended", "--json", "result.json", "--format", "json"];
    let said = place.say(words(&[&only[..], &stores].concat()));
    said.code(69);
    let shown: Value = serde_json::from_str(&said.out).unwrap();
    let written = std::fs::read_to_string(place.path().join("result.json")).unwrap();
    assert_eq!(shown, serde_json::from_str::<Value>(&written).unwrap());
    assert_eq!(shown["stores"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["stores"][0]["url"], "memory:");
}

#[test]
fn impossible_measurement_is_refused_before_the_bench_starts() {
    let place = Place::new();
    for odd in [["--duration", "1ms"], ["--passes", "0"], ["--processes", "65"], ["--only", "all"]] {
        place.say(["bench", odd[0], odd[1]]).code(64);
    }
    assert!(!place.default_store().exists());
}

/// Each lock of such a store is a majority of servers.
#[test]
fn store_without_shared_locks_leaves_out_their_rows_with_the_reason() {
    let _alone = machine();
    let servers = [(); 3].map(|()| RedisServer::start().unwrap());
    let ports = servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port()));
    let place = Place::with_store(format!("redlock://{}", ports.join(",")));
    let report = json(&place.say(words_for("750ms", &["--only", "kinds", "--format", "json"])));
    is_whole(&report);
    let left_out = report["stores"][0]["speed"]["left_out"].as_array().unwrap();
    for refused in ["reads@64", "mixed@8"] {
        let why = left_out.iter().find(|left| left["row"] == refused).unwrap();
        assert!(why["why"].as_str().unwrap().ends_with(" refuses shared locks"), "{why}");
    }
    assert!(row(&report, "permits@64/8")["per_second"]["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn bench_names_the_store_and_estimates_its_time_before_the_first_row() {
    let _alone = machine();
    let place = Place::with_store("memory:");
    let said = place.say(["-v"].iter().chain(&words(&["--only", "uncontended"])));
    said.code(0);
    let estimate = "measuring memory:: 3 rows, about 772ms";
    assert!(said.err.contains(estimate) && said.err.contains("pass 1: pairs@64 on memory:"), "{}", said.err);
}

#[test]
fn memory_store_leaves_out_rows_of_several_processes() {
    let _alone = machine();
    let place = Place::with_store("memory:");
    let report = json(&place.say(words(&["--only", "handover", "--format", "json"])));
    let left_out = report["stores"][0]["speed"]["left_out"].as_array().unwrap();
    let why = left_out.iter().find(|left| left["row"] == "hand-over@64x4p").unwrap();
    assert_eq!(why["why"], "this store is of one process");
}

#[test]
fn ctrl_c_ends_bench_and_leaves_nothing_in_the_store() {
    let (place, server) = Place::with_redis();
    let earlier = place.file("earlier.json", "{}");
    let long = ["-v", "bench", "--only", "handover", "--duration", "20s", "--format", "json", "--json"];
    let long = long.iter().chain(&["earlier.json"]);
    let running = place.start(long);
    running.warned("pass 1: hand-over@1x1p");
    is_at_it(&server);
    let worker = running.process().child().unwrap();
    running.signal(Signal::INT);
    let said = running.wait();
    // By the signal itself, as a shell wants it.
    assert_eq!(said.code, None, "{said:?}");
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["interrupted"], true);
    assert_eq!(
        std::fs::read_to_string(earlier).unwrap(),
        "{}",
        "an earlier result, for one that came to nothing"
    );
    assert!(!worker.lives());
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[test]
fn workers_of_a_killed_bench_release_their_locks() {
    let (place, server) = Place::with_redis();
    let running = place.start(["-v", "bench", "--only", "handover", "--duration", "20s"]);
    running.warned("pass 1: hand-over@1x1p");
    is_at_it(&server);
    let worker = running.process().child().unwrap();
    drop(running);
    gone(&[worker]);
    // Only last tokens, which end by themselves.
    let left = keys(&server);
    assert!(left.iter().all(|key| key.ends_with(":token")), "{left:?}");
}

/// An upgrade, or a build, between the start of a long run and that of a worker.
#[test]
fn program_whose_file_was_removed_still_starts_its_workers() {
    let place = Place::new();
    let said = place.shell(
        "set -e; cp \"$0\" program; exec 3< program; rm program
        /proc/self/fd/3 conformance --filter I01
        exec /proc/self/fd/3 bench --quick --passes 1 --duration 150ms --only handover",
    );
    said.code(0);
    assert!(said.out.contains("1 passed, 0 failed") && said.out.contains("hand-over"), "{said:?}");
}

/// The worker is asked for more locks than memory can address. Its input stays open, as that of a bench which waits for it.
#[test]
fn worker_ends_by_a_panic() {
    let place = Place::with_store("memory:");
    let mut command = place.command(["bench-worker"]);
    command.stdin(Stdio::piped());
    let mut worker = Running::start(command);
    let count = usize::MAX;
    worker.write(&format!(
        "{{\"job\":\"hold\",\"names\":\"all\",\"count\":{count},\"ttl_ms\":1000,\"time_ms\":1}}\n"
    ));
    let said = worker.wait();
    said.code(70);
    assert!(said.err.contains("capacity overflow"), "{said:?}");
}
