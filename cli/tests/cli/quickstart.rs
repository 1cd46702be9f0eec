//! The first minute.

use crate::support::{Place, Shell};
use std::io::Write;
use std::process::Stdio;

#[test]
fn run_adds_nothing_to_the_output_of_the_command() {
    let place = Place::new();
    place.say(["try", "demo"]).expect(0, "\"demo\" is free\n", "");
    let first = place.say(["run", "demo", "--", "echo", "hello"]);
    assert_eq!((first.code, first.out.as_str()), (Some(0), "hello\n"));
    let store = place.default_store();
    let note = format!(
        "leasehold: no store is configured: using {}, for this user on this host only; set LEASEHOLD_URL to lock between others\n",
        store.display()
    );
    assert_eq!(first.err, note);
    // CommandOutput once where no terminal shows it: the store is there now.
    place.say(["run", "demo", "--", "echo", "hello"]).expect(0, "hello\n", "");
}

#[test]
fn default_store_is_named_at_each_run_from_a_terminal() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    let note = "leasehold: no store is configured: using ";
    for _ in 0..2 {
        assert!(shell.runs("$LH run demo -- echo hello").starts_with(note));
    }
    assert_eq!(shell.runs("$LH -q run demo -- echo hello"), "hello\n");
    assert_eq!(shell.runs("$LH -u sqlite:mine.db run demo -- echo hello"), "hello\n");
}

#[test]
fn default_store_under_a_lock_of_another_store_is_a_warning() {
    let place = Place::new();
    let inner = format!("{} run inner -- true", env!("CARGO_BIN_EXE_leasehold"));
    // The first run creates the store.
    place.say(["-q", "run", "demo", "--", "true"]).expect(0, "", "");
    place.say(["run", "outer", "-c", &inner]).expect(0, "", "");
    let said = place.say(["-u", "sqlite:theirs.db", "run", "outer", "-c", &inner]);
    let warning = format!(
        "warning: no store is configured: using {}, but the caller holds a lock in another store\n  \
         help     name the caller's store with -u or LEASEHOLD_URL, which sudo removes\n",
        place.default_store().display()
    );
    said.expect(0, "", &warning);
}

#[test]
fn second_run_of_a_lock_shows_its_holder() {
    let place = Place::new();
    let mut first = place.start(["run", "-n", "job", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    first.line("pid ");
    let second = place.say(["run", "-n", "job", "--", "echo", "hi"]);
    assert_eq!((second.code, second.out.as_str()), (Some(75), ""));
    let holder = format!("ada@{}:{} (sh …)", host(), first.process().number());
    let mut lines = second.err.lines();
    let sentence = lines.next().unwrap();
    assert!(sentence.starts_with(&format!("error[E_BUSY]: \"job\" is held by {holder} for ")), "{sentence}");
    assert!(sentence.contains("; its lease ends in "), "{sentence}");
    let labels: Vec<&str> = lines.map(|line| line.get(2..10).unwrap().trim()).collect();
    assert_eq!(labels, ["since", "until", "token", "help", ""]);
}

#[test]
fn input_reaches_the_command_byte_for_byte() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let mut command = place.command(["run", "demo", "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let to_write = bytes.clone();
    let writer = std::thread::spawn(move || input.write_all(&to_write).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == bytes);
}

#[test]
fn command_with_a_closed_stdout_ends_by_sigpipe() {
    let place = Place::new();
    let said = place.shell(r#""$0" run demo -- yes | head -1; echo "${PIPESTATUS[0]}""#);
    assert_eq!(said.out, "y\n141\n");
    assert!(!place.is_held("demo"));
}

#[test]
fn output_ends_when_the_command_ends_it() {
    let place = Place::new();
    let fifo = place.path().join("go");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let script = "echo first; exec >&- 2>&-; read go < go";
    let mut running = place.start(["run", "demo", "--", "sh", "-c", script]);
    running.line("first");
    // Only the command held its standard output open: the reader is at the end while the command runs on.
    running.output_has_ended();
    assert!(place.is_held("demo"));
    std::fs::write(&fifo, "go\n").unwrap();
    running.wait().code(0);
}

#[test]
fn descriptors_of_the_caller_reach_the_command_and_ours_do_not() {
    let place = Place::new();
    let script = "sh -c 'ls /proc/self/fd; cat <&5' 5<<<'from the caller'";
    let bare = place.shell(script);
    assert!(bare.out.ends_with("5\nfrom the caller\n"), "{}", bare.out);
    assert_eq!(place.shell(&format!("\"$0\" run demo -- {script}")).out, bare.out);
}

pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
