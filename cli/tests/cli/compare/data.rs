//! The data: their published form, other forms of them, and what was different last time.

use super::{FIXTURE, fixture, shown};
use crate::support::Place;
use serde_json::{Value, json};

/// Whether this is what `docs/compare.schema.json` says.
pub(super) fn is_valid(report: &Value) -> Result<(), String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/compare.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.enable_format_assertions();
    compiler.add_resource("compare.json", schema).unwrap();
    let schema = compiler.compile("compare.json", &mut schemas).unwrap();
    schemas.validate(report, schema).map_err(|error| error.to_string())
}

#[test]
fn schema_accepts_a_report_and_refuses_other_json() {
    is_valid(&fixture()).unwrap();
    let mut odd = fixture();
    odd["stores"][1]["declared"]["reach"] = json!("galaxy");
    assert!(is_valid(&odd).is_err());
    let mut odd = fixture();
    odd["stores"][1].as_object_mut().unwrap().remove("cells");
    assert!(is_valid(&odd).is_err());
    let mut odd = fixture();
    odd["stores"][1]["stars"] = json!(5);
    assert!(is_valid(&odd).is_err());
}

#[test]
fn report_read_and_written_is_unchanged() {
    let again: Value = serde_json::from_str(&shown(&["--format", "json"]).code(0).out).unwrap();
    assert_eq!(again, fixture());
}

#[test]
fn file_without_a_report_is_refused_by_name() {
    let place = Place::new();
    let newer = place.file("newer.json", &json!({ "schema": 9 }).to_string());
    let other = place.file("other.json", "[1]");
    let mut odd = fixture();
    odd["stores"][1]["speed"]["rows"][0]["row"] = json!("queues@3");
    let odd = place.file("odd.json", &odd.to_string());
    let mut later = fixture();
    later["leasehold"] = json!("9.1.0");
    later["stores"][1]["cells"][0]["state"] = json!({ "is": "half-kept" });
    let later = place.file("later.json", &later.to_string());
    let problems = [
        (newer, "its schema is 9, and this command's 4"),
        (other, "it is no report"),
        (odd, "unknown row \"queues@3\""),
        (later, "it was written by leasehold 9.1.0"),
        ("gone.json".into(), "gone.json"),
    ];
    for (file, problem) in problems {
        let said = place.say(["report", file.to_str().unwrap()]);
        said.code(64);
        assert!(said.err.contains(problem) && said.err.contains("help"), "{}", said.err);
    }
}

#[test]
fn baseline_marks_rows_as_faster_slower_or_the_same() {
    let place = Place::new();
    let mut before = fixture();
    let pairs = |store: usize, factor: f64, before: &mut Value| {
        for name in ["median", "min", "max"] {
            let rate = &mut before["stores"][store]["speed"]["rows"][0]["per_second"][name];
            *rate = json!(rate.as_f64().unwrap() * factor);
        }
    };
    pairs(1, 0.5, &mut before);
    pairs(2, 2.0, &mut before);
    pairs(4, 1.05, &mut before);
    let file = place.file("before.json", &before.to_string());
    let said = place.say(["report", FIXTURE, "--format", "json", "--baseline", file.to_str().unwrap()]);
    let now: Value = serde_json::from_str(&said.code(0).out).unwrap();
    is_valid(&now).unwrap();
    let verdict = |store: &str| {
        let rows = now["changes"]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["store"] == store && row["row"] == "pairs@1").unwrap();
        row["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("sqlite"), "faster");
    assert_eq!(verdict("redis"), "slower");
    assert_eq!(verdict("zookeeper"), "same-within-noise");
    let said = place.say(["report", FIXTURE, "--baseline", file.to_str().unwrap()]);
    // However its lines break.
    let words = said.code(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("1 faster, 1 slower, 44 the same within noise"), "{}", said.out);
}

#[test]
fn report_to_a_pipe_has_eighty_columns_and_no_colours() {
    let said = shown(&[]);
    let out = &said.code(0).out;
    assert!(!out.contains('\u{1b}'));
    // A command is one line, to be copied.
    for line in out.lines().filter(|line| !line.contains("again: leasehold ")) {
        assert!(line.chars().count() <= 80, "{} columns: {line:?}", line.chars().count());
    }
    for needed in ["WHICH STORE", "one owner", "BROKEN", "not run", "UNDER FAULTS", "HAND-OVER"] {
        assert!(out.contains(needed), "{needed}");
    }
    // zookeeper, fail over: seen to hold; the marks stand in the order of the numbers.
    let line = out.lines().find(|line| line.starts_with("fail over")).unwrap();
    assert_eq!(line.split_whitespace().skip(2).collect::<Vec<_>>(), ["–", "–", "–", "✕", "●", "–"]);
}

#[test]
fn broken_store_names_its_case_and_the_command_that_repeats_it() {
    let said = shown(&[]);
    let out = &said.code(0).out;
    assert!(out.contains("✕ J05 waiter outlives a fail over: no grant within 20s"), "{out}");
    let again = "again: leasehold conformance --faults redis-sentinel --filter J05 --seed 0x5eed";
    assert!(out.contains(again), "{out}");
}

#[test]
fn late_and_unjudged_stores_are_not_called_broken() {
    let place = Place::new();
    let outcomes = [
        (json!({ "is": "late", "why": "after 2 s" }), "late: "),
        (json!({ "is": "not-judged", "why": "late by 640 ms" }), "not judged: "),
        (json!({ "is": "failed", "why": "two hold it" }), "BROKEN: 1 case failed"),
    ];
    for (outcome, words) in outcomes {
        let mut report = fixture();
        report["stores"] = json!([report["stores"][1].clone()]);
        report["stores"][0]["cases"] = json!([{ "subject": "sqlite", "case": "C02", "property": "late_release", "outcome": outcome, "took_ms": 7 }]);
        is_valid(&report).unwrap();
        let file = place.file("report.json", &report.to_string());
        let out = place.say(["report", file.to_str().unwrap()]).code(0).out.clone();
        assert!(out.contains(&format!("sqlite, {words}")), "{out}");
        assert_eq!(out.contains("BROKEN"), words.starts_with("BROKEN"), "{out}");
        assert!(out.contains("WHICH STORE"), "{out}");
    }
}

#[test]
fn with_a_directory_the_terminal_shows_the_answers_and_the_path() {
    let place = Place::new();
    let out = place.path().join("out");
    let said = place.say(["report", FIXTURE, "--out", out.to_str().unwrap()]);
    let said = &said.code(0).out;
    assert!(said.contains("WHICH STORE") && said.contains("report.html"), "{said}");
    assert!(said.lines().count() < 80 && !said.contains("UNDER FAULTS"), "{said}");
}

#[test]
fn directory_with_another_report_is_refused_and_its_own_is_rendered_again() {
    let place = Place::new();
    let out = place.path().join("out");
    let out = out.to_str().unwrap();
    place.say(["report", FIXTURE, "--out", out]).code(0);
    let own = place.path().join("out/report.json");
    let before = std::fs::read(&own).unwrap();
    let said = place.say(["report", FIXTURE, "--out", out]);
    assert!(
        said.code(64).err.contains("invalid out: ") && said.err.contains("has a report already"),
        "{said:?}"
    );
    let again = ["report", own.to_str().unwrap(), "--out", out, "--baseline", FIXTURE];
    std::fs::write(place.path().join("out/report.md"), "an older one").unwrap();
    place.say(again).code(0);
    assert_eq!(std::fs::read(&own).unwrap(), before, "what was measured stays as it is");
    assert!(std::fs::read_to_string(place.path().join("out/report.md")).unwrap().contains("baseline"));
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 3, "nothing but the three forms");
}

