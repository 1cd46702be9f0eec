//! Which processes there are, and which are left.

use crate::support::{Place, Running, gone, until};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn lock_is_released_when_the_command_ends_and_its_survivors_are_listed() {
    let place = Place::new();
    let script = "sleep 1000 >&- 2>&- & echo pid $!";
    let mut run = place.start(["run", "x", "--", "sh", "-c", script]);
    let left = run.process_line("pid ");
    let said = run.wait();
    let warning = format!(
        "warning: process {} is still there, without the lock; --wait-all waits for all that the command starts\n",
        left.number()
    );
    assert!(said.code(0).err.ends_with(&warning), "{said:?}");
    assert!(left.lives());
    assert!(!place.is_held("x"));
    left.signal(Signal::KILL);
}

/// As under a supervisor that reads signals from a descriptor, and hands its mask on.
#[test]
fn end_of_the_command_is_noticed_with_sigchld_blocked() {
    let place = Place::new();
    let mut command = Command::new("env");
    command.args([
        "--block-signal=CHLD",
        env!("CARGO_BIN_EXE_leasehold"),
        "run",
        "--ttl",
        "10m",
        "x",
        "--",
        "true",
    ]);
    place.settle(&mut command);
    let began = Instant::now();
    Running::start(command).wait().code(0);
    // Else with the next renewal, after three minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(!place.is_held("x"));
}

#[test]
fn daemon_outside_the_group_survives_the_end_of_the_command() {
    let place = Place::new();
    place.say(["try", "x"]);
    place.say(["run", "warm", "--", "true"]);
    // The command waits until the process has left, which it does before it says its number.
    let script =
        "exec 3< <(setsid sh -c 'echo pid $$; exec sleep 1000 >&- 2>&-'); read -r line <&3; echo \"$line\"";
    let mut run = place.start(["run", "x", "--", "bash", "-c", script]);
    let daemon = run.process_line("pid ");
    assert!(run.wait().code(0).err.contains("is still there, without the lock"));
    assert!(daemon.lives());
    daemon.signal(Signal::KILL);
}

#[test]
fn orphans_are_reaped_while_the_command_runs() {
    let place = Place::new();
    // Each of them loses its parent at once.
    let script = "for i in 1 2 3 4 5 6 7 8; do (sh -c 'echo pid $$' &); done; echo ready; exec sleep 1000";
    let mut run = place.start(["run", "x", "--", "sh", "-c", script]);
    let orphans: Vec<_> = (0..8).map(|_| run.process_line("pid ")).collect();
    until("no zombie is left", || {
        orphans.iter().all(|orphan| !std::path::Path::new(&format!("/proc/{}", orphan.number())).exists())
    });
}

