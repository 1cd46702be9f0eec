//! A command without the feature `lab`: `cargo test -p leasehold-cli --no-default-features --features sqlite --test small`.

#![cfg(all(feature = "sqlite", not(feature = "lab")))]
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use std::process::{Command, Output};

/// The command with these words, in an empty home directory.
fn leasehold(words: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.args(words).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path());
    command.current_dir(home.path()).output().unwrap()
}

#[track_caller]
fn assert_refused(words: &[&str], code: i32, message: &str) {
    let output = leasehold(words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.as_ref()), (Some(code), message), "{words:?}");
    assert_eq!(output.stdout, b"", "{words:?}");
}

#[test]
fn run_without_lab_runs_the_command() {
    let output = leasehold(&["run", "demo", "--", "echo", "hello"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"hello\n"[..]), "{output:?}");
}

#[test]
fn verb_of_lab_is_refused_with_the_feature_to_build_with() {
    let calls: [&[&str]; 5] = [
        &["bench", "--quick"],
        &["compare", "--preset", "local"],
        &["conformance"],
        &["-q", "report", "report.json"],
        &["help", "bench"],
    ];
    for words in calls {
        let verb = words.iter().find(|word| !word.starts_with('-') && **word != "help").unwrap();
        let message = format!(
            "error[E_UNSUPPORTED]: this leasehold was built without \"{verb}\"\n  help     cargo build --features lab\n"
        );
        assert_refused(words, 64, &message);
    }
}

#[test]
fn unknown_verb_is_refused_as_unknown() {
    let output = leasehold(&["benchmark"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error[E_INVALID]: unrecognized subcommand 'benchmark'"), "{said}");
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn help_names_no_verb_of_lab() {
    let output = leasehold(&["--help"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\n  purge ") && said.contains("\n  man "), "{said}");
    for verb in ["bench", "compare", "conformance", "report"] {
        assert!(!said.contains(&format!("\n  {verb} ")), "{said}");
    }
}

#[test]
fn scheme_of_another_build_is_refused_with_the_feature_to_build_with() {
    let schemes =
        [("redis", "redis"), ("rediss", "redis,tls"), ("postgres", "postgres"), ("zk+tls", "zookeeper-tls")];
    for (scheme, features) in schemes {
        let message = format!(
            "error[E_MISCONFIGURED]: the backend of \"{scheme}://\" is not compiled in\n  help     cargo build --features {features}\n"
        );
        assert_refused(&["-u", &format!("{scheme}://h"), "run", "x", "--", "true"], 78, &message);
    }
}
