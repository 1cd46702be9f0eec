//! At a terminal: Ctrl-C, Ctrl-Z, `fg`, `bg`, pagers, and who is asked.

use crate::support::{Place, Process, Shell, gone, until};
use rustix::process::Signal;

const CTRL_C: &str = "\x03";
const CTRL_S: &str = "\x13";
const CTRL_Z: &str = "\x1a";

#[test]
fn the_command_has_the_keyboard() {
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
fn ctrl_c_is_the_commands_to_take() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -q run x -- bash -c 'trap \"echo taken\" INT; echo up; while :; do sleep 0.01; done'");
    shell.sees("up\n");
    shell.presses(CTRL_C);
    shell.sees("taken\n");
    assert!(place.is_held("x"));
}

#[test]
fn ctrl_c_reaches_a_script_that_called_as_if_nobody_stood_between() {
    let place = Place::new();
    place.file("script", "$LH -q run x -- sh -c 'echo up; exec sleep 1000'\necho went on\n");
    let mut shell = Shell::start(&place);
    shell.types("sh ./script");
    shell.sees("up\n");
    shell.presses(CTRL_C);
    assert!(!shell.prompted().contains("went on"));
}

/// Whom the kernel does not let a signal end by default.
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
fn ctrl_z_suspends_nothing_where_there_is_no_shell() {
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
fn a_suspended_job_loses_its_command_with_its_lease_and_says_so_when_it_is_continued() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    // No child: a shell whose child was suspended before its exec does not stop until that goes on.
    shell.types("$LH run --ttl 900ms x -- sh -c 'trap \"\" TERM; echo up $$; exec sleep 1000'");
    shell.sees("up ");
    let command = Process::parse(&shell.sees("\n"));
    shell.presses(CTRL_Z);
    shell.sees("Stopped");
    shell.prompted();
    // Nobody continues it, and it never runs again.
    gone(&[command]);
    let said = shell.runs("fg");
    assert!(said.contains("error[E_LOST]: lock \"x\" was lost"), "{said}");
    assert_eq!(shell.runs("echo rc=$?"), "rc=80\n");
}

/// Nobody stops it, so that nothing but the shell ends its pause.
#[test]
fn a_suspended_job_that_no_loss_stops_goes_on_when_it_is_continued() {
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
fn in_the_background_it_runs_until_it_wants_the_keyboard() {
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
fn a_pager_behind_it_keeps_the_keyboard() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -q run x -- seq 3 | sh -c 'echo up; read a </dev/tty; echo got $a; cat'");
    shell.sees("up\n");
    shell.types("hello");
    shell.sees("got hello\n1\n2\n3\n");
}

#[test]
fn a_command_in_a_pipe_gets_the_keyboard_when_it_asks() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -q run x -- sh -c 'echo up; read a </dev/tty; echo got $a' | cat");
    shell.sees("up\n");
    shell.types("hello");
    shell.sees("got hello\n");
}

#[test]
fn the_keyboard_goes_back_to_a_script_without_job_control() {
    let place = Place::new();
    place.file("script", "$LH -q run x -- true; echo up; read a; echo got $a\n");
    let mut shell = Shell::start(&place);
    shell.types("sh ./script");
    shell.sees("up\n");
    shell.types("hello");
    shell.sees("got hello\n");
}

#[test]
fn a_terminal_that_a_stopped_command_had_changed_is_put_right() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH run --ttl 900ms x -- sh -c 'stty raw -echo; printf \"up\\r\\n\"; exec sleep 1000'");
    shell.sees("up\n");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    assert!(shell.prompted().contains("E_LOST"));
    // Typed lines are shown again, and end where they should.
    assert_eq!(shell.runs("echo rc=$?"), "rc=80\n");
}

/// As below a shell, which makes a group for each job and gives it the terminal.
#[test]
fn a_terminal_that_a_job_of_the_stopped_command_had_changed_is_put_right() {
    for on_lost in ["kill", "term"] {
        let place = Place::new();
        let mut shell = Shell::start(&place);
        // Neither bash nor its job ends by TERM.
        shell.types(&format!("$LH run --on-lost {on_lost} --ttl 900ms x -- bash --norc --noprofile -i"));
        shell.prompted();
        shell.types(
            "sh -c 'trap \"\" TERM; stty raw -echo; printf \"up\\r\\n\"; while :; do sleep 1000; done'",
        );
        shell.sees("up\n");
        place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
        assert!(shell.prompted().contains("E_LOST"));
        // Typed lines are shown again, and end where they should.
        assert_eq!(shell.runs("echo rc=$?"), "rc=80\n");
    }
}

