//! A terminal is left as it was found, whoever was stopped or killed meanwhile.

use crate::support::{Place, Process, Shell, until};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;

const CTRL_S: &str = "\x13";

#[test]
fn terminal_changed_by_a_stopped_command_is_restored() {
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
fn terminal_changed_by_a_job_of_the_stopped_command_is_restored() {
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
fn terminal_of_a_job_is_restored_after_the_watchdog_is_killed() {
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
fn terminal_changed_by_a_killed_command_is_restored() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.runs("$LH -q run x -- sh -c 'stty -echo; kill -KILL $$'");
    let echo = shell.runs("stty -a | grep -o '[ -]echo '");
    assert!(echo.contains(" echo ") && !echo.contains("-echo "), "{echo:?}");
    // A command that exits by itself may have changed the modes on purpose.
    shell.runs("$LH -q run x -- stty -echo");
    shell.presses("stty -a | grep -o '[ -]echo '\n");
    shell.sees("-echo ");
}

/// By the memory limit of a container, say; nobody else knows then how the terminal was found.
#[test]
fn terminal_is_restored_without_the_watchdog() {
    let place = Place::new();
    let mut shell = Shell::start(&place);
    shell.types("$LH -v run x -- sh -c 'read go; stty raw -echo; kill -KILL $PPID; exec sleep 1000'");
    shell.sees("started pid ");
    shell.types("go");
    assert!(shell.prompted().contains("the watchdog was killed"));
    let echo = shell.runs("stty -a | grep -o '[ -]echo '");
    assert!(echo.contains(" echo ") && !echo.contains("-echo "), "{echo:?}");
}

/// Its process has had the terminal before it was to become the command. A script goes on to read from it.
#[test]
fn command_that_cannot_be_started_leaves_the_terminal_to_its_caller() {
    let place = Place::new();
    let file = place.file("bad", "#!/there/is/no/such/interpreter\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut shell = Shell::start(&place);
    shell.types(&format!("sh -c '$LH run x -- {}; echo then; read line; echo got $line'", file.display()));
    shell.sees("error[E_");
    shell.sees("then\n");
    shell.types("word");
    shell.sees("got word\n");
}

#[test]
fn killed_watchdog_of_a_background_job_leaves_the_terminal_alone() {
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
fn terminal_stopped_by_ctrl_s_does_not_delay_the_release() {
    let place = Place::new();
    // `yes` leaves the command's group, and outlives the command.
    let script = "echo pid $$; setsid yes & exec sleep 1000";
    let mut session = Shell::of(&place, &["-q", "run", "x", "--", "sh", "-c", script]);
    session.sees("pid ");
    let command = Process::parse(&session.sees("\n"));
    session.sees("y\ny\n");
    session.presses(CTRL_S);
    command.signal(Signal::KILL);
    until("the lock is given back", || !place.is_held("x"));
}
