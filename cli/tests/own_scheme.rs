//! A command for a scheme of its own: this program is the command where its tests start it, and else their harness.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

use leasehold::backend::{Namespace, StoreUrl};
use leasehold::{Config, Registry};
use libtest_mimic::{Arguments, Trial};
use std::process::{Command, ExitCode, Output};

/// Set for a process that is to be the command.
const AS_COMMAND: &str = "OWN_SCHEME_AS_COMMAND";

/// The stores that are compiled in, and `locker:FILE`, whose lock names begin with `shop/`.
fn registry() -> Registry {
    let mut registry = Registry::default();
    let locker = |url: StoreUrl, namespace: Namespace| async move {
        url.query().finish()?;
        let file = Config::new(&format!("sqlite:{}", url.path()?))?.with_prefix(namespace.prefix())?;
        Registry::default().open(&file).await
    };
    registry.register("locker", locker).unwrap();
    registry.set_default_prefix("locker", "shop/").unwrap();
    registry
}

fn main() -> ExitCode {
    if std::env::var_os(AS_COMMAND).is_some() {
        return leasehold_cli::main(registry());
    }
    let tests: [(&str, fn()); 6] = [
        ("command_under_lock_of_own_scheme_sees_it_listed", command_under_lock_sees_it_listed),
        (
            "lock_of_own_scheme_held_by_caller_is_not_acquired_twice",
            lock_held_by_caller_is_not_acquired_twice,
        ),
        (
            "default_prefix_of_own_scheme_is_shown_and_stands_before_names",
            default_prefix_is_shown_and_stands_before_names,
        ),
        ("misspelt_own_scheme_is_suggested", misspelt_scheme_is_suggested),
        ("worker_processes_of_bench_know_own_scheme", worker_processes_of_bench_know_scheme),
        ("worker_processes_of_suite_know_own_scheme", worker_processes_of_suite_know_scheme),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// This program as the command with these words, for a new store of its own scheme. `$0` is the command in a shell.
fn command(words: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(&this);
    command.args(words).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path());
    command.env("THIS", this).env(AS_COMMAND, "1").env("LEASEHOLD_URL", "locker:locks.db");
    command.current_dir(home.path()).output().unwrap()
}

#[track_caller]
fn assert_ended(output: &Output, code: i32) -> (String, String) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn command_under_lock_sees_it_listed() {
    let run = command(&["run", "nightly", "--", "sh", "-c", "echo $LEASEHOLD_NAME && \"$THIS\" ls"]);
    let (out, _) = assert_ended(&run, 0);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "nightly");
    assert!(lines[1].starts_with("NAME") && lines[2].starts_with("nightly"), "{out}");
}

fn lock_held_by_caller_is_not_acquired_twice() {
    let (_, err) = assert_ended(&command(&["run", "x", "--", "sh", "-c", "\"$THIS\" run -n x -- true"]), 64);
    assert!(err.contains("you would deadlock with yourself"), "{err}");
    assert_ended(&command(&["run", "x", "--", "sh", "-c", "\"$THIS\" try x >/dev/null"]), 75);
}

fn default_prefix_is_shown_and_stands_before_names() {
    let (out, _) = assert_ended(&command(&["config", "show"]), 0);
    assert!(out.contains("prefix = \"shop/\""), "{out}");
    let run = command(&["run", "nightly", "--", "sh", "-c", "\"$THIS\" -u sqlite:locks.db ls"]);
    let (out, _) = assert_ended(&run, 0);
    assert!(out.contains("shop/nightly"), "{out}");
}

fn misspelt_scheme_is_suggested() {
    let (_, err) = assert_ended(&command(&["-u", "loker:locks.db", "ls"]), 78);
    assert!(err.contains("did you mean \"locker\"?"), "{err}");
}

fn worker_processes_of_bench_know_scheme() {
    let bench = ["bench", "--quick", "--only", "uncontended", "--duration", "20ms", "--passes", "1"];
    let (out, _) = assert_ended(&command(&bench), 0);
    assert!(out.contains("locker:locks.db") && out.contains("pairs@64"), "{out}");
}

fn worker_processes_of_suite_know_scheme() {
    let (out, _) = assert_ended(&command(&["conformance", "--filter", "A05"]), 0);
    assert!(out.contains("ok      store::A05"), "{out}");
}
