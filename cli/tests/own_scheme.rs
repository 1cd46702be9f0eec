//! A command for schemes of its own: this program is the command where its tests start it, and else their harness.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod broken_store;

use broken_store::{BrokenStore, Mistake};
use leasehold::backend::{LockBackend, Namespace, StoreUrl};
use leasehold::{Config, Registry};
use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;

/// Schemes of broken stores.
const BROKEN: [(&str, Mistake); 3] = [
    ("twoowners", Mistake::GrantsTheSecond),
    ("sametoken", Mistake::RepeatsTheToken),
    ("backwards", Mistake::CountsBackwards),
];

/// Set for a process that is to be the command.
const AS_COMMAND: &str = "OWN_SCHEME_AS_COMMAND";

/// The stores that are compiled in; `locker:FILE`, whose lock names begin with `shop/`; and stores that are broken.
fn registry() -> Registry {
    let mut registry = Registry::default();
    let locker = |url: StoreUrl, namespace: Namespace| async move {
        url.query().finish()?;
        let file = Config::new(&format!("sqlite:{}", url.path()?))?.with_prefix(namespace.prefix())?;
        Registry::default().open(&file).await
    };
    registry.register("locker", locker).unwrap();
    registry.set_default_prefix("locker", "shop/").unwrap();
    for (scheme, mistake) in BROKEN {
        let broken = move |url: StoreUrl, namespace: Namespace| async move {
            let file = Config::new(&format!("sqlite:{}", url.path()?))?.with_prefix(namespace.prefix())?;
            let store = Registry::default().open(&file).await?;
            Ok(Arc::new(BrokenStore { store, mistake }) as Arc<dyn LockBackend>)
        };
        registry.register(scheme, broken).unwrap();
    }
    registry
}

fn main() -> ExitCode {
    if std::env::var_os(AS_COMMAND).is_some() {
        return leasehold_cli::main(registry());
    }
    let tests: [(&str, fn()); 7] = [
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
        ("broken_stores_are_called_broken_with_case_and_command", broken_stores_are_called_broken),
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
    command_in(home.path(), &std::env::current_exe().unwrap(), words).output().unwrap()
}

fn command_in(home: &Path, program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home);
    command.env("THIS", std::env::current_exe().unwrap());
    command.env(AS_COMMAND, "1").env("LEASEHOLD_URL", "locker:locks.db").current_dir(home);
    command
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
    assert!(out.contains("locker:locks.db") && out.contains("ALONE"), "{out}");
}

fn worker_processes_of_suite_know_scheme() {
    let (out, _) = assert_ended(&command(&["conformance", "--filter", "A05"]), 0);
    assert!(out.contains("ok      store::A05"), "{out}");
}

fn broken_stores_are_called_broken() {
    std::thread::scope(|scope| {
        for (scheme, _) in BROKEN {
            scope.spawn(move || is_called_broken(scheme));
        }
    });
}

/// Interrupted after the first case that failed: what was seen until then is judged all the same.
fn is_called_broken(scheme: &str) {
    let home = tempfile::tempdir().unwrap();
    let url = format!("{scheme}:locks.db");
    let words = ["-v", "compare", &url, "--only", "suite", "--seed", "7"];
    let mut compare = command_in(home.path(), &std::env::current_exe().unwrap(), &words);
    let mut compare = compare.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut messages = BufReader::new(compare.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said_of_store = format!("leasehold: {scheme}: ");
    let failed = messages.find(|line| line.starts_with(&said_of_store) && line.contains(" FAILED: "));
    let failed = failed.unwrap_or_else(|| panic!("no case fails on {scheme}"));
    let case = failed[said_of_store.len()..].split(' ').next().unwrap();
    kill_process(Pid::from_child(&compare), Signal::INT).unwrap();
    messages.for_each(drop);
    let out = String::from_utf8(compare.wait_with_output().unwrap().stdout).unwrap();
    assert!(out.contains(&format!("{scheme}, BROKEN: ")) && out.contains(&format!("✕ {case} ")), "{out}");
    let again = format!("leasehold conformance {url} --filter {case} --seed 0x7");
    assert!(out.contains(&format!("again: {again}\n")), "{again}: {out}");
    let script = format!("leasehold() {{ \"$THIS\" \"$@\"; }}; {again}");
    let repeated = command_in(home.path(), Path::new("/bin/sh"), &["-c", &script]).output().unwrap();
    let (out, _) = assert_ended(&repeated, 1);
    assert!(out.contains(&format!("FAILED  {scheme}::{case}_")), "{out}");
}