#[test]
fn run_has_one_watchdog_and_one_command() {
    let place = Place::new();
    let mut run = place.start(["run", "x", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    let command = run.process_line("pid ");
    let watchdog = run.watchdog();
    assert_eq!(watchdog.child(), Some(command));
    let name = std::fs::read_to_string(format!("/proc/{}/comm", watchdog.number())).unwrap();
    assert_eq!(name, "lh-watchdog\n");
    run.signal(Signal::TERM);
    run.wait().code(143);
    gone(&[command, watchdog]);
}

#[test]
fn run_survives_the_removal_of_its_executable() {
    let place = Place::new();
    let copy = place.path().join("leasehold");
    // By a process of its own: a child that another test forks while this one has the copy open to write keeps it open until
    // it executes, and what is open to write cannot be executed.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_leasehold")).arg(&copy).status();
    assert!(copied.unwrap().success());
    let script = format!("rm {}; echo hello", copy.display());
    let mut command = Command::new(&copy);
    command.args(["-q", "run", "x", "--", "sh", "-c", &script]);
    place.settle(&mut command);
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"hello\n");
}

/// In a container the first process may never reap what comes to it.
#[test]
fn run_leaves_no_zombie() {
    let place = Place::new();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    // The command ends when its orphan is gone: one that outlives the command is nobody's zombie but the caller's.
    let script = "orphan=$( (sh -c 'echo $$' &) ); while kill -0 $orphan 2>/dev/null; do :; done; \
        echo pid $orphan; echo pid $$; until [ -e go ]; do :; done";
    let mut run = place.start(["run", "x", "--", "sh", "-c", script]);
    let processes = [run.process_line("pid "), run.process_line("pid "), run.watchdog()];
    place.file("go", "");
    run.wait().code(0);
    for process in processes {
        let left = std::path::PathBuf::from(format!("/proc/{}", process.number()));
        assert!(!left.exists(), "{process:?} is a zombie");
    }
}

/// As where the command has used up what the host has of memory or of descriptors.
#[test]
fn process_hidden_by_a_lack_of_resources_is_not_taken_for_gone() {
    for (is_watchdog, code) in [(false, 70), (true, 80)] {
        let place = Place::new();
        let script = "setsid sh -c 'echo stray $$; exec sleep 1000' & exec sleep 1000";
        let words = ["run", "-v", "--ttl", "9s", "--on-lost", "kill", "x", "--", "sh", "-c", script];
        let mut run = place.start(words);
        let stray = run.process_line("stray ");
        run.warned("started pid ");
        let looking = if is_watchdog { run.watchdog() } else { run.process() };
        looking.may_open(false);
        if is_watchdog {
            place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
        } else {
            run.watchdog().signal(Signal::KILL);
        }
        let before = looking.pauses();
        until("it looks again and again", || !run.is_running() || looking.pauses() > before + 50);
        assert!(run.is_running(), "it has ended, and the stray lives: {}", stray.lives());
        looking.may_open(true);
        run.wait().code(code);
        assert!(!stray.lives());
        assert!(!place.is_held("x"));
    }
}

/// A run that starts no command leaves no zombie either, such as a cron job that finds the lock held every minute.
#[test]
fn no_zombie_is_left_of_a_watchdog_that_had_nothing_to_do() {
    let place = Place::new();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let file = place.file("bad", "#!/there/is/no/such/interpreter\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut holder = place.hold("x");
    let waiters = [(); 2].map(|()| place.start_apart(["run", "x", "--", "./bad"]));
    let watchdogs = waiters.each_ref().map(Running::watchdog);
    let [interrupted, granted] = waiters;
    until("it listens", || interrupted.process().listens_to(Signal::TERM));
    interrupted.signal(Signal::TERM);
    interrupted.wait().code(143);
    holder.end_input();
    holder.wait().code(0);
    granted.wait().code(127);
    for process in watchdogs {
        let left = std::path::PathBuf::from(format!("/proc/{}", process.number()));
        assert!(!left.exists(), "{process:?} is a zombie");
    }
}

/// As in a container that was made without a `/proc` of its own.
#[test]
fn run_without_a_view_of_descendants_warns_that_they_may_go_on() {
    let (place, server) = Place::with_redis();
    let mut command = Command::new("unshare");
    let words = ["run", "--ttl", "1500ms", "x", "--", "sh", "-c", "echo ready; exec sleep 1000"];
    command.args(["-U", "-r", "-p", "-f", env!("CARGO_BIN_EXE_leasehold")]).args(words);
    place.settle(&mut command);
    let mut run = Running::start(command);
    run.line("ready");
    run.warned("warning: what leaves the command's process group cannot be found");
    server.pause();
    let said = run.wait();
    assert!(said.code(80).err.contains("may run beside the next holder's"), "{}", said.err);
}

/// There is nothing then by which the watchdog could be started, or what the command starts be found.
#[test]
fn run_without_proc_starts_nothing_and_says_how_to_mount_it() {
    let place = Place::new();
    let call = "mount -t tmpfs none /proc && exec \"$0\" run x -- echo ran";
    let mut command = Command::new("unshare");
    command.args(["-U", "-r", "-m", "sh", "-c", call, env!("CARGO_BIN_EXE_leasehold")]);
    place.settle(&mut command);
    let said = Running::start(command).wait();
    assert_eq!((said.code, said.out.as_str()), (Some(70), ""), "{said:?}");
    assert!(said.err.contains("\n  help     mount a /proc: "), "{said:?}");
}

/// flock(1) keeps its lock for as long as any process has the descriptor.
#[test]
fn lock_is_held_for_processes_outside_the_group_if_that_is_asked_for() {
    let place = Place::new();
    let script = "setsid sh -c 'echo up; read end < pipe' & exit 3";
    place.shell("mkfifo pipe");
    let mut run = place.start(["run", "--wait-all", "x", "--", "sh", "-c", script]);
    run.line("up");
    assert!(run.is_running() && place.is_held("x"));
    place.shell("echo > pipe");
    run.wait().code(3);
    assert!(!place.is_held("x"));

    let mut run = place.start(["run", "x", "--", "sh", "-c", script]);
    run.line("up");
    run.warned("still there, without the lock; --wait-all waits for all that the command starts");
    place.shell("echo > pipe");
    run.wait().code(3);
}

/// The group of the command is empty by then.
#[test]
fn signal_reaches_processes_that_a_command_has_left_outside_its_group() {
    let script = "echo command $$; setsid sleep 1000 >&- 2>&- & echo pid $!";
    for words in [&["run", "--wait-all"][..], &["elect"]] {
        let place = Place::new();
        let mut run = place.start([words, &["x", "--", "sh", "-c", script]].concat());
        let command = run.process_line("command ");
        let left = run.process_line("pid ");
        gone(&[command]);
        run.signal(Signal::TERM);
        run.wait().code(0);
        assert!(!left.lives(), "{words:?}");
    }
}

#[test]
fn wait_for_all_processes_is_refused_where_they_cannot_be_told() {
    let place = Place::new();
    let mut command = Command::new("unshare");
    let words = ["run", "--wait-all", "x", "--", "echo", "ran"];
    command.args(["-U", "-r", "-p", "-f", env!("CARGO_BIN_EXE_leasehold")]).args(words);
    place.settle(&mut command);
    let said = Running::start(command).wait();
    assert!(said.code(64).err.contains("invalid --wait-all: ") && said.out.is_empty(), "{said:?}");
}

/// As after `systemd-socket-activate`, which names the process that it executes.
#[test]
fn sockets_of_a_service_manager_are_the_commands() {
    let place = Place::new();
    let listen = "LISTEN_PID=$$ LISTEN_PIDFDID=1 LISTEN_FDS=1 exec \"$0\" -q run x -- sh -c 'echo $$ $LISTEN_PID $LISTEN_PIDFDID'";
    let said = place.shell(listen);
    let words: Vec<&str> = said.code(0).out.split_whitespace().collect();
    assert_eq!(words[0], words[1], "the command's own number");
    assert_ne!(words[2], "1", "the command's own descriptor");
    let watched =
        place.shell("WATCHDOG_PID=$$ exec \"$0\" -q run x -- sh -c 'echo $(( $$ - $WATCHDOG_PID ))'");
    watched.expect(0, "0\n", "");
    let other = place.shell("LISTEN_PID=1 exec \"$0\" -q run x -- sh -c 'echo $LISTEN_PID'");
    other.expect(0, "1\n", "");
    let missing = place.shell(
        "printf '#!/no/such/interpreter\\n' > odd; chmod +x odd; LISTEN_PID=$$ exec \"$0\" -q run x -- ./odd",
    );
    assert!(missing.code(127).err.contains("cannot execute \"./odd\""), "{missing:?}");
}
