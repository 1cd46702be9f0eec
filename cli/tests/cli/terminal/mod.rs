//! At a terminal: Ctrl-C, Ctrl-Z, `fg`, `bg`, pagers.

mod prompts;
mod put_right;

use crate::support::{Place, Process, Shell, gone, until};
use rustix::process::Signal;

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

#[test]
fn command_has_the_keyboard() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -q run x -- sh -c 'echo up; read a; echo got $a'");
    shell.sees("up\n");
    shell.types("hello");
    shell.sees("got hello\n");
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=0\n");
}

#[test]
fn ctrl_c_ends_the_command_and_the_loop_around_it() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("for i in 1 2 3; do $LH -q run x -- sh -c 'echo up $$; exec sleep 1000'; done");
    let command = Process::parse(&{
        shell.sees("up ");
        shell.sees("\n")
    });
    shell.presses(CTRL_C);
    let rest = shell.prompted();
    assert!(!rest.contains("up "), "the loop went on: {rest}");
    assert_eq!(shell.runs("echo rc=$?"), "rc=130\n");
    gone(&[command]);
    assert!(!place.is_held("x"));
}

#[test]
fn log_at_a_terminal_is_written_without_colours() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    let said = shell.runs("LEASEHOLD_LOG=info $LH -q run x -- true; echo rc=$?");
    assert!(said.contains("leasehold.acquire") && said.ends_with("rc=0\n"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
}

/// By a signal to `leasehold` alone, that is, and not by the terminal, which would tell everybody.
#[test]
fn interrupt_sent_to_leasehold_alone_ends_no_loop() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    let run = "sh -c 'echo pid $$; exec $LH -q run x -- sh -c \"echo up; exec sleep 1000\"'";
    shell.types(&format!("for i in 1 2; do {run}; done"));
    for _ in 0..2 {
        shell.sees("pid ");
        let leasehold = Process::parse(&shell.sees("\n"));
        shell.sees("up\n");
        leasehold.signal(Signal::INT);
    }
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=130\n");
    assert!(!place.is_held("x"));
}

/// Our own group has the terminal then, and hears it.
#[test]
fn ctrl_c_ends_the_loop_around_a_command_that_has_no_terminal_too() {
    let place = Place::new();
    let _held = place.hold("held");
    let mut shell = Shell::start(&place);
    for run in [
        "run x -- sh -c 'echo up; exec sleep 1000' </dev/null",
        "run x -- sh -c 'echo up; exec sleep 1000' | cat",
        "-v run held -- true </dev/null",
    ] {
        shell.types(&format!("for i in 1 2 3; do echo round; $LH -q {run}; done").replace("-q -v", "-v"));
        shell.sees("round\n");
        shell.sees(if run.contains("up") { "up\n" } else { "waiting: " });
        shell.presses(CTRL_C);
        let rest = shell.prompted();
        assert!(!rest.contains("round"), "{run}: the loop went on: {rest}");
    }
}

#[test]
fn ctrl_c_handled_by_the_command_ends_nothing_else() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -q run x -- bash -c 'trap \"echo taken\" INT; echo up; while :; do sleep 0.01; done'");
    shell.sees("up\n");
    shell.presses(CTRL_C);
    shell.sees("taken\n");
    assert!(place.is_held("x"));
}

#[test]
fn ctrl_c_ends_the_calling_script_too() {
    let place = Place::new();
    place.file("script", "$LH -q run x -- sh -c 'echo up; exec sleep 1000'\necho went on\n");
    let mut shell = Shell::start(&place);
    shell.types("sh ./script");
    shell.sees("up\n");
    shell.presses(CTRL_C);
    assert!(!shell.prompted().contains("went on"));
}

/// What is left has no terminal, and the command's group has nobody to hear it.
#[test]
fn ctrl_c_ends_the_wait_for_remaining_processes() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    let script = "setsid env --default-signal=INT sleep 1000 & echo pid $!";
    shell.types(&format!("$LH -q run --wait-all x -- sh -c '{script}'"));
    shell.sees("pid ");
    let left = Process::parse(&shell.sees("\n"));
    until("it ends", || {
        shell.presses(CTRL_C);
        !left.lives()
    });
    shell.prompted();
    until("it was released", || !place.is_held("x"));
}

/// The kernel does not end the first process of a pid namespace by the default action of a signal.
#[test]
fn ctrl_c_ends_the_first_process_of_a_container_too() {
    let place = Place::new();
    let words = ["run", "x", "--", "sh", "-c", "echo started; exec sleep 1000"];
    let mut terminal = Shell::of_container(&place, &words);
    terminal.sees("started");
    terminal.presses("\u{3}");
    assert_eq!(terminal.code(), Some(130));
}

/// As under `ssh -t` or in a container: what is suspended there, nobody continues.
#[test]
fn ctrl_z_without_a_shell_suspends_nothing() {
    let place = Place::new();
    let mut session = Shell::of(&place, &["run", "x", "--", "sh", "-c", "echo up; read a; echo got $a"]);
    session.sees("up\n");
    session.presses(CTRL_Z);
    session.types("hello");
    session.sees("got hello\n");

    let mut holder = place.hold("y");
    let mut waiter = Shell::of(&place, &["run", "y", "--", "echo", "has", "it"]);
    waiter.sees("waiting: ");
    waiter.presses(CTRL_Z);
    holder.end_input();
    waiter.sees("has it\n");
}

