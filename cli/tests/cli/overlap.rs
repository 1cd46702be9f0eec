//! Many runs of one lock, under faults: their commands never overlap.
//!
//! The commands themselves find out: each takes a lock of the kernel on one file, which lasts exactly as long as any
//! process of it, and says so if another's is there.

use crate::support::{Place, Running, until};
use leasehold_test_stores::servers::RedisServer;
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Stdio};

/// Ignores TERM, has a child, and holds the file until the last of both is dead.
const SCRIPT: &str = "exec 9>>witness; flock -n 9 || echo overlap >>log; trap '' TERM
    sleep 1000 & echo ran >>log; echo pid $$; while :; do wait; done";

fn survive(place: &Place, mut fault: impl FnMut(usize, &Running)) {
    const ROUNDS: usize = 6;
    let run = || place.start(["-v", "run", "--ttl", "1500ms", "x", "--", "sh", "-c", SCRIPT]);
    let mut runs = vec![run()];
    for round in 0..ROUNDS {
        runs[round].line("pid ");
        // The next one waits already when the fault comes.
        runs.push(run());
        runs[round + 1].warned("leasehold: waiting");
        fault(round, &runs[round]);
    }
    runs[ROUNDS].line("pid ");
    for stopped in &runs[..ROUNDS] {
        stopped.signal(Signal::CONT);
    }
    let log = std::fs::read_to_string(place.path().join("log")).unwrap();
    assert_eq!(log, "ran\n".repeat(ROUNDS + 1));
}

#[test]
fn commands_never_overlap_on_sqlite() {
    let place = Place::new();
    survive(&place, |round, holder| match round % 3 {
        0 => holder.signal(Signal::KILL),
        1 => holder.watchdog().signal(Signal::KILL),
        _ => stop_between_writes(&place, holder),
    });
}

/// A process stopped in the middle of a write keeps all others out of the SQLite file until it goes on: that would test the file
/// and not the lock.
fn stop_between_writes(place: &Place, holder: &Running) {
    until("it is stopped between two writes", || {
        holder.signal(Signal::STOP);
        let is_free = can_be_written(&place.default_store());
        if !is_free {
            holder.signal(Signal::CONT);
        }
        is_free
    });
}

fn can_be_written(file: &Path) -> bool {
    let write = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0.5).execute('BEGIN IMMEDIATE')";
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", write]).arg(file).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn commands_never_overlap_on_redis() {
    let server = RedisServer::start().unwrap();
    let place = Place::with_store(format!("{}?timeout=100ms", server.url()));
    survive(&place, |round, holder| match round % 3 {
        0 => holder.signal(Signal::KILL),
        1 => {
            server.command(&["DEL", "leasehold:x"]).unwrap();
        }
        _ => {
            server.pause();
            let command = holder.watchdog().child();
            until("the command is gone", || command.is_none_or(|command| !command.lives()));
            server.resume();
        }
    });
}
