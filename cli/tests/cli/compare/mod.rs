//! `leasehold compare` and `leasehold report`: that what is shown is what was measured, in every form.

mod data;
mod live;
mod page;
mod screens;

use crate::support::{CommandOutput, Place};
use serde_json::Value;
use std::path::PathBuf;

/// A report of seven stores with everything that can be in one: a broken promise, a void field, a failed case, a store
/// that was not there, and a server that calls itself something that must be escaped.
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/compare/fixture.json");

fn fixture() -> Value {
    serde_json::from_str(&std::fs::read_to_string(FIXTURE).unwrap()).unwrap()
}

/// The fixture as `leasehold report` shows it.
fn shown(words: &[&str]) -> CommandOutput {
    Place::new().say([&["report", FIXTURE][..], words].concat())
}

/// A page of the fixture in a file.
fn page(place: &Place) -> (PathBuf, String) {
    let out = place.path().join("out");
    place.say(["report", FIXTURE, "--out", out.to_str().unwrap()]).code(0);
    let file = out.join("report.html");
    let text = std::fs::read_to_string(&file).unwrap();
    (file, text)
}

/// All that stand between these two, one after the other.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    text.split(before).skip(1).map(|rest| rest.split(after).next().unwrap()).collect()
}