#[test]
fn unjudged_figure_answers_no_question_as_measured() {
    let place = Place::new();
    let answers = |judged: bool, case: &str| {
        let mut report = fixture();
        let mut redis = report["stores"][2].clone();
        for cell in redis["cells"].as_array_mut().unwrap().iter_mut().filter(|_| !judged) {
            cell["state"] = json!({ "is": "not-judged", "why": "late by 640 ms" });
        }
        redis["cases"][0]["case"] = json!(case);
        report["stores"] = json!([redis]);
        is_valid(&report).unwrap();
        let file = place.file("report.json", &report.to_string());
        let out = place.say(["report", file.to_str().unwrap(), "--format", "markdown"]).code(0).out.clone();
        let answer = |question: &str| out.lines().find(|line| line.contains(question)).unwrap().to_owned();
        ["over a restart", "a crashed holder", "told of a loss", "served in order"].map(answer)
    };
    let signs =
        |answers: [String; 4]| answers.map(|line| line.chars().find(|c| "†‡".contains(*c)).unwrap_or(' '));
    assert_eq!(signs(answers(true, "H05")), [' ', ' ', '‡', ' ']);
    assert_eq!(signs(answers(false, "H05")), ['†', '‡', '‡', ' ']);
    assert_eq!(signs(answers(true, "A01")), [' ', ' ', '‡', '‡'], "a case of another matter");
}

#[test]
fn terminal_of_forty_columns_shows_every_store_and_answer() {
    let place = Place::new();
    let report = format!("stty cols 40; {} report {FIXTURE}", env!("CARGO_BIN_EXE_leasehold"));
    let said = place.shell(&format!("script -qec '{report}' /dev/null"));
    let out = plain(&said.code(0).out);
    for line in out.lines().filter(|line| !line.contains("leasehold conformance")) {
        assert!(line.chars().count() <= 40, "{} columns: {line:?}", line.chars().count());
    }
    for store in fixture()["stores"].as_array().unwrap() {
        assert!(out.contains(store["name"].as_str().unwrap()), "{} in {out}", store["name"]);
    }
    let marks = out.lines().find(|line| line.starts_with("fail over  ")).unwrap();
    assert_eq!(marks.split_whitespace().skip(2).collect::<Vec<_>>(), ["–", "–", "–", "✕", "●", "–"]);
    assert!(out.contains("WHICH STORE") && out.contains("UNDER FAULTS"), "{out}");
    let figures = out.split("HAND-OVER").nth(1).unwrap();
    for name in ["Waiting: ", "Per second: ", "p99: "] {
        assert!(figures.contains(name), "{name} in {figures}");
    }
}

/// Without what a terminal takes for colours, and with its line ends.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('\u{1b}');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    out.replace('\r', "")
}

#[test]
fn markdown_has_tables_and_failures() {
    let said = shown(&["--format", "markdown"]);
    let out = &said.code(0).out;
    assert!(out.starts_with("# 7 lock stores, measured\n"));
    let tables = out.split("\n\n").filter(|part| part.starts_with('|'));
    for table in tables {
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let first = columns(table.lines().next().unwrap());
        assert!(table.lines().all(|line| columns(line) == first), "{table}");
    }
    assert!(out.contains("a token came twice") && out.contains("no grant within 20s"));
}
