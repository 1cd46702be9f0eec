//! What is not of the command is spared by whoever kills that.

use crate::support::{Place, Process, Running, gone, until};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A script may have started others before it became `leasehold` by exec.
#[test]
fn kill_without_the_watchdog_spares_processes_of_the_caller() {
    let place = Place::new();
    let mut command = Command::new("bash");
    place.settle(&mut command);
    let script = "sleep 1000 & echo stranger $!; exec \"$0\" run x -- sh -c 'echo pid $$; exec sleep 1000'";
    command.args(["-c", script, env!("CARGO_BIN_EXE_leasehold")]);
    let mut run = Running::start(command);
    let stranger = run.process_line("stranger ");
    kill_the_watchdog(&mut run);
    is_spared(&mut run, &stranger);
}

/// A `leasehold` that runs this when its lock is free, and an orphan that came to it from an earlier child of its process.
fn beside_an_orphan(place: &Place, command: &str) -> (Running, Process) {
    let mut holder = place.hold("x");
    let mut script = Command::new("bash");
    place.settle(&mut script);
    let earlier = "(sleep 1000 & echo stranger $!; until [ -e go ]; do sleep 0.01; done) &";
    let call = format!("{earlier} exec \"$0\" run -v x -- {command}");
    script.args(["-c", &call, env!("CARGO_BIN_EXE_leasehold")]);
    let mut run = Running::start(script);
    let stranger = run.process_line("stranger ");
    run.warned("waiting: \"x\" is held by ");
    place.file("go", "");
    until("its parent has ended", || stranger.parent() == Some(run.process()));
    holder.end_input();
    holder.wait().code(0);
    (run, stranger)
}

/// As a daemon that the script has started: its parent ends when it is ready.
#[test]
fn kill_without_the_watchdog_spares_orphans_of_the_caller() {
    let place = Place::new();
    let (mut run, stranger) = beside_an_orphan(&place, "sh -c 'echo pid $$; exec sleep 1000'");
    kill_the_watchdog(&mut run);
    is_spared(&mut run, &stranger);
}

#[test]
fn command_that_cannot_be_started_spares_orphans_of_the_caller() {
    let place = Place::new();
    let file = place.file("bad", "#!/there/is/no/such/interpreter\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (mut run, stranger) = beside_an_orphan(&place, "./bad");
    is_spared(&mut run, &stranger);
}

/// Kills the watchdog of a command that prints its pid; `leasehold` then kills the command.
fn kill_the_watchdog(run: &mut Running) {
    let command = run.process_line("pid ");
    until("the watchdog is found", || command.parent().is_some());
    command.parent().unwrap().signal(Signal::KILL);
    gone(&[command]);
}

fn is_spared(run: &mut Running, stranger: &Process) {
    until("leasehold has ended", || !run.is_running());
    assert!(stranger.lives());
    stranger.signal(Signal::KILL);
}
