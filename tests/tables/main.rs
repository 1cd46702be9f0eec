//! The tables of the documents against their two sources: `Semantics`, which the code declares, and the committed run of the
//! matrix. Needs no server.
//!
//! `LEASEHOLD_WRITE_TABLES=1` writes the tables; `scripts/matrix` measures first, and then does that.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]
#![cfg(feature = "full")]

mod faults;
mod matrix;
mod readme;
mod run;
mod stores;

use std::fmt::Debug;

/// Compares the generated part of a document with what it should be, or writes it.
fn agrees(document: &str, begin: &str, end: &str, expected: &str) {
    let path = format!("{}/{document}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{document} has no {begin}"));
    let (written, after) = rest.split_once(end).unwrap_or_else(|| panic!("{document} has no {end}"));
    if std::env::var_os("LEASEHOLD_WRITE_TABLES").is_some() {
        std::fs::write(path, [before, begin, expected, end, after].concat()).unwrap();
        return;
    }
    assert_eq!(written, expected, "LEASEHOLD_WRITE_TABLES=1 cargo test --all-features --test tables");
}

/// `StorePaused` as `store paused`.
fn words(value: impl Debug) -> String {
    let mut words = String::new();
    for c in format!("{value:?}").chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}
