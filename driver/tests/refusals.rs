//! What the driver cannot measure it refuses before it says that it is ready: else exclusive locks would be measured under another name.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use std::process::{Command, Stdio};

/// Its exit code and what it says. Its input is at its end.
fn driver(words: &[&str]) -> (Option<i32>, String) {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-driver"));
    let output = command.args(words).current_dir(place.path()).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn kind_that_cannot_be_measured_is_refused_with_the_reason() {
    let cases = [
        ("sqlite:locks.db", "kind=permits:0", "permits"),
        ("sqlite:locks.db", "kind=permits:-1", "write exclusive, read, mixed or permits:N"),
        ("sqlite:locks.db", "kind=owners", "write exclusive, read, mixed or permits:N"),
        ("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "kind=read", "refuses shared locks"),
        ("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "kind=mixed", "refuses shared locks"),
    ];
    for (url, kind, why) in cases {
        let (code, said) = driver(&[url, "con", kind]);
        assert_eq!(code, Some(1), "{kind}: {said}");
        assert!(said.starts_with("ERR ") && said.contains(why), "{kind}: {said}");
    }
}

#[test]
fn kind_that_the_store_serves_is_ready_to_begin() {
    let (code, said) = driver(&["sqlite:locks.db", "con", "kind=permits:2", "conc=4"]);
    // It was ready, and nobody told it when to begin.
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("READY\n"), "{said}");
}
