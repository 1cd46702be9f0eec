//! `leasehold hold`: a lock without a command.

use crate::support::{Place, Running, full_pipe, until};
use rustix::process::Signal;
use std::io::Read;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

#[test]
fn hold_prints_one_line_and_releases_at_the_end_of_its_input() {
    let place = Place::new();
    let mut command = place.command(["-q", "hold", "--ttl", "10s", "x"]);
    command.stdin(Stdio::piped());
    let mut hold = Running::start(command);
    let line = format!("{{{}", hold.line("{"));
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["name"], "x");
    assert_eq!(told["backend"], "sqlite");
    assert_eq!(told["ttl_ms"], 10_000);
    assert!(told["token"].as_u64().unwrap() > 0);
    assert!(told["acquired_at"].as_str().unwrap().ends_with('Z'));
    assert!(place.is_held("x"));
    hold.end_input();
    hold.wait().expect(0, &format!("{line}\n"), "");
    assert!(!place.is_held("x"));
}

#[test]
fn hold_without_a_pipe_lasts_until_a_signal() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut hold = place.start(["hold", "x"]);
        hold.line("{");
        assert!(place.is_held("x"));
        hold.signal(signal);
        hold.wait().code(0);
        assert!(!place.is_held("x"));
    }
}

#[test]
fn hold_ends_with_80_when_the_lock_is_lost() {
    let place = Place::new();
    let mut hold = place.start(["-q", "hold", "--ttl", "600ms", "x"]);
    hold.line("{");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    let said = hold.wait();
    assert!(said.code(80).err.starts_with("error[E_LOST]: lock \"x\" was lost after "), "{}", said.err);
    assert!(said.err.ends_with(": the store no longer has it\n"), "{}", said.err);
}

/// The lease outlasts the hold: left alone, it would keep others out for the rest of it.
#[test]
fn hold_at_max_hold_ends_with_80_and_frees_the_lock() {
    let place = Place::new();
    let said = place.say(["-q", "hold", "--max-hold", "100ms", "x"]);
    assert!(said.code(80).err.ends_with(": it was held for as long as its holder allowed\n"), "{}", said.err);
    assert!(!place.is_held("x"));
}

#[test]
fn hold_with_a_closed_stdout_keeps_no_lock() {
    let place = Place::new();
    let mut shell = std::process::Command::new("bash");
    place.settle(&mut shell);
    let script = r#""$0" -v hold x 2>err | true; echo "${PIPESTATUS[0]}""#;
    // `true` has ended before the line is written, if the lock is granted only then.
    let mut holder = place.hold("x");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_leasehold")]);
    let piped = Running::start(shell);
    until("it waits", || {
        std::fs::read_to_string(place.path().join("err")).is_ok_and(|err| err.contains("waiting: "))
    });
    holder.end_input();
    holder.wait().code(0);
    piped.wait().expect(0, "141\n", "");
    assert!(!place.is_held("x"));
}

/// Such as a terminal that Ctrl-S has stopped, or a log shipper that hangs.
#[test]
fn unread_messages_do_not_stop_the_renewal() {
    for log in ["", "trace"] {
        let place = Place::new();
        let (_unread, full) = full_pipe();
        let mut command = place.command(["hold", "--ttl", "600ms", "x"]);
        command.env("LEASEHOLD_LOG", log).stdin(Stdio::null()).stdout(Stdio::null()).stderr(full);
        let hold = command.spawn().unwrap();
        is_renewed(&place, log);
        place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
        assert_eq!(end_of(hold).code(), Some(80), "{log}");
    }
}

/// A script may read the line when it comes to it; until then its lock is held, and it can end it.
#[test]
fn unread_line_does_not_stop_the_renewal() {
    for is_read in [true, false] {
        let place = Place::new();
        let (mut reader, full) = full_pipe();
        let mut command = place.command(["-q", "hold", "--ttl", "600ms", "x"]);
        let mut hold = command.stdin(Stdio::piped()).stdout(full).spawn().unwrap();
        drop(command);
        is_renewed(&place, "");
        if is_read {
            let mut lines = Vec::new();
            while !lines.ends_with(b"}\n") {
                let mut buffer = [0; 4096];
                let length = reader.read(&mut buffer).unwrap();
                lines.extend_from_slice(&buffer[..length]);
            }
            assert!(String::from_utf8_lossy(&lines).contains("{\"name\":\"x\""));
            assert!(place.is_held("x"));
        }
        hold.stdin = None;
        assert_eq!(end_of(hold).code(), Some(0));
        assert!(!place.is_held("x"));
    }
}

#[test]
fn hold_prints_its_line_although_its_input_has_ended() {
    let place = Place::new();
    for _ in 0..5 {
        let mut command = place.command(["-q", "hold", "x"]);
        command.stdin(std::io::pipe().unwrap().0);
        assert!(Running::start(command).wait().code(0).out.starts_with("{\"name\":\"x\""));
    }
}

/// Waits until the lock is held, and watches it for longer than a lease of 600 ms lasts.
#[track_caller]
fn is_renewed(place: &Place, case: &str) {
    until(&format!("it is held {case}"), || place.is_held("x"));
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(1500) {
        assert!(place.is_held("x"), "{case}");
    }
}

#[track_caller]
fn end_of(mut process: Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(ended) = process.try_wait().unwrap() {
            return ended;
        }
        if start.elapsed() > Duration::from_secs(20) {
            process.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