#[test]
fn ctrl_z_suspends_the_job_and_fg_continues_it() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH run --ttl 1h x -- sh -c 'echo up $$; read a; echo got $a; exit 5'");
    shell.sees("up ");
    let command = Process::parse(&shell.sees("\n"));
    shell.presses(CTRL_Z);
    shell.sees("leasehold: suspended: the lock is not renewed");
    shell.sees("Stopped");
    shell.prompted();
    assert!(command.is_stopped());
    assert!(place.is_held("x"));
    shell.types("fg");
    shell.sees("\n");
    shell.types("hello");
    shell.sees("got hello\n");
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=5\n");
    assert!(!place.is_held("x"));
}

#[test]
fn suspended_job_loses_its_command_with_its_lease() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    // No child: a shell whose child was suspended before its exec does not stop until that goes on.
    shell.types("$LH run --ttl 900ms x -- sh -c 'trap \"\" TERM; echo up $$; exec sleep 1000'");
    shell.sees("up ");
    let command = Process::parse(&shell.sees("\n"));
    shell.presses(CTRL_Z);
    shell.sees("Stopped");
    shell.prompted();
    // It is not continued, and never runs again.
    gone(&[command]);
    let said = shell.runs("fg");
    assert!(said.contains("error[E_LOST]: lock \"x\" was lost"), "{said}");
    assert_eq!(shell.runs("echo rc=$?"), "rc=80\n");
}

/// A loss does not stop it, so only the shell ends its pause.
#[test]
fn suspended_job_with_on_lost_warn_goes_on_after_fg() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH run --on-lost warn --ttl 900ms x -- sh -c 'echo up; read a; echo got $a; exit 5'");
    shell.sees("up\n");
    shell.presses(CTRL_Z);
    shell.sees("leasehold: suspended: the lock is not renewed, and is lost in ");
    shell.sees("Stopped");
    shell.prompted();
    until("its lease is over", || !place.is_held("x"));
    shell.types("fg");
    shell.sees("warning: lock \"x\" was lost");
    shell.types("hello");
    shell.sees("got hello\n");
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=5\n");
}

#[test]
fn background_command_runs_until_it_reads_the_keyboard() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -q run --ttl 1h x -- sh -c 'echo up; read a; echo got $a' &");
    shell.sees("up\n");
    until("the job is suspended", || shell.runs("jobs").contains("Stopped"));
    shell.types("fg");
    shell.sees("\n");
    shell.types("hello");
    shell.sees("got hello\n");
}

#[test]
fn pager_behind_the_command_keeps_the_keyboard() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -q run x -- seq 3 | sh -c 'echo up; read a </dev/tty; echo got $a; cat'");
    shell.sees("up\n");
    shell.types("hello");
    shell.sees("got hello\n1\n2\n3\n");
}

/// The command goes on with it, and does not take the keyboard from it by that.
#[test]
fn pager_behind_the_command_keeps_the_keyboard_after_fg() {
    let place = Place::new();
    // A shell without a trap overlooks Ctrl-C if the `sleep` that it waits for ends by itself at that moment.
    place.file(
        "command",
        "trap 'echo goes on >&2' CONT; trap exit INT; echo up; while :; do sleep 0.01; done",
    );
    place.file("pager", "read up; echo $up; read a </dev/tty; echo got $a; read b </dev/tty; echo got $b");
    let mut shell = Shell::start(&place);
    shell.types("$LH run --ttl 1h x -- bash ./command | sh ./pager");
    shell.sees("up\n");
    shell.presses(CTRL_Z);
    shell.sees("Stopped");
    shell.prompted();
    shell.types("fg");
    shell.sees("goes on\n");
    // The terminal looks at whose turn it is when a read begins: the first one had begun before.
    shell.types("one");
    shell.sees("got one\n");
    shell.types("two");
    shell.sees("got two\n");
    shell.presses(CTRL_C);
    shell.prompted();
}

#[test]
fn command_in_a_pipe_gets_the_keyboard_on_request() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -q run x -- sh -c 'echo up; read a </dev/tty; echo got $a' | cat");
    shell.sees("up\n");
    shell.types("hello");
    shell.sees("got hello\n");
}

/// Its group is one that nobody could continue, and so it is never suspended with its command.
#[test]
fn job_without_a_shell_stops_asking_for_the_keyboard() {
    let place = Place::new();
    place.file("command", "echo $$ >started; until [ -e go ]; do sleep 0.01; done; read a </dev/tty");
    let mut shell = Shell::start(&place);
    shell.runs("($LH run x -- sh ./command &)");
    let started = || std::fs::read_to_string(place.path().join("started")).unwrap_or_default();
    until("the command is there", || started().ends_with('\n'));
    let command = Process::parse(&started());
    place.file("go", "");
    shell.sees("it wants the terminal, and nobody is there who could give it");
    assert!(command.is_stopped());
    assert!(place.is_held("x"));
    command.parent().unwrap().signal(Signal::KILL);
    until("the lock is given back", || !place.is_held("x"));
}

#[test]
fn keyboard_goes_back_to_a_script_without_job_control() {
    let place = Place::new();
    place.file("script", "$LH -q run x -- true; echo up; read a; echo got $a\n");
    let mut shell = Shell::start(&place);
    shell.types("sh ./script");
    shell.sees("up\n");
    shell.types("hello");
    shell.sees("got hello\n");
}
