//! The sessions of `docs/cli.md`, executed.

use crate::quickstart::host;
use crate::support::Place;

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");

#[test]
fn every_session_in_the_documentation_is_true() {
    execute(&Place::new(), None, GUIDE);
}

/// What is said of locks, to the end of the verbs, is the same on another store.
#[test]
fn sessions_about_locks_are_true_on_redis() {
    let (place, server) = Place::with_redis();
    let guide = std::fs::read_to_string(GUIDE).unwrap();
    let (about_locks, _) = guide.split_once("## Features").unwrap();
    let file = place.file("guide.md", about_locks);
    execute(&place, Some(server.url()), file.to_str().unwrap());
}

fn execute(place: &Place, url: Option<String>, guide: &str) {
    let mut nightly = place.start(["-q", "run", "nightly", "--", "sleep", "1000"]);
    crate::support::until("it is held", || place.is_held("nightly"));
    assert!(nightly.is_running());
    let state: serde_json::Value =
        serde_json::from_str(&place.say(["inspect", "--json", "nightly"]).out).unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();

    let sessions = trycmd::TestCases::new();
    sessions.register_bin("leasehold", std::path::Path::new(env!("CARGO_BIN_EXE_leasehold")));
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().unwrap();
    let variables = [
        ("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display())),
        ("HOME", path("")),
        ("USER", "ada".to_owned()),
        ("XDG_STATE_HOME", path("state")),
        ("XDG_CONFIG_HOME", path("config")),
        ("COLUMNS", "200".to_owned()),
    ];
    for (name, value) in variables.into_iter().chain(url.map(|url| ("LEASEHOLD_URL", url))) {
        sessions.env(name, value);
    }
    sessions.insert_var("[HOST]", host()).unwrap();
    sessions.insert_var("[PID]", nightly.process().number().to_string()).unwrap();
    sessions.insert_var("[TOKEN]", state["lock"]["token"].to_string()).unwrap();
    sessions.insert_var("[STATE]", path("state")).unwrap();
    sessions.case(guide);
    sessions.run();
}