#[test]
fn a_terminal_is_put_right_also_if_the_watchdog_dies_while_a_job_has_it() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -v run x -- bash --norc --noprofile -i");
    shell.sees("started pid ");
    let command = Process::parse(&shell.sees("\n"));
    // Its prompt may be there already, or come yet.
    shell.types("sh -c 'stty raw -echo; printf \"up\\r\\n\"; exec sleep 1000'");
    shell.sees("up\n");
    command.parent().unwrap().signal(Signal::KILL);
    assert!(shell.prompted().contains("the watchdog was killed"));
    assert_eq!(shell.runs("echo rc=$?"), "rc=70\n");
}

/// As a shell does for a command that it runs itself.
#[test]
fn one_that_was_killed_leaves_the_terminal_as_it_found_it() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.runs("$LH -q run x -- sh -c 'stty -echo; kill -KILL $$'");
    let echo = shell.runs("stty -a | grep -o '[ -]echo '");
    assert!(echo.contains(" echo ") && !echo.contains("-echo "), "{echo:?}");
    // One that ends by itself may mean it.
    shell.runs("$LH -q run x -- stty -echo");
    shell.presses("stty -a | grep -o '[ -]echo '\n");
    shell.sees("-echo ");
}

/// By the memory limit of a container, say; nobody else knows then how the terminal was found.
#[test]
fn a_terminal_is_put_right_also_without_the_watchdog() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -v run x -- sh -c 'read go; stty raw -echo; kill -KILL $PPID; exec sleep 1000'");
    shell.sees("started pid ");
    shell.types("go");
    assert!(shell.prompted().contains("the watchdog was killed"));
    let echo = shell.runs("stty -a | grep -o '[ -]echo '");
    assert!(echo.contains(" echo ") && !echo.contains("-echo "), "{echo:?}");
}

#[test]
fn in_the_background_a_killed_watchdog_takes_the_terminal_from_nobody() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -v run x -- sleep 1000 &");
    shell.sees("started pid ");
    let command = Process::parse(&shell.sees("\n"));
    command.parent().unwrap().signal(Signal::KILL);
    shell.sees("error[E_INTERNAL]: the watchdog was killed");
    assert!(shell.runs("echo $((40 + 2))").contains("42\n"));
}

/// While somebody else is in the middle of a line there.
#[test]
fn a_stopped_terminal_is_put_right_without_waiting_for_it() {
    let place = Place::new();
    // Not of the command's group: it outlives the command.
    let script = "echo pid $$; setsid yes & exec sleep 1000";
    let mut session = Shell::of(&place, &["-q", "run", "x", "--", "sh", "-c", script]);
    session.sees("pid ");
    let command = Process::parse(&session.sees("\n"));
    session.sees("y\ny\n");
    session.presses(CTRL_S);
    command.signal(Signal::KILL);
    until("the lock is given back", || !place.is_held("x"));
}

#[test]
fn whoever_waits_at_a_terminal_is_told_for_whom() {
    let place = Place::new();
    let _holder = place.hold("x");
    let mut shell = Shell::start(&place);
    shell.types("$LH run x -- true");
    shell.sees("leasehold: waiting: \"x\" is held by ada@");
    shell.presses(CTRL_C);
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=130\n");
}

#[test]
fn a_lock_is_taken_away_after_a_yes() {
    let place = Place::new();
    let _holder = place.hold("x");
    let mut shell = Shell::start(&place);
    shell.types("$LH release --force x");
    shell.sees("Take \"x\" away? Its holder may work on until its next renewal. [y/N] ");
    shell.types("");
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=1\n");
    assert!(place.is_held("x"));
    shell.types("$LH release --force x");
    shell.sees("[y/N] ");
    shell.types("y");
    shell.sees("leasehold: \"x\" was taken from its holder\n");
    assert!(!place.is_held("x"));
}

#[test]
fn the_table_fits_a_narrow_terminal() {
    let place = Place::new();
    let _held = [place.hold("a name of some length"), place.hold("b")];
    let mut shell = Shell::with_columns(&place, 60);
    let shown = shell.runs("$LH ls");
    assert!(shown.lines().count() > 3, "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 60, "{line}");
    }
}
